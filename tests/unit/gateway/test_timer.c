/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The timer heap against an unordered array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "gateway/timer.h"

#define N 300

struct entry {
	struct timer timer;
	bool armed;
	uint64_t at_ns;
	unsigned fired;
};

static struct timer_heap heap;
static struct entry entries[N];
static uint64_t last_fired_ns;

static void fire(struct timer *t, uint64_t now_ns)
{
	struct entry *e = container_of(t, struct entry, timer);

	assert_true(e->armed);
	assert_false(timer_armed(t));
	assert_true(e->at_ns <= now_ns);
	assert_true(e->at_ns >= last_fired_ns); /* in order */
	last_fired_ns = e->at_ns;
	e->armed = false;
	e->fired++;
}

static uint64_t naive_next(void)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < N; i++)
		if (entries[i].armed && entries[i].at_ns < next)
			next = entries[i].at_ns;
	return next;
}

static void test_random_operations(void **state)
{
	uint64_t now = 1000;

	memset(&heap, 0, sizeof(heap));
	memset(entries, 0, sizeof(entries));
	for (unsigned i = 0; i < N; i++)
		entries[i].timer.fn = fire;
	srand(11);
	for (int step = 0; step < 50000; step++) {
		struct entry *e = &entries[rand() % N];
		unsigned armed = 0;

		switch (rand() % 8) {
		case 0:
		case 1:
		case 2:
		case 3: /* arm or move, also into the past and onto equal times */
			e->at_ns = now + (uint64_t)(rand() % 200) - 20;
			e->armed = true;
			assert_int_equal(timer_arm(&heap, &e->timer, e->at_ns), 0);
			break;
		case 4:
		case 5:
			e->armed = false;
			timer_cancel(&heap, &e->timer);
			break;
		default:
			now += (uint64_t)(rand() % 5);
			last_fired_ns = 0;
			timer_run(&heap, now);
			assert_true(naive_next() > now);
		}
		assert_int_equal(timer_next_ns(&heap), naive_next());
		assert_int_equal(timer_armed(&e->timer), e->armed);
		if (step % 100)
			continue;
		for (unsigned i = 0; i < N; i++)
			armed += entries[i].armed;
		assert_int_equal(heap.n, armed);
	}
	last_fired_ns = 0;
	timer_run(&heap, UINT64_MAX);
	assert_int_equal(heap.n, 0);
	assert_int_equal(timer_next_ns(&heap), UINT64_MAX);
	timer_heap_free(&heap);
}

/* ---- what a timer may do while it runs ---- */

static struct timer a, b, c;
static unsigned a_fired, b_fired, c_fired;

static void fire_a(struct timer *t, uint64_t now_ns)
{
	if (++a_fired < 3)
		timer_arm(&heap, t, now_ns); /* itself, due at once */
	timer_cancel(&heap, &b);	     /* one that is due as well */
	timer_arm(&heap, &c, now_ns + 5);    /* moves one that was due */
}

static void fire_b(struct timer *t, uint64_t now_ns)
{
	b_fired++;
}

static void fire_c(struct timer *t, uint64_t now_ns)
{
	c_fired++;
}

static void test_arm_and_cancel_from_within(void **state)
{
	memset(&heap, 0, sizeof(heap));
	a = (struct timer){ .fn = fire_a };
	b = (struct timer){ .fn = fire_b };
	c = (struct timer){ .fn = fire_c };
	timer_arm(&heap, &a, 10);
	timer_arm(&heap, &b, 11);
	timer_arm(&heap, &c, 12);
	timer_run(&heap, 20);
	assert_int_equal(a_fired, 3);
	assert_int_equal(b_fired, 0);
	assert_int_equal(c_fired, 0);
	assert_int_equal(timer_next_ns(&heap), 25);
	timer_run(&heap, 24);
	assert_int_equal(c_fired, 0);
	timer_run(&heap, 25);
	assert_int_equal(c_fired, 1);
	timer_cancel(&heap, &c); /* not armed: harmless */
	timer_heap_free(&heap);
}

static void test_empty(void **state)
{
	struct timer_heap h = { 0 };
	struct timer t = { .fn = fire_b };

	timer_run(&h, UINT64_MAX);
	timer_cancel(&h, &t);
	assert_int_equal(timer_next_ns(&h), UINT64_MAX);
	timer_heap_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_operations),
		cmocka_unit_test(test_arm_and_cancel_from_within),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
