/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The placement key: the first block that lies deeper than 64 tokens and is not hot (10 % of the
 * traffic or more), else the last; what heat is; and which node a key belongs to. */
#include "fixture.h"

#include <math.h>

#include "route/heat.h"
#include "route/hrw.h"
#include "route/pool_internal.h"

/* ---- heat ------------------------------------------------------------------------- */

/* `of` requests in a hundred begin with the block 7. */
static struct heat *heat_of(uint32_t of, uint32_t requests, uint64_t now_ns)
{
	struct heat *h = calloc(1, sizeof(*h));
	uint32_t i;

	assert_non_null(h);
	for (i = 0; i < requests; i++) {
		uint64_t hash[2] = { i % 100 < of ? 7 : 1000 + i, 5000 + i };

		heat_add(h, hash, 2, now_ns);
	}
	return h;
}

static void share_is_of_the_traffic(void **state)
{
	static const uint32_t of[] = { 0, 1, 9, 10, 11, 50, 100 };
	uint32_t i;

	for (i = 0; i < sizeof(of) / sizeof(*of); i++) {
		struct heat *h = heat_of(of[i], 100, FX_S);

		assert_true(fabs(heat_share(h, 7, FX_S) - of[i] / 100.0) < 1e-9);
		/* Both decay alike: the share stays while nothing comes, until too little is left to say. */
		assert_true(fabs(heat_share(h, 7, 31 * FX_S) - of[i] / 100.0) < 1e-9);
		assert_true(heat_share(h, 7, 91 * FX_S) == 0);
		assert_true(heat_share(h, 8, FX_S) == 0);
		free(h);
	}
}

/* A share of less than HEAT_MIN_TOTAL requests says nothing: two of ten are no hot prefix. */
static void a_share_needs_some_traffic(void **state)
{
	struct heat *h = heat_of(100, 19, FX_S);

	assert_true(heat_share(h, 7, FX_S) == 0);
	heat_add(h, &(uint64_t){ 7 }, 1, FX_S);
	assert_true(fabs(heat_share(h, 7, FX_S) - 1) < 1e-9);
	free(h);
}

/* Time constant 30 s: what was all of the traffic is e^-1 of as much traffic 30 s later. */
static void heat_decays(void **state)
{
	struct heat *h = heat_of(100, 100, FX_S);
	uint32_t i;

	for (i = 0; i < 100; i++)
		heat_add(h, &(uint64_t){ 9 }, 1, 31 * FX_S);
	assert_true(fabs(heat_share(h, 7, 31 * FX_S) - exp(-1) / (1 + exp(-1))) < 1e-9);
	assert_true(fabs(heat_share(h, 9, 31 * FX_S) - 1 / (1 + exp(-1))) < 1e-9);
	free(h);
}

/* Where a set is full, its coldest entry gives way, by count and age, not the first or the hottest. */
static void the_coldest_gives_way(void **state)
{
	static const uint32_t count[HEAT_WAYS] = { 30, 20, 5, 40 };
	struct heat *h = calloc(1, sizeof(*h));
	uint64_t hash, i, k;

	assert_non_null(h);
	for (i = 0; i < HEAT_WAYS; i++)
		for (k = 0; k < count[i]; k++) {
			hash = 3 + i * HEAT_SETS;
			heat_add(h, &hash, 1, FX_S);
		}
	hash = 3 + 100 * HEAT_SETS;
	heat_add(h, &hash, 1, FX_S);
	assert_true(fabs(heat_share(h, hash, FX_S) - 1.0 / 96) < 1e-9);
	for (i = 0; i < HEAT_WAYS; i++)
		assert_int_equal(heat_share(h, 3 + i * HEAT_SETS, FX_S) > 0, i != 2);
	/* The 30 are worth 30 e^-3.5 = 0.9 after 105 s, less than a fresh one. The set's others come again. */
	for (k = 0; k < 2; k++)
		for (i = 1; i < HEAT_WAYS; i++) {
			hash = i == 2 ? 3 + 100 * HEAT_SETS : 3 + i * HEAT_SETS;
			heat_add(h, &hash, 1, 106 * FX_S);
		}
	for (k = 0; k < 30; k++)
		heat_add(h, &(uint64_t){ 4 }, 1, 106 * FX_S);
	hash = 3 + 200 * HEAT_SETS;
	heat_add(h, &hash, 1, 106 * FX_S);
	assert_true(heat_share(h, 3, 106 * FX_S) == 0);
	assert_true(heat_share(h, 3 + 3 * HEAT_SETS, 106 * FX_S) > 0);
	free(h);
}

