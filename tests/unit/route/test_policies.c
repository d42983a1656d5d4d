/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The policies beside cost, and the scaling promises of all of them. Story behind the spread tests: a ring
 * of few virtual nodes gave one backend 80 requests and another 1. */
#include <errno.h>
#include <math.h>

#include "fixture.h"

/* Node of a prefix that is cold everywhere, on an idle pool; leaves no trace that the next one sees. */
static uint32_t place(struct fx *f, uint64_t key)
{
	struct route_request r = fx_request(NULL);
	struct route_ticket t = { 0 };
	struct route_plan plan;

	r.prefix_key = r.placement_key = key;
	assert_int_equal(route_assign(f->pool, &r, f->now, &t, &plan), 0);
	route_end(f->pool, &t, f->now, ROUTE_END_OK, 1);
	return plan.node;
}

static void round_robin_takes_turns(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 5, 256);
	for (i = 0; i < 25; i++)
		assert_int_equal(fx_serve(&f, &r), i % 5);
	route_set_drain(f.pool, "n1", true);
	assert_int_equal(fx_serve(&f, &r), 0);
	assert_int_equal(fx_serve(&f, &r), 2);
	fx_close(&f);
}

static void least_request_fills_evenly(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t[24] = { 0 };
	uint32_t i, count[6] = { 0 };

	fx_open(&f, ROUTE_POLICY_LEAST_REQUEST, 6, 256);
	for (i = 0; i < 24; i++)
		count[fx_assign(&f, &r, &t[i])]++;
	for (i = 0; i < 6; i++)
		assert_int_equal(count[i], 4);
	route_end(f.pool, &t[7], f.now, ROUTE_END_OK, 1);
	assert_int_equal(fx_assign(&f, &r, &t[7]), 1);
	for (i = 0; i < 24; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 1);
	fx_close(&f);
}

static void prefix_aware_overflows_to_the_least_busy(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL), other = fx_request(NULL);
	struct route_ticket t[16] = { 0 }, o = { 0 };
	struct route_plan plan;
	uint32_t home, i, n = 0;

	fx_open(&f, ROUTE_POLICY_PREFIX_AWARE, 4, 3);
	r.prefix_key = 12345;
	home = fx_assign(&f, &r, &t[n++]);
	while (n < 3) {
		assert_int_equal(route_assign(f.pool, &r, f.now, &t[n++], &plan), 0);
		assert_int_equal(plan.node, home);
		assert_false(plan.overflow);
	}
	/* One of the others is busier than the rest: overflow avoids it. */
	do
		other.prefix_key++;
	while (place(&f, other.prefix_key) == home);
	fx_assign(&f, &other, &o);
	for (i = 0; i < 2; i++) {
		assert_int_equal(route_assign(f.pool, &r, f.now, &t[n++], &plan), 0);
		assert_true(plan.overflow);
		assert_int_not_equal(plan.node, home);
		assert_int_not_equal(plan.node, o.node);
	}
	route_end(f.pool, &t[0], f.now, ROUTE_END_OK, 1);
	assert_int_equal(fx_assign(&f, &r, &t[0]), home);
	/* All at the threshold: wait. */
	while (!route_assign(f.pool, &r, f.now, &t[n], &plan))
		n++;
	assert_int_equal(n, 11);
	assert_int_equal(route_assign(f.pool, &r, f.now, &t[n], &plan), -EAGAIN);
	for (i = 0; i < n; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 1);
	route_end(f.pool, &o, f.now, ROUTE_END_OK, 1);
	fx_close(&f);
}

static void session_stays_and_returns(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL), none = fx_request(NULL);
	struct route_ticket t[4] = { 0 };
	struct route_plan plan;
	uint32_t home, second, i, seen = 0;

	fx_open(&f, ROUTE_POLICY_SESSION, 5, 2);
	r.placement_key = 777;
	home = fx_assign(&f, &r, &t[0]);
	assert_int_equal(fx_assign(&f, &r, &t[1]), home);
	assert_int_equal(route_assign(f.pool, &r, f.now, &t[2], &plan), 0);
	second = plan.node;
	assert_true(plan.overflow && second != home);
	/* The same second choice each time. */
	assert_int_equal(fx_assign(&f, &r, &t[3]), second);
	for (i = 0; i < 4; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 1);
	assert_int_equal(place(&f, 777), home);
	/* Without a session: least request, taking turns. */
	for (i = 0; i < 5; i++)
		seen |= 1u << fx_serve(&f, &none);
	assert_int_equal(seen, 31);
	fx_close(&f);
}

