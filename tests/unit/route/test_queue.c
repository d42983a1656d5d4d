/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The waiting queue of a pool: order, fairness, bounds, Retry-After. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "route/queue.h"

#define S 1000000000ull

static struct queue_entry entry(uint64_t tenant, int priority, uint32_t cost)
{
	return (struct queue_entry){ .tenant = tenant, .priority = priority, .cost_tokens = cost };
}

/* One tenant, one priority: first come, first served. */
static void test_arrival_order(void **state)
{
	struct queue_entry e[10];
	struct queue q;

	assert_int_equal(queue_init(&q, 10), 0);
	for (int i = 0; i < 10; i++) {
		e[i] = entry(1, 0, 100);
		assert_int_equal(queue_push(&q, &e[i], S), 0);
	}
	assert_int_equal(queue_len(&q), 10);
	for (int i = 0; i < 10; i++) {
		assert_ptr_equal(queue_peek(&q), &e[i]);
		assert_ptr_equal(queue_pop(&q), &e[i]);
	}
	assert_null(queue_pop(&q));
	assert_int_equal(queue_len(&q), 0);
	queue_destroy(&q);
}

/* Higher priority goes first whoever has waited longer; values out of range are clamped. */
static void test_priority_first(void **state)
{
	static const int priority[] = { 0, -100, 5, 100, 7, -3, 1000, -1000 };
	static const int order[] = { 3, 6, 4, 2, 0, 5, 1, 7 };
	struct queue_entry e[8];
	struct queue q;

	assert_int_equal(queue_init(&q, 8), 0);
	for (int i = 0; i < 8; i++) {
		e[i] = entry(1, priority[i], 1);
		assert_int_equal(queue_push(&q, &e[i], S), 0);
	}
	for (int i = 0; i < 8; i++)
		assert_ptr_equal(queue_pop(&q), &e[order[i]]);
	queue_destroy(&q);
}

/* A tenant with a hundred waiting does not hold up one with three. */
static void test_tenants_take_turns(void **state)
{
	struct queue_entry big[100], small[3];
	struct queue q;
	int seen = 0;

	assert_int_equal(queue_init(&q, 200), 0);
	for (int i = 0; i < 100; i++) {
		big[i] = entry(1, 0, 50);
		queue_push(&q, &big[i], S);
	}
	for (int i = 0; i < 3; i++) {
		small[i] = entry(2, 0, 50);
		queue_push(&q, &small[i], S);
	}
	for (int i = 0; i < 6; i++)
		seen += queue_pop(&q)->tenant == 2;
	assert_int_equal(seen, 3);
	assert_int_equal(queue_len(&q), 97);
	queue_destroy(&q);
}

/* Fair by tokens, not by requests: one tenant's prompts cost ten times the
 * other's, so it gets a tenth of the turns. */
static void test_fair_by_cost(void **state)
{
	static struct queue_entry a[1100], b[1100];
	uint64_t tokens_a = 0, tokens_b = 0;
	struct queue q;

	assert_int_equal(queue_init(&q, 2200), 0);
	for (int i = 0; i < 1100; i++) {
		a[i] = entry(1, 0, 1000);
		b[i] = entry(2, 0, 100);
		queue_push(&q, &a[i], S);
		queue_push(&q, &b[i], S);
	}
	for (int i = 0; i < 1100; i++) {
		struct queue_entry *e = queue_pop(&q);

		*(e->tenant == 1 ? &tokens_a : &tokens_b) += e->cost_tokens;
	}
	assert_in_range(tokens_a, tokens_b - 1000, tokens_b + 1000);
	queue_destroy(&q);
}

/* One big request at a time pays too: the tenant's flow runs empty after each,
 * yet its debt is remembered, so that tenants share by tokens. */
static void test_debt_outlives_an_empty_line(void **state)
{
	struct queue_entry big = entry(1, 0, 1000), small[200];
	uint64_t served_big = 0;
	struct queue q;

	assert_int_equal(queue_init(&q, 300), 0);
	for (int i = 0; i < 200; i++) {
		small[i] = entry(2, 0, 10);
		queue_push(&q, &small[i], S);
	}
	queue_push(&q, &big, S);
	for (int i = 0; i < 150; i++) {
		struct queue_entry *e = queue_pop(&q);

		if (e == &big) {
			served_big++;
			assert_int_equal(queue_push(&q, &big, S), 0);
		}
	}
	/* 148 small ones are 1480 tokens: room for two big ones. */
	assert_int_equal(served_big, 2);
	queue_destroy(&q);
}