/* Only the first 8 blocks are counted: deeper ones are never hot. */
static void eight_blocks_are_counted(void **state)
{
	struct heat *h = calloc(1, sizeof(*h));
	uint64_t hash[10];
	uint32_t i;

	assert_non_null(h);
	for (i = 0; i < 10; i++)
		hash[i] = i + 1;
	for (i = 0; i < 50; i++)
		heat_add(h, hash, 10, FX_S);
	for (i = 0; i < 10; i++)
		assert_true((heat_share(h, hash[i], FX_S) > 0) == (i < 8));
	free(h);
}

/* ---- the key ------------------------------------------------------------------------ */

/* The key that a request would be placed by now. */
static uint64_t key_of(struct fx *f, const struct fx_prompt *p)
{
	struct route_request r = fx_request(p);
	struct decision *d = malloc(sizeof(*d));
	uint64_t key;

	assert_non_null(d);
	pool_lock(f->pool);
	decide_scan(f->pool, &r, NULL, f->now, 0, d);
	pool_unlock(f->pool);
	key = d->key;
	free(d);
	return key;
}

/* A hundred requests, of which in `of` the first `shared` tokens are the same. */
static void traffic(struct fx *f, uint32_t of, uint32_t shared, uint32_t requests)
{
	uint32_t i;

	for (i = 0; i < requests; i++) {
		struct route_request r;
		struct fx_prompt p;

		memset(&p, 0, sizeof(p));
		if (i % 100 < of)
			fx_say(&p, 1, shared, 0);
		fx_say(&p, 100000 + 1000 * i, 640, 0);
		r = fx_request(&p);
		f->now += 1; /* all at one time: nothing decays */
		fx_serve(f, &r);
		f->now = 1000 * FX_S;
	}
}

/* Blocks of 256 bytes are 64 tokens at 4 bytes a token: the first ends at 64 and is not deeper. */
static void key_lies_deeper_than_64_tokens(void **state)
{
	static const struct {
		uint32_t tokens[3];
		uint32_t block; /* that is the key */
	} rows[] = {
		{ { 640 }, 1 },
		{ { 64, 640 }, 1 },
		{ { 63, 1, 640 }, 2 },  /* 63, 64, 128 */
		{ { 63, 2, 640 }, 1 },  /* 63, 65 */
		{ { 20, 30, 640 }, 2 }, /* 20, 50, 114 */
		{ { 30 }, 0 },          /* none is deeper: the last */
		{ { 64 }, 0 },
		{ { 10, 20, 30 }, 2 },
		{ { 65 }, 1 },
	};
	struct fx f = { 0 };
	uint32_t i, k;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fx_prompt p;

		memset(&p, 0, sizeof(p));
		for (k = 0; k < 3 && rows[i].tokens[k]; k++)
			fx_say(&p, 1000 * (i + 1) + 100 * k, rows[i].tokens[k], 0);
		if (key_of(&f, &p) != p.hash[rows[i].block])
			fail_msg("row %u", i);
	}
	/* Tokens, not bytes: where a token is 8 bytes, the second block ends at 64. */
	f.pool->bpt_num = 8 * f.pool->bpt_den;
	{
		struct fx_prompt p;

		memset(&p, 0, sizeof(p));
		fx_say(&p, 1, 640, 0);
		assert_int_equal(key_of(&f, &p), p.hash[2]);
		f.pool->bpt_num = 2 * f.pool->bpt_den;
		assert_int_equal(key_of(&f, &p), p.hash[0]);
	}
	f.pool->bpt_num = 4 * f.pool->bpt_den;
	fx_close(&f);
}