static void weighted_signals(void **state)
{
	static const struct {
		struct route_weights w;
		struct route_snapshot_in worse; /* what makes node 0 worse */
	} rows[] = {
		{ { .queue = 1 }, { .waiting = 3, .running = 0, .kv_used = 0 } },
		{ { .kv_cache = 1 }, { .waiting = 0, .running = 0, .kv_used = 0.5 } },
		{ { .running_requests = 1 }, { .waiting = 0, .running = 30, .kv_used = 0 } },
		{ { .predicted_latency = 1 }, { .waiting = 8, .running = 30, .kv_used = 0 } },
	};
	struct route_snapshot_in idle = { .kv_used = 0 };
	struct route_request r = fx_request(NULL);
	uint32_t i, k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fx f = { .cfg = { .weights = rows[i].w } };

		fx_open(&f, ROUTE_POLICY_WEIGHTED, 2, 256);
		route_snapshot(f.pool, 1, &rows[i].worse, f.now);
		route_snapshot(f.pool, 0, &idle, f.now);
		for (k = 0; k < 20; k++)
			assert_int_equal(fx_serve(&f, &r), 0);
		route_snapshot(f.pool, 0, &rows[i].worse, f.now);
		route_snapshot(f.pool, 1, &idle, f.now);
		for (k = 0; k < 20; k++)
			assert_int_equal(fx_serve(&f, &r), 1);
		/* Stale figures are unknown, and unknown is not bad: both again. */
		f.now += 10 * FX_S;
		for (k = 0; k < 40 && fx_serve(&f, &r) != 0; k++)
			;
		assert_true(k < 40);
		fx_close(&f);
	}
}

static void weighted_prefix_and_adapter(void **state)
{
	struct fx f = { .cfg = { .weights = { .prefix = 1 } } }, g = { .cfg = { .weights = { .lora_affinity = 1 } } };
	struct fx_prompt p = { 0 };
	struct route_request r;
	uint32_t home, i;

	fx_open(&f, ROUTE_POLICY_WEIGHTED, 6, 256);
	fx_say(&p, 1, 2000, 0);
	r = fx_request(&p);
	home = fx_serve(&f, &r);
	fx_say(&p, 77, 100, 0);
	r = fx_request(&p);
	assert_int_equal(fx_serve(&f, &r), home);
	fx_close(&f);

	fx_open(&g, ROUTE_POLICY_WEIGHTED, 6, 256);
	r = fx_request(NULL);
	r.adapter = "a";
	home = fx_serve(&g, &r);
	for (i = 0; i < 20; i++)
		assert_int_equal(fx_serve(&g, &r), home);
	fx_close(&g);
}

/* ---- scaling ------------------------------------------------------------------- */

#define KEYS 4000

static void check_moves(enum route_policy policy, uint32_t n)
{
	struct fx f = { 0 };
	static uint32_t before[KEYS], after[KEYS], count[ROUTE_MAX_NODES];
	uint32_t i, moved = 0, gone;
	double mean = (double)KEYS / n;

	fx_open(&f, policy, n, 256);
	memset(count, 0, sizeof(count));
	for (i = 0; i < KEYS; i++)
		count[before[i] = place(&f, fx_mix(i, 3))]++;
	/* Even within what chance allows. */
	for (i = 0; i < n; i++)
		assert_true(fabs(count[i] - mean) < 5 * sqrt(mean));
	/* One more node: it takes its share, nothing else moves. */
	fx_names(&f, n + 1);
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	for (i = 0; i < KEYS; i++) {
		after[i] = place(&f, fx_mix(i, 3));
		if (after[i] != before[i]) {
			assert_int_equal(after[i], n);
			moved++;
		}
	}
	assert_true(moved <= KEYS * (1.0 / (n + 1) + 0.02));
	assert_true(moved >= KEYS * (0.5 / (n + 1)));
	/* One less: only its own keys move. */
	gone = n / 2;
	f.b[gone] = f.b[n];
	f.cfg.n_backends = n;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	for (i = 0; i < KEYS; i++) {
		uint32_t now = place(&f, fx_mix(i, 3));

		if (after[i] == gone)
			assert_int_not_equal(now, gone);
		else
			assert_int_equal(now, after[i]);
	}
	fx_close(&f);
}

static void hashing_policies_move_little(void **state)
{
	check_moves(ROUTE_POLICY_PREFIX_AWARE, 4);
	check_moves(ROUTE_POLICY_PREFIX_AWARE, 20);
	check_moves(ROUTE_POLICY_SESSION, 7);
}