/* A tenant that comes late gets its share from now on, not for the time it was away. */
static void test_no_credit_for_absence(void **state)
{
	struct queue_entry a[60], b[60];
	struct queue q;
	int seen_b = 0;

	assert_int_equal(queue_init(&q, 200), 0);
	for (int i = 0; i < 60; i++) {
		a[i] = entry(1, 0, 10);
		queue_push(&q, &a[i], S);
	}
	for (int i = 0; i < 30; i++)
		queue_pop(&q);
	for (int i = 0; i < 60; i++) {
		b[i] = entry(2, 0, 10);
		queue_push(&q, &b[i], S);
	}
	for (int i = 0; i < 20; i++)
		seen_b += queue_pop(&q)->tenant == 2;
	assert_in_range(seen_b, 9, 11);
	queue_destroy(&q);
}

static void test_bounded(void **state)
{
	struct queue_entry a = entry(1, 0, 1), b = entry(2, 0, 1), c = entry(3, 9, 1);
	struct queue q;

	assert_int_equal(queue_init(&q, 2), 0);
	assert_int_equal(queue_push(&q, &a, S), 0);
	assert_int_equal(queue_push(&q, &a, S), -EALREADY);
	assert_int_equal(queue_push(&q, &b, S), 0);
	assert_int_equal(queue_push(&q, &c, S), -ENOSPC);
	assert_false(queue_remove(&q, &c));
	assert_int_equal(q.refused, 1);
	assert_int_equal(queue_len(&q), 2);
	queue_destroy(&q);

	assert_int_equal(queue_init(&q, 0), 0);
	c = entry(3, 9, 1);
	assert_int_equal(queue_push(&q, &c, S), -ENOSPC);
	assert_null(queue_pop(&q));
	queue_destroy(&q);

	assert_int_equal(queue_init(&q, QUEUE_REQUESTS_MAX + 1), -EINVAL);
}

/* A client that gives up in the middle, at the head, or alone leaves no trace. */
static void test_remove(void **state)
{
	struct queue_entry e[5];
	struct queue q;

	assert_int_equal(queue_init(&q, 5), 0);
	for (int i = 0; i < 5; i++) {
		e[i] = entry(1, 0, 1);
		queue_push(&q, &e[i], 1);
	}
	assert_true(queue_remove(&q, &e[2]));
	assert_false(queue_remove(&q, &e[2]));
	assert_true(queue_remove(&q, &e[0]));
	assert_true(queue_remove(&q, &e[4]));
	assert_ptr_equal(queue_pop(&q), &e[1]);
	assert_ptr_equal(queue_pop(&q), &e[3]);
	assert_null(queue_pop(&q));
	assert_int_equal(q.removed, 3);
	queue_destroy(&q);
}

/* An entry put back is the next again, and its tenant has paid nothing. */
static void test_unpop(void **state)
{
	struct queue_entry a[2], b[2], *e;
	struct queue q;

	assert_int_equal(queue_init(&q, 4), 0);
	for (int i = 0; i < 2; i++) {
		a[i] = entry(1, 0, 10);
		b[i] = entry(2, 0, 10);
		queue_push(&q, &a[i], S);
		queue_push(&q, &b[i], S);
	}
	for (int i = 0; i < 3; i++) {
		e = queue_pop(&q);
		assert_ptr_equal(e, &a[0]);
		assert_int_equal(queue_unpop(&q, e), 0);
		assert_int_equal(queue_unpop(&q, e), -EALREADY);
	}
	assert_int_equal(q.popped, 0);
	assert_ptr_equal(queue_pop(&q), &a[0]);
	assert_ptr_equal(queue_pop(&q), &b[0]);
	assert_ptr_equal(queue_pop(&q), &a[1]);
	assert_ptr_equal(queue_pop(&q), &b[1]);
	queue_destroy(&q);
}