/* 10 % is hot and 9 % is not: the key of the hot ones lies behind what they share. */
static void key_lies_behind_a_hot_prefix(void **state)
{
	static const struct {
		uint32_t of, requests, block;
	} rows[] = {
		{ 9, 100, 1 },   { 10, 100, 4 }, { 11, 100, 4 }, { 50, 100, 4 }, { 100, 100, 4 },
		{ 100, 19, 1 },                  /* too little traffic to call anything hot */
		{ 100, 20, 4 },
	};
	uint32_t i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fx f = { 0 };
		struct fx_prompt p, q;

		fx_open(&f, ROUTE_POLICY_COST, 4, 256);
		traffic(&f, rows[i].of, 256, rows[i].requests);
		memset(&p, 0, sizeof(p));
		fx_say(&p, 1, 256, 0);
		q = p;
		fx_say(&q, 77, 640, 0);
		if (key_of(&f, &q) != q.hash[rows[i].block])
			fail_msg("%u of %u requests", rows[i].of, rows[i].requests);
		/* Hot to its end: its last block, there is no other. */
		assert_int_equal(key_of(&f, &p), p.hash[rows[i].block == 4 ? 3 : 1]);
		fx_close(&f);
	}
}

/* A hot prefix longer than what is counted: the first block behind that. */
static void key_of_a_long_hot_prefix(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	traffic(&f, 100, 64 * 20, 100);
	memset(&p, 0, sizeof(p));
	fx_say(&p, 1, 64 * 20, 0);
	fx_say(&p, 77, 640, 0);
	assert_int_equal(key_of(&f, &p), p.hash[HEAT_BLOCKS]);
	fx_close(&f);
}

/* ---- the node of a key ------------------------------------------------------------------ */

/* XXH3_64(key xor XXH3_64(name)), as 8 bytes in memory order. Figures from another implementation
 * (python3-xxhash): gateways of different builds must agree, and a new build with the old one. */
static void weights_are_as_documented(void **state)
{
	static const struct {
		const char *name;
		uint64_t key, name_hash, weight;
	} rows[] = {
		{ "n0", 0x0ull, 0xdedd986ed91cf0e9ull, 0xa4e2ce4503562399ull },
		{ "n0", 0x1ull, 0xdedd986ed91cf0e9ull, 0xe7af808b1fbf6e28ull },
		{ "n7", 0x123456789abcdefull, 0x8a4847d7554d1299ull, 0x75e877b4f993f277ull },
		{ "http://10.0.0.1:8000", 0xffffffffffffffffull, 0xf6bcaf4e2b6877e3ull, 0x80a5975820515071ull },
		{ "vllm-long-backend-name-0123456789", 0x2aull, 0xc796f1d5c09c55d5ull, 0x290931b0be295c29ull },
	};
	uint32_t i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(hrw_name(rows[i].name), rows[i].name_hash);
		assert_int_equal(hrw_weight(rows[i].key, rows[i].name_hash), rows[i].weight);
	}
}

/* Cold prompts on idle nodes of one kind go where their key belongs: argmax, of that formula. */
static void a_cold_prompt_goes_to_its_node(void **state)
{
	static const uint32_t want[] = { 5, 6, 3, 6, 3, 1, 5, 4, 4, 6, 2, 3, 6, 1, 0, 6, 7, 6, 1, 4, 6, 7, 6, 1 };
	uint32_t i, hope;

	for (i = 0; i < sizeof(want) / sizeof(*want); i++)
		/* Also where the index knows too little and the key's node is hoped to hold half of the prompt. */
		for (hope = 0; hope < 2; hope++) {
			struct fx f = { .cfg = { .pi_start = hope * 0.5 } };
			struct fx_prompt p = { 0 };
			struct route_ticket t = { 0 };
			struct route_request r;

			fx_say(&p, 1, 4000, 0);
			r = fx_request(&p);
			r.placement_key = 0x1000001 * (uint64_t)(i + 1);
			fx_open(&f, ROUTE_POLICY_COST, 8, 256);
			assert_int_equal(fx_assign(&f, &r, &t), want[i]);
			assert_true(t.picked_top);
			assert_int_equal(t.match_tokens, hope * 2000);
			route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
			fx_close(&f);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_is_of_the_traffic),
		cmocka_unit_test(a_share_needs_some_traffic),
		cmocka_unit_test(heat_decays),
		cmocka_unit_test(the_coldest_gives_way),
		cmocka_unit_test(eight_blocks_are_counted),
		cmocka_unit_test(key_lies_deeper_than_64_tokens),
		cmocka_unit_test(key_lies_behind_a_hot_prefix),
		cmocka_unit_test(key_of_a_long_hot_prefix),
		cmocka_unit_test(weights_are_as_documented),
		cmocka_unit_test(a_cold_prompt_goes_to_its_node),
	};

	return cmocka_run_group_tests_name("route/placement", tests, NULL, NULL);
}
