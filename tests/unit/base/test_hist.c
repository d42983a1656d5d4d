/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Histograms: bounds, where a value lands, sums over writers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/hist.h"

#define MS 1000000ull
#define S 1000000000ull

static const struct hist_bounds *const all[] = { &hist_bounds_ttft, &hist_bounds_queue, &hist_bounds_decision,
						 &hist_bounds_added };

static void test_bounds_ascend(void **state)
{
	for (unsigned k = 0; k < 4; k++) {
		assert_in_range(all[k]->n, 2, HIST_BUCKETS_MAX);
		for (unsigned i = 1; i < all[k]->n; i++)
			assert_true(all[k]->le_ns[i] > all[k]->le_ns[i - 1]);
	}
	assert_int_equal(hist_bounds_ttft.le_ns[0], MS);
	assert_int_equal(hist_bounds_ttft.le_ns[hist_bounds_ttft.n - 1], 300 * S);
	assert_int_equal(hist_bounds_decision.le_ns[0], 1000);
	assert_int_equal(hist_bounds_decision.le_ns[hist_bounds_decision.n - 1], 10 * MS);
	assert_int_equal(hist_bounds_added.le_ns[0], 10000);
	assert_int_equal(hist_bounds_added.le_ns[hist_bounds_added.n - 1], 100 * MS);
}

/* `le` is inclusive; one above the last bound is +Inf. */
static void test_value_on_its_bound(void **state)
{
	for (unsigned k = 0; k < 4; k++)
		for (unsigned i = 0; i < all[k]->n; i++) {
			struct hist h = { 0 };

			hist_observe(&h, all[k], all[k]->le_ns[i]);
			hist_observe(&h, all[k], all[k]->le_ns[i] + 1);
			assert_int_equal(h.bucket[i], 1);
			assert_int_equal(h.bucket[i + 1], 1);
			assert_int_equal(h.count, 2);
			assert_int_equal(h.sum_ns, 2 * all[k]->le_ns[i] + 1);
		}
}

static void test_add(void **state)
{
	struct hist a = { 0 }, b = { 0 }, sum = { 0 };

	hist_observe(&a, &hist_bounds_ttft, 0);
	hist_observe(&a, &hist_bounds_ttft, 3 * S);
	hist_observe(&b, &hist_bounds_ttft, 3 * S);
	hist_observe(&b, &hist_bounds_ttft, 1000 * S);
	hist_add(&sum, &a);
	hist_add(&sum, &b);
	assert_int_equal(sum.count, 4);
	assert_int_equal(sum.sum_ns, 1006 * S);
	assert_int_equal(sum.bucket[0], 1);
	assert_int_equal(sum.bucket[11], 2); /* 2.5 s < x <= 5 s */
	assert_int_equal(sum.bucket[hist_bounds_ttft.n], 1);
}

struct shared {
	struct hist h;
	bool stop;
};

static void *write_forever(void *arg)
{
	struct shared *s = arg;

	for (uint64_t i = 0; i < 200000; i++)
		hist_observe(&s->h, &hist_bounds_ttft, i * 1000);
	__atomic_store_n(&s->stop, true, __ATOMIC_RELEASE);
	return NULL;
}

/* A reader beside the writer never sees a counter go back. */
static void test_reader_beside_the_writer(void **state)
{
	struct shared s = { 0 };
	uint64_t last = 0;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, write_forever, &s), 0);
	while (!__atomic_load_n(&s.stop, __ATOMIC_ACQUIRE)) {
		struct hist now = { 0 };

		hist_add(&now, &s.h);
		assert_true(now.count >= last);
		last = now.count;
	}
	pthread_join(t, NULL);
	assert_int_equal(s.h.count, 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds_ascend),
		cmocka_unit_test(test_value_on_its_bound),
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_reader_beside_the_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