/* A reload that lowers the limit drops nobody; one that raises it keeps the order. */
static void test_limit_changes_under_way(void **state)
{
	static struct queue_entry e[500];
	struct queue q;
	int n = 0;

	assert_int_equal(queue_init(&q, 10), 0);
	for (; n < 10; n++) {
		e[n] = entry((uint64_t)n, n % 3, 7);
		assert_int_equal(queue_push(&q, &e[n], 1), 0);
	}
	assert_int_equal(queue_set_limit(&q, 2), 0);
	e[n] = entry(1, 0, 1);
	assert_int_equal(queue_push(&q, &e[n], 1), -ENOSPC);
	assert_int_equal(queue_len(&q), 10);
	assert_int_equal(queue_set_limit(&q, 500), 0);
	for (; n < 500; n++) {
		e[n] = entry((uint64_t)n % 40, n % 3, 7);
		assert_int_equal(queue_push(&q, &e[n], 1), 0);
	}
	for (int i = 0, last = 2; i < 500; i++) {
		struct queue_entry *got = queue_pop(&q);

		assert_non_null(got);
		assert_true(got->priority <= last);
		last = got->priority;
	}
	assert_null(queue_pop(&q));
	queue_destroy(&q);
}

/* Many tenants come and go: idle flows are recycled, never used up. */
static void test_tenants_without_end(void **state)
{
	struct queue_entry e[4];
	struct queue q;

	assert_int_equal(queue_init(&q, 4), 0);
	for (uint64_t round = 0; round < 20000; round++) {
		for (uint64_t i = 0; i < 4; i++) {
			e[i] = entry(round * 4 + i, (int)(round % 201) - 100, (uint32_t)round);
			assert_int_equal(queue_push(&q, &e[i], round), 0);
		}
		for (int i = 0; i < 4; i++)
			assert_non_null(queue_pop(&q));
	}
	assert_int_equal(queue_len(&q), 0);
	queue_destroy(&q);
}

/* Random operations against a list kept beside it: the same set of entries at
 * any time, priorities never inverted, one tenant never out of order. */
static void test_random_against_model(void **state)
{
	enum { N = 64 };
	static struct queue_entry e[N];
	bool in[N] = { false };
	uint64_t now = 1;
	struct queue q;
	int len = 0;

	srand(7);
	assert_int_equal(queue_init(&q, N - 10), 0);
	for (int step = 0; step < 200000; step++) {
		int i = rand() % N, op = rand() % 10;
		struct queue_entry *got = NULL;

		now += (uint64_t)rand() % 1000;
		if (op < 5 && !in[i]) {
			int err;

			e[i] = entry((uint64_t)(rand() % 7), rand() % 4, (uint32_t)(rand() % 300));
			err = queue_push(&q, &e[i], now);
			assert_int_equal(err, len >= N - 10 ? -ENOSPC : 0);
			if (!err) {
				in[i] = true;
				len++;
			}
		} else if (op < 7) {
			got = queue_pop(&q);
			assert_int_equal(got != NULL, len > 0);
			for (int k = 0; got && k < N; k++) {
				if (!in[k] || &e[k] == got)
					continue;
				assert_true(e[k].priority <= got->priority);
				if (e[k].priority == got->priority && e[k].tenant == got->tenant)
					assert_true(e[k].seq > got->seq);
			}
			if (got && rand() % 4 == 0) {
				assert_int_equal(queue_unpop(&q, got), 0);
				assert_ptr_equal(queue_peek(&q), got);
				got = NULL;
			}
		} else {
			assert_int_equal(queue_remove(&q, &e[i]), in[i]);
			if (in[i])
				got = &e[i];
		}
		if (got) {
			assert_true(in[got - e]);
			in[got - e] = false;
			len--;
		}
		assert_int_equal(queue_len(&q), len);
	}
	queue_destroy(&q);
}

