/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The prefix index: its bounds, hashes that collide, forgetting, adoption. */

#include "index_help.h"

/* A tree that grew between periodic evictions ran a router out of memory: here the cap holds at every insert. */
static void hard_cap_at_insert(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t i;

	region_open(&r, 4, 1000, UINT64_MAX / 2); /* no node limit: only the region's */
	for (i = 0; i < 2000; i++) {
		fill_chain(i, 50, hash, bytes);
		index_insert(&r.ix, i % 4, hash, bytes, 50, index_next_stamp(&r.ix), false, &res);
		assert_int_equal(res.kept, 50);
		assert_true(index_total_pairs(&r.ix) <= 1000);
		if (i % 100 == 0)
			assert_int_equal(index_verify(&r.ix), 0);
	}
	assert_true(index_total_pairs(&r.ix) > 900);
	assert_true(index_evictions(&r.ix) > 90000);
	region_close(&r);
}

static void under_64_bytes_a_pair(void **state)
{
	static const uint32_t nodes[] = { 8, 64, 256 };
	uint32_t i;

	for (i = 0; i < 3; i++)
		assert_true(index_bytes(nodes[i], 1000000) < 64ull * 1000000);
}

static void chain_larger_than_node_keeps_its_start(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t run[INDEX_MAX_NODES];

	region_open(&r, 2, 1000, 10 * 256);
	fill_chain(1, 30, hash, bytes);
	index_insert(&r.ix, 0, hash, bytes, 30, index_next_stamp(&r.ix), false, &res);
	assert_int_equal(res.kept, 10);
	index_match(&r.ix, hash, 30, run);
	assert_int_equal(run[0], 10);
	assert_int_equal(run[1], 0);
	assert_int_equal(index_retract(&r.ix, 0, hash, res.kept, res.first_pending, 1), 10);
	assert_int_equal(index_verify(&r.ix), 0);
	region_close(&r);
}

/* A client can make block hashes of one chain collide; the index must survive that. */
static void colliding_hashes_are_harmless(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t i, k, n;

	region_open(&r, 3, 1000, 8000);
	for (i = 0; i < 20000; i++) {
		n = 1 + (uint32_t)(rng() % 20);
		for (k = 0; k < n; k++) {
			hash[k] = mix(rng() % 12, 0);
			bytes[k] = (uint16_t)(rng() % 257);
		}
		index_insert(&r.ix, i % 3, hash, bytes, n, index_next_stamp(&r.ix), rng() % 2, &res);
		assert_true(res.kept <= n);
		if (rng() % 3 == 0)
			index_retract(&r.ix, i % 3, hash, res.kept, res.first_pending, i + 1);
		if (rng() % 50 == 0)
			index_forget_node(&r.ix, i % 3);
		index_sweep(&r.ix, 2);
		assert_int_equal(index_verify(&r.ix), 0);
	}
	region_close(&r);
}

/* Void entries are cleared little by little; meanwhile nothing of them matches, and new ones count at once after. */
static void forgetting_is_lazy(void **state)
{
	uint64_t hash[MAX_CHAIN], other[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t run[INDEX_MAX_NODES];

	region_open(&r, 2, 1000, 100000);
	fill_chain(1, 40, hash, bytes);
	fill_chain(2, 40, other, bytes);
	index_insert(&r.ix, 0, hash, bytes, 40, index_next_stamp(&r.ix), true, &res);
	index_insert(&r.ix, 1, hash, bytes, 40, index_next_stamp(&r.ix), true, &res);
	index_insert(&r.ix, 0, other, bytes, 40, index_next_stamp(&r.ix), true, &res);
	index_forget_node(&r.ix, 0);
	index_match(&r.ix, hash, 40, run);
	assert_int_equal(run[0], 0);
	assert_int_equal(run[1], 40);
	/* Re-made in part while its old entries are still there. */
	index_insert(&r.ix, 0, hash, bytes, 20, index_next_stamp(&r.ix), false, &res);
	assert_int_equal(res.first_made, 0);
	assert_int_equal(res.kept, 20);
	assert_int_equal(index_verify(&r.ix), 0);
	while (index_sweep(&r.ix, 7))
		assert_true(index_node_dirty(&r.ix, 0));
	assert_false(index_node_dirty(&r.ix, 0));
	index_match(&r.ix, hash, 40, run);
	assert_int_equal(run[0], 20);
	assert_int_equal(index_node_blocks(&r.ix, 0), 20);
	assert_int_equal(index_verify(&r.ix), 0);
	region_close(&r);
}

static void adoption(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct prefix_index other;
	struct region r;
	uint32_t run[INDEX_MAX_NODES];
	void *copy;

	region_open(&r, 8, 1000, 100000);
	fill_chain(1, 40, hash, bytes);
	index_insert(&r.ix, 5, hash, bytes, 40, index_next_stamp(&r.ix), true, &res);
	/* Elsewhere in memory: no pointer inside. */
	copy = mmap(NULL, r.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(copy, MAP_FAILED);
	memcpy(copy, r.mem, r.bytes);
	assert_int_equal(index_attach(&other, copy, r.bytes, 8, 42), 0);
	index_match(&other, hash, 40, run);
	assert_int_equal(run[5], 40);
	assert_int_equal(index_verify(&other), 0);
	assert_int_not_equal(index_attach(&other, copy, r.bytes, 8, 43), 0);
	assert_int_not_equal(index_attach(&other, copy, r.bytes, 9, 42), 0);
	assert_int_not_equal(index_attach(&other, copy, r.bytes / 2, 8, 42), 0);
	munmap(copy, r.bytes);
	region_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hard_cap_at_insert),
		cmocka_unit_test(under_64_bytes_a_pair),
		cmocka_unit_test(chain_larger_than_node_keeps_its_start),
		cmocka_unit_test(colliding_hashes_are_harmless),
		cmocka_unit_test(forgetting_is_lazy),
		cmocka_unit_test(adoption),
	};

	return cmocka_run_group_tests_name("route/index", tests, NULL, NULL);
}
