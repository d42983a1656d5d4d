/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where a request goes under the cost policy, and that the operator is told the same. */

#include "fixture.h"

static void same_prefix_sticks(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_plan plan;
	uint32_t first, i;

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	fx_say(&p, 1, 3008, 0);
	r = fx_request(&p);
	first = fx_serve(&f, &r);
	for (i = 0; i < 5; i++) {
		struct fx_prompt q = p;

		fx_say(&q, 1000 + i, 50, 0);
		r = fx_request(&q);
		assert_int_equal(route_assign(f.pool, &r, f.now, &t, &plan), 0);
		assert_int_equal(plan.node, first);
		assert_int_equal(plan.match_tokens, 3008);
		assert_int_equal(plan.prompt_tokens, 3058);
		assert_int_equal(plan.n_alternates, 3);
		route_first_token(f.pool, &t, f.now += 30 * FX_MS, ROUTE_TOKENS_UNKNOWN);
		route_end(f.pool, &t, f.now += FX_S, ROUTE_END_OK, 100);
	}
	fx_close(&f);
}

/* A reach of 4096 tokens was too short for agents. */
static void long_prompts_match_to_their_end(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p, q;
	struct route_request r;
	struct route_ticket t = { 0 };
	uint32_t home;

	memset(&p, 0, sizeof(p));
	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	fx_say(&p, 1, 100000, 0);
	r = fx_request(&p);
	home = fx_serve(&f, &r);
	q = p;
	fx_say(&q, 500000, 200, 0);
	r = fx_request(&q);
	assert_int_equal(fx_assign(&f, &r, &t), home);
	assert_int_equal(t.match_tokens, 100000);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	/* Two prompts that differ in their last block only share all but that. */
	p.hash[p.n - 1] ^= 1;
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	assert_int_equal(t.match_tokens, 100000 - p.bytes[p.n - 1] / 4);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* Two simultaneous equal prompts: the second sees that the first is under way. */
static void simultaneous_equal_prompts_see_each_other(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket a = { 0 }, b = { 0 };

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	fx_say(&p, 1, 3008, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &a);
	assert_int_equal(fx_assign(&f, &r, &b), a.node);
	assert_int_equal(b.match_tokens, 3008);
	assert_int_equal(fx_status(&f, a.node).unp, 2);
	route_end(f.pool, &a, f.now, ROUTE_END_CLIENT_GONE, 0);
	/* b still relies on the entries that a made. */
	assert_int_equal(fx_status(&f, b.node).index_blocks, 47);
	route_end(f.pool, &b, f.now, ROUTE_END_CLIENT_GONE, 0);
	assert_int_equal(fx_status(&f, 0).index_blocks, 0);
	fx_close(&f);
}

/* "Everything sticks to one node at low load" and "all go to the smallest tree, ignoring load": cold
 * prefixes are placed by load. */
static void cold_prefixes_go_where_load_is_least(void **state)
{
	struct fx f = { 0 };
	struct route_ticket t[24] = { 0 };
	static struct fx_prompt p[24];
	uint32_t i, count[8] = { 0 };

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	for (i = 0; i < 24; i++) {
		struct route_request r;

		memset(&p[i], 0, sizeof(p[i]));
		fx_say(&p[i], 1000 * i, 3000, 0);
		r = fx_request(&p[i]);
		count[fx_assign(&f, &r, &t[i])]++;
	}
	for (i = 0; i < 8; i++)
		assert_int_equal(count[i], 3);
	for (i = 0; i < 24; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* Hot prefixes piled up on one node, or overflowed all to the same default one: here they spread as soon
 * as waiting costs more than computing again. */
static void hot_prefix_spreads(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p[400];
	static struct route_ticket t[400];
	uint32_t i, count[8] = { 0 }, used = 0, most = 0;

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	for (i = 0; i < 400; i++) {
		struct route_request r;

		memset(&p[i], 0, sizeof(p[i]));
		fx_say(&p[i], 1, 3008, 0);
		fx_say(&p[i], 5000 + i, 50, 0);
		r = fx_request(&p[i]);
		count[fx_assign(&f, &r, &t[i])]++;
		f.now += FX_MS; /* 1000 a second: far more than one node's prefill */
	}
	for (i = 0; i < 8; i++) {
		used += count[i] > 0;
		most = count[i] > most ? count[i] : most;
	}
	assert_true(used >= 4);
	assert_true(most < 200);
	for (i = 0; i < 400; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

/* One hot worker turned affinity off fleet-wide: the candidate is judged, not the fleet. */
static void one_busy_node_leaves_affinity_of_others(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt quiet, heavy[40];
	static struct route_ticket t[40];
	struct route_snapshot_in snap = { .waiting = 80, .running = 200, .kv_used = 0.5 };
	struct route_request r;
	uint32_t home, busy, i;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	memset(&quiet, 0, sizeof(quiet));
	fx_say(&quiet, 1, 3008, 0);
	r = fx_request(&quiet);
	home = fx_serve(&f, &r);
	busy = (home + 1) % 4;
	assert_int_equal(route_snapshot(f.pool, busy, &snap, f.now), 0);
	for (i = 0; i < 5; i++)
		assert_int_equal(fx_serve(&f, &r), home);
	/* And the busy one gets nothing cold. */
	for (i = 0; i < 3; i++) {
		memset(&heavy[i], 0, sizeof(heavy[i]));
		fx_say(&heavy[i], 9000 * (i + 1), 3000, 0);
		r = fx_request(&heavy[i]);
		assert_int_not_equal(fx_assign(&f, &r, &t[i]), busy);
	}
	for (i = 0; i < 3; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* Residency reports list adapters in use only: absence is not "not loaded". */
static void adapters_are_remembered(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_snapshot_in snap = { .kv_used = -1 };
	struct route_explain_row rows[4];
	struct route_request r;
	uint32_t home, i;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	fx_say(&p, 1, 40, 0);
	r = fx_request(&p);
	r.adapter = "support-de";
	route_explain(f.pool, &r, f.now, rows, 4, NULL);
	assert_true(rows[0].adapter_ms > 149);
	home = fx_serve(&f, &r);
	for (i = 0; i < 4; i++)
		route_snapshot(f.pool, i, &snap, f.now);
	memset(&p, 0, sizeof(p));
	fx_say(&p, 7777, 40, 0);
	r = fx_request(&p);
	r.adapter = "support-de";
	assert_int_equal(fx_serve(&f, &r), home);
	/* Eight others since: it is gone. */
	const char *others[8] = { "1", "2", "3", "4", "5", "6", "7", "8" };
	snap.adapters = others;
	snap.n_adapters = 8;
	route_snapshot(f.pool, home, &snap, f.now);
	assert_int_equal(route_explain(f.pool, &r, f.now, rows, 4, NULL), 4);
	assert_true(rows[home].adapter_ms > 149);
	fx_close(&f);
}

static void explain_has_no_side_effects(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_explain_row rows[8], again[8];
	struct route_pool_status before, after;
	struct route_request r;
	uint32_t tokens, i, n, chosen = 0;

	fx_open(&f, ROUTE_POLICY_COST, 5, 256);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	fx_serve(&f, &r);
	route_set_drain(f.pool, "n3", true);
	route_pool_status(f.pool, f.now, &before, NULL, 0);
	n = route_explain(f.pool, &r, f.now, rows, 8, &tokens);
	assert_int_equal(n, 5);
	assert_int_equal(tokens, 3000);
	for (i = 0; i < 100; i++)
		assert_int_equal(route_explain(f.pool, &r, f.now, again, 8, NULL), 5);
	assert_memory_equal(rows, again, sizeof(rows[0]) * 5);
	route_pool_status(f.pool, f.now, &after, NULL, 0);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(ledger_count_all(&f.ledger), 0);
	for (i = 0; i < n; i++) {
		chosen += rows[i].chosen;
		if (!strcmp(rows[i].name, "n3")) {
			assert_false(rows[i].eligible);
			assert_string_equal(rows[i].why, "draining");
		} else {
			assert_true(rows[i].eligible);
			assert_true(rows[i].cost_ms >= rows[i].ttft_ms);
		}
	}
	assert_int_equal(chosen, 1);
	/* And it is what an assign then does. */
	for (i = 0; i < n && !rows[i].chosen; i++)
		;
	assert_int_equal(fx_serve(&f, &r), rows[i].node);
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_prefix_sticks),
		cmocka_unit_test(long_prompts_match_to_their_end),
		cmocka_unit_test(simultaneous_equal_prompts_see_each_other),
		cmocka_unit_test(cold_prefixes_go_where_load_is_least),
		cmocka_unit_test(hot_prefix_spreads),
		cmocka_unit_test(one_busy_node_leaves_affinity_of_others),
		cmocka_unit_test(adapters_are_remembered),
		cmocka_unit_test(explain_has_no_side_effects),
	};

	return cmocka_run_group_tests_name("route/assign", tests, NULL, NULL);
}