/* Retry-After comes from the pace at which slots really come free. */
static void test_retry_after_follows_the_drain_rate(void **state)
{
	static struct queue_entry e[101];
	struct queue q;
	uint64_t now = 100 * S;

	assert_int_equal(queue_init(&q, 100), 0);
	assert_int_equal(queue_retry_after_s(&q, now, 600), 1);
	for (int i = 0; i < 100; i++) {
		e[i] = entry(1, 0, 1);
		queue_push(&q, &e[i], now);
	}
	/* 5 slots a second for a minute, each taken by a waiter, each waiter replaced. */
	for (int i = 0; i < 300; i++) {
		struct queue_entry *got;

		now += S / 5;
		queue_note_release(&q, now);
		got = queue_pop(&q);
		queue_push(&q, got, now);
	}
	assert_true(fabs(queue_drain_rate(&q, now) - 5) < 0.5);
	assert_in_range(queue_retry_after_s(&q, now, 600), 19, 23); /* 101 / 5 */

	/* Nothing comes free any more: it climbs, to the bound. */
	assert_true(queue_retry_after_s(&q, now + 20 * S, 600) > 30);
	assert_int_equal(queue_retry_after_s(&q, now + 1000 * S, 600), QUEUE_RETRY_AFTER_MAX_S);

	/* The queue empties, an hour of calm passes: calm is not slowness. */
	while (queue_pop(&q))
		;
	queue_note_release(&q, now);
	now += 3600 * S;
	for (int i = 0; i < 50; i++)
		queue_note_release(&q, now += 10 * S);
	assert_true(fabs(queue_drain_rate(&q, now) - 5) < 0.6);
	queue_destroy(&q);
}

/* Without a queue, refusals and the releases after them are all there is to measure. */
static void test_retry_after_without_a_queue(void **state)
{
	struct queue_entry e = entry(1, 0, 1);
	uint64_t now = S;
	struct queue q;

	assert_int_equal(queue_init(&q, 0), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(queue_push(&q, &e, now), -ENOSPC);
		now += 20 * S;
		queue_note_release(&q, now);
		now += 5 * S;
	}
	assert_in_range(queue_retry_after_s(&q, now, 600), 19, 21);
	queue_destroy(&q);
}

/* A hundred requests in the first instant of a pool of 64 slots were told to come back after
 * 100 s, at one a second; all were served in 4 s. Whatever is assumed, nobody is sent
 * away for longer than the queue's own timeout. */
static void test_retry_after_of_a_fresh_burst(void **state)
{
	static struct queue_entry e[100];
	uint64_t now = 7 * S;
	struct queue q;

	assert_int_equal(queue_init(&q, 100), 0);
	queue_set_slots(&q, 64);
	for (int i = 0; i < 100; i++) {
		e[i] = entry(1, 0, 1);
		queue_push(&q, &e[i], now);
	}
	assert_in_range(queue_retry_after_s(&q, now, 600), 2, 10);
	queue_set_slots(&q, 1);
	assert_int_equal(queue_retry_after_s(&q, now, 600), 101);
	assert_int_equal(queue_retry_after_s(&q, now, 30), 30);
	assert_int_equal(queue_retry_after_s(&q, now, 0), 1);
	/* what was measured stays, also when the number of slots changes */
	for (int i = 0; i < 300; i++) {
		struct queue_entry *got;

		now += S / 5;
		queue_note_release(&q, now);
		got = queue_pop(&q);
		queue_push(&q, got, now);
	}
	queue_set_slots(&q, 1000);
	assert_true(fabs(queue_drain_rate(&q, now) - 5) < 0.5);
	queue_destroy(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrival_order),
		cmocka_unit_test(test_priority_first),
		cmocka_unit_test(test_tenants_take_turns),
		cmocka_unit_test(test_fair_by_cost),
		cmocka_unit_test(test_debt_outlives_an_empty_line),
		cmocka_unit_test(test_no_credit_for_absence),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_remove),
		cmocka_unit_test(test_unpop),
		cmocka_unit_test(test_limit_changes_under_way),
		cmocka_unit_test(test_tenants_without_end),
		cmocka_unit_test(test_random_against_model),
		cmocka_unit_test(test_retry_after_follows_the_drain_rate),
		cmocka_unit_test(test_retry_after_without_a_queue),
		cmocka_unit_test(test_retry_after_of_a_fresh_burst),
	};

	return cmocka_run_group_tests_name("route/queue", tests, NULL, NULL);
}
