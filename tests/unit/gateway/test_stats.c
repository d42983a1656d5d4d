/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counters of the workers and their sums: every field arrives in its own place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/stats.h"

#define WORKERS 3

static struct stats_worker *w[WORKERS];

static int setup(void **state)
{
	for (unsigned i = 0; i < WORKERS; i++)
		w[i] = calloc(1, sizeof(*w[i]));
	return 0;
}

static int teardown(void **state)
{
	for (unsigned i = 0; i < WORKERS; i++)
		stats_worker_free(w[i]);
	return 0;
}

/* Every 64-bit word of the block gets a value of its own; the sum must hold three times as
 * much, in the same place: a field that the sum forgets or misplaces shows. */
static void fill(void *block, size_t bytes, uint64_t base)
{
	uint64_t *p = block;

	for (size_t i = 0; i < bytes / 8; i++)
		p[i] = base + i;
}

static void compare(const void *sum, size_t bytes, uint64_t base)
{
	const uint64_t *p = sum;

	for (size_t i = 0; i < bytes / 8; i++)
		if (p[i] != WORKERS * (base + i))
			fail_msg("word %zu: %llu", i, (unsigned long long)p[i]);
}

static void test_backend_sum(void **state)
{
	struct stats_backend sum = { 0 };

	for (unsigned i = 0; i < WORKERS; i++)
		fill(stats_backend_get(w[i], 7), sizeof(sum), 1000);
	stats_backend_sum(w, WORKERS, 7, &sum);
	compare(&sum, sizeof(sum), 1000);
	memset(&sum, 0, sizeof(sum));
	stats_backend_sum(w, WORKERS, 8, &sum); /* never used */
	assert_int_equal(sum.prompt_tokens, 0);
}

static void test_pool_sum(void **state)
{
	struct stats_pool sum = { 0 };

	for (unsigned i = 0; i < WORKERS; i++)
		fill(stats_pool_get(w[i], 511), sizeof(sum), 5);
	stats_pool_sum(w, WORKERS, 511, &sum);
	compare(&sum, sizeof(sum), 5);
}

static void test_worker_sum(void **state)
{
	struct stats_worker *sum = calloc(1, sizeof(*sum));
	const size_t plain = offsetof(struct stats_worker, backend); /* what is not per row or slot */

	for (unsigned i = 0; i < WORKERS; i++)
		fill(w[i], plain, 9);
	stats_worker_sum(w, WORKERS, sum);
	compare(sum, plain, 9);
	free(sum);
}

/* A row or a slot that another backend or pool takes over begins at nothing, and counts on from there. */
static void test_restart(void **state)
{
	struct stats_pool *sp = calloc(1, sizeof(*sp));
	struct stats_backend *sb = calloc(1, sizeof(*sb));

	for (unsigned i = 0; i < 2; i++) {
		fill(stats_pool_get(w[i], 3), sizeof(*sp), 70);
		fill(stats_backend_get(w[i], 3), sizeof(*sb), 70);
	}
	stats_pool_restart(w, WORKERS, w[2], 3);
	stats_backend_restart(w, WORKERS, w[2], 3);
	stats_pool_sum(w, WORKERS, 3, sp);
	stats_backend_sum(w, WORKERS, 3, sb);
	for (size_t i = 0; i < sizeof(*sp) / 8; i++)
		assert_int_equal(((uint64_t *)sp)[i], 0);
	for (size_t i = 0; i < sizeof(*sb) / 8; i++)
		assert_int_equal(((uint64_t *)sb)[i], 0);
	stat_add(&stats_pool_get(w[1], 3)->local[404 - STATS_CODE_MIN], 2);
	stats_pool_restart(w, WORKERS, w[2], 4); /* another slot */
	memset(sp, 0, sizeof(*sp));
	stats_pool_sum(w, WORKERS, 3, sp);
	assert_int_equal(sp->local[404 - STATS_CODE_MIN], 2);
	stats_pool_restart(w, WORKERS, w[2], 3); /* and again */
	memset(sp, 0, sizeof(*sp));
	stats_pool_sum(w, WORKERS, 3, sp);
	assert_int_equal(sp->local[404 - STATS_CODE_MIN], 0);
	free(sp);
	free(sb);
}

/* The same block each time; out of range is nothing, not another's memory. */
static void test_blocks(void **state)
{
	assert_ptr_equal(stats_backend_get(w[0], 0), stats_backend_get(w[0], 0));
	assert_ptr_not_equal(stats_backend_get(w[0], 0), stats_backend_get(w[1], 0));
	assert_non_null(stats_backend_get(w[0], BACKENDS_MAX_ROWS - 1));
	assert_null(stats_backend_get(w[0], BACKENDS_MAX_ROWS));
	assert_null(stats_backend_get(w[0], UINT32_MAX));
	assert_non_null(stats_pool_get(w[0], 0));
	assert_non_null(stats_pool_get(w[0], STATS_POOLS_MAX - 1));
	assert_null(stats_pool_get(w[0], STATS_POOLS_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_backend_sum, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pool_sum, setup, teardown),
		cmocka_unit_test_setup_teardown(test_worker_sum, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_blocks, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