/* Under cost a new node attracts new prefixes; known ones stay where their cache is. */
static void cost_keeps_known_prefixes(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p[200];
	static uint32_t home[200];
	struct route_request r;
	uint32_t i, moved = 0, fresh = 0;

	fx_open(&f, ROUTE_POLICY_COST, 7, 256);
	for (i = 0; i < 200; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		fx_say(&p[i], i * 1000, 3008, 0);
		r = fx_request(&p[i]);
		home[i] = fx_serve(&f, &r);
	}
	fx_names(&f, 8);
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	for (i = 0; i < 200; i++) {
		r = fx_request(&p[i]);
		moved += fx_serve(&f, &r) != home[i];
	}
	assert_true(moved <= 10);
	/* New prefixes find it: under load the empty node is the cheapest. */
	static struct route_ticket t[64];
	static struct fx_prompt q[64];
	for (i = 0; i < 64; i++) {
		memset(&q[i], 0, sizeof(q[i]));
		fx_say(&q[i], 1000000 + i * 1000, 3008, 0);
		r = fx_request(&q[i]);
		memset(&t[i], 0, sizeof(t[i]));
		fresh += fx_assign(&f, &r, &t[i]) == 7;
	}
	assert_true(fresh >= 6 && fresh <= 10);
	for (i = 0; i < 64; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	/* A node that leaves takes its own prefixes along, no others. */
	memmove(&f.b[3], &f.b[4], 4 * sizeof(f.b[0]));
	f.cfg.n_backends = 7;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	for (i = 0, moved = 0; i < 200; i++) {
		uint32_t now;

		r = fx_request(&p[i]);
		now = fx_serve(&f, &r);
		assert_int_not_equal(now, 3);
		moved += home[i] != 3 && now != home[i];
	}
	assert_true(moved <= 20);
	fx_close(&f);
}

/* At low load everything stuck to one node elsewhere: conversations spread first, then stay. */
static void idle_pool_spreads_then_stays(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p[140];
	static uint32_t home[140], count[7];
	struct route_request r;
	uint32_t i;

	memset(count, 0, sizeof(count));
	fx_open(&f, ROUTE_POLICY_COST, 7, 256);
	for (i = 0; i < 140; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		fx_say(&p[i], i * 1000, 400, 0);
		r = fx_request(&p[i]);
		count[home[i] = fx_serve(&f, &r)]++;
	}
	for (i = 0; i < 7; i++)
		assert_true(count[i] >= 8 && count[i] <= 36);
	for (i = 0; i < 140; i++) {
		r = fx_request(&p[i]);
		assert_int_equal(fx_serve(&f, &r), home[i]);
	}
	fx_close(&f);
}

/* Gateways that lose their approximate state, or never shared it, still agree on the first choice. */
static void two_gateways_agree_without_talking(void **state)
{
	struct fx f = { 0 }, g = { 0 };
	static struct fx_prompt p;
	struct route_request r;
	uint32_t i;

	f.cfg.pi_start = g.cfg.pi_start = 0.9;
	fx_open(&f, ROUTE_POLICY_COST, 7, 256);
	fx_open(&g, ROUTE_POLICY_COST, 7, 256);
	for (i = 0; i < 100; i++) {
		memset(&p, 0, sizeof(p));
		fx_say(&p, i * 1000, 2000, 0);
		r = fx_request(&p);
		assert_int_equal(fx_serve(&f, &r), fx_serve(&g, &r));
	}
	fx_close(&f);
	fx_close(&g);
}

static void saturation_follows_the_queue(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p[60];
	static struct route_ticket t[60];
	struct route_pool_status ps;
	struct route_request r;
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 2, 256);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_true(ps.saturation == 0);
	for (i = 0; i < 60; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		memset(&t[i], 0, sizeof(t[i]));
		fx_say(&p[i], i * 1000, 3000, 0);
		r = fx_request(&p[i]);
		fx_assign(&f, &r, &t[i]);
	}
	/* About thirty prefills of .19 s each are ahead on either node, and their steps. */
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_true(ps.saturation > 5.4 && ps.saturation < 6.2);
	for (i = 0; i < 60; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_CLIENT_GONE, 0);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_true(ps.saturation == 0);
	fx_close(&f);
}

/* Hundreds of replicas and a quarter of the traffic with the same prefix: elsewhere the bound fell below one
 * request and all overflowed to the default node. */
static void many_nodes_one_popular_prefix(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p[512];
	static struct route_ticket t[512];
	static uint32_t count[ROUTE_MAX_NODES];
	struct route_request r;
	uint32_t i, most = 0;

	memset(count, 0, sizeof(count));
	fx_open(&f, ROUTE_POLICY_COST, 256, 8);
	for (i = 0; i < 512; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		memset(&t[i], 0, sizeof(t[i]));
		fx_say(&p[i], i % 4 ? 1000 * i : 1, 1000, 0); /* every fourth the same */
		fx_say(&p[i], 500000 + i, 50, 0);
		r = fx_request(&p[i]);
		count[fx_assign(&f, &r, &t[i])]++;
		f.now += 5 * FX_MS;
	}
	for (i = 0; i < 256; i++)
		most = count[i] > most ? count[i] : most;
	assert_true(most <= 8);
	for (i = 0; i < 512; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_robin_takes_turns),
		cmocka_unit_test(least_request_fills_evenly),
		cmocka_unit_test(prefix_aware_overflows_to_the_least_busy),
		cmocka_unit_test(session_stays_and_returns),
		cmocka_unit_test(weighted_signals),
		cmocka_unit_test(weighted_prefix_and_adapter),
		cmocka_unit_test(hashing_policies_move_little),
		cmocka_unit_test(cost_keeps_known_prefixes),
		cmocka_unit_test(idle_pool_spreads_then_stays),
		cmocka_unit_test(two_gateways_agree_without_talking),
		cmocka_unit_test(saturation_follows_the_queue),
		cmocka_unit_test(many_nodes_one_popular_prefix),
	};

	return cmocka_run_group_tests_name("route/policies", tests, NULL, NULL);
}
