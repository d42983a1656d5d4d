/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What answers teach a pool: speed, hope for caches of others, bytes per token, averages. How fast, and
 * how far at most. */
#include "fixture.h"

#include <math.h>

#include "route/pool_internal.h"

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

/* GPUs of different speed under the same count of requests: r is learned, the slow node gets less. */
static void slow_node_gets_less(void **state)
{
	struct fx f = { 0 };
	uint32_t i, count[4] = { 0 };

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	for (i = 0; i < 600; i++) {
		struct route_ticket t = { 0 };
		static struct fx_prompt p;
		struct route_request r;
		struct route_plan plan;

		memset(&p, 0, sizeof(p));
		fx_say(&p, 1000 * i, 2000, 0);
		r = fx_request(&p);
		assert_int_equal(route_assign(f.pool, &r, f.now, &t, &plan), 0);
		if (i >= 200)
			count[plan.node]++;
		/* Node 0 takes 2.5 times what the profile says. */
		f.now += (uint64_t)(plan.ttft_ms / t.speed * (plan.node == 0 ? 2.5 : 1) * 1e6);
		route_first_token(f.pool, &t, f.now, ROUTE_TOKENS_UNKNOWN);
		route_end(f.pool, &t, f.now, ROUTE_END_OK, 100);
	}
	/* Never loaded, the fast ones take all once they are told apart. */
	assert_true(fx_status(&f, 0).speed > 1.05);
	assert_true(fx_status(&f, 1).speed < 1.02);
	assert_true(count[0] * 10 < count[1] + count[2] + count[3]);
	fx_close(&f);
}

static void speed_is_learned_from_first_tokens(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	double base;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	fx_say(&p, 1, 4000, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	base = t.predicted_s;
	route_first_token(f.pool, &t, f.now += (uint64_t)(3 * base * 1e9), ROUTE_TOKENS_UNKNOWN);
	/* num = .99 x 2 + 3 base, den = .99 x 2 + base */
	assert_true(fx_status(&f, 0).speed > (1.98 + 3 * base) / (1.98 + base) - 1e-6);
	assert_true(fx_status(&f, 0).speed < (1.98 + 3 * base) / (1.98 + base) + 1e-6);
	/* A second first token changes nothing. */
	route_first_token(f.pool, &t, f.now += 60 * FX_S, ROUTE_TOKENS_UNKNOWN);
	assert_true(fx_status(&f, 0).speed < 1.3);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

static void reported_usage_is_learned(void **state)
{
	struct fx f = { .cfg = { .pi_start = 0.5 } };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_pool_status ps;
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	fx_say(&p, 1, 4000, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	/* Half of what the index does not know is hoped for on the key's own node. */
	assert_int_equal(t.match_tokens, 2000);
	route_first_token(f.pool, &t, f.now += 200 * FX_MS, 4000);
	route_usage(f.pool, &t, 3200, 3000);
	route_usage(f.pool, &t, 1, 1);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_true(ps.pi[0] > 0.5 + 0.02 * 0.5 - 1e-9 && ps.pi[0] < 0.5 + 0.02 * 0.5 + 1e-9);
	assert_true(ps.pi[1] == 0.5);
	assert_true(ps.bytes_per_token > 4.0 && ps.bytes_per_token < 5.0);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	assert_int_equal(fx_status(&f, 0).hit_reported_tokens, 3000);
	assert_int_equal(fx_status(&f, 0).prompt_tokens, 3200);
	/* Answers that held nothing bring it down, slower. */
	for (i = 0; i < 200; i++) {
		memset(&p, 0, sizeof(p));
		fx_say(&p, 100 + 1000 * i, 4000, 0);
		r = fx_request(&p);
		fx_assign(&f, &r, &t);
		route_first_token(f.pool, &t, f.now += 200 * FX_MS, ROUTE_TOKENS_UNKNOWN);
		route_usage(f.pool, &t, ROUTE_TOKENS_UNKNOWN, 0);
		route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	}
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_true(ps.pi[0] < 0.51 * 0.4 && ps.pi[0] > 0.51 * 0.3);
	fx_close(&f);
}

/* One answer that took `factor` times what was predicted at r = 1. */
static void answer_of_speed(struct fx *f, uint64_t text, double factor)
{
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	double base;

	fx_say(&p, text, 4000, 0);
	r = fx_request(&p);
	fx_assign(f, &r, &t);
	base = t.predicted_s / t.speed;
	route_first_token(f->pool, &t, f->now += (uint64_t)(factor * base * 1e9), ROUTE_TOKENS_UNKNOWN);
	route_end(f->pool, &t, f->now, ROUTE_END_OK, 10);
}

/* r stays within [0.3, 8]: a node that hangs for an hour once, or answers from a proxy's cache, is
 * neither lost for ever nor flooded. */
static void learned_speed_is_bounded(void **state)
{
	struct fx f = { 0 };
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	for (i = 0; i < 30; i++) {
		answer_of_speed(&f, 1000 * i, 1000);
		assert_true(fx_status(&f, 0).speed <= 8);
	}
	assert_true(fx_status(&f, 0).speed == 8);
	fx_close(&f);

	f = (struct fx){ 0 };
	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	for (i = 0; i < 200; i++) {
		answer_of_speed(&f, 1000 * i, 0.001);
		assert_true(fx_status(&f, 0).speed >= 0.3);
	}
	assert_true(fx_status(&f, 0).speed == 0.3);
	fx_close(&f);
}

/* Serves a prompt of `known` tokens that the index has and `unknown` that it has not, of which the engine
 * reports all as cached. Returns how pi moved. */
static double pi_moves(uint32_t known, uint32_t unknown, bool elsewhere)
{
	struct fx f = { .cfg = { .pi_start = 0.5 } };
	struct route_snapshot_in busy = { .waiting = 100, .running = 200, .kv_used = 0.5 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_pool_status ps;
	uint32_t home;

	fx_open(&f, ROUTE_POLICY_COST, elsewhere ? 2 : 1, 256);
	if (known) {
		fx_say(&p, 1, known, 0);
		r = fx_request(&p);
		fx_serve(&f, &r);
	}
	fx_say(&p, 9000, unknown, 0);
	r = fx_request(&p);
	if (elsewhere) { /* the key's own node is full of work: the pick is another */
		home = fx_assign(&f, &r, &t);
		route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
		assert_true(t.picked_top);
		assert_int_equal(route_snapshot(f.pool, home, &busy, f.now), 0);
	}
	fx_assign(&f, &r, &t);
	assert_int_equal(t.picked_top, !elsewhere);
	route_first_token(f.pool, &t, f.now += 50 * FX_MS, known + unknown);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	assert_true(ps.pi[1] == 0.5);
	fx_close(&f);
	return ps.pi[0] - 0.5;
}

/* Where no more than 128 tokens were unknown, their being cached is chance (block sizes): nothing is
 * learned; from 129 on, 0.02 of the way up. Nor is anything learned of another node than the key's. */
static void pi_learns_from_what_was_unknown(void **state)
{
	static const uint32_t unknown[] = { 16, 127, 128, 129, 130, 500, 1279, 1281, 5000 };
	uint32_t i;

	for (i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
		double want = unknown[i] > 128 ? 0.02 * 0.5 : 0;

		assert_true(near(pi_moves(0, unknown[i], false), want));
		assert_true(near(pi_moves(3008, unknown[i], false), want));
	}
	assert_true(pi_moves(0, 5000, true) == 0);
}

/* Averages of prefill seconds and uncached tokens, by which the queue of others is priced: each request
 * counts for a fiftieth. */
static void averages_move_by_a_fiftieth(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	double prefill = 0.2, uncached = 1000;
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	assert_true(near(f.pool->means.prefill_s, prefill));
	assert_true(near(f.pool->means.uncached_tokens, uncached));
	for (i = 0; i < 3; i++) {
		memset(&p, 0, sizeof(p));
		fx_say(&p, 10000 * (i + 1), 4000 + 1000 * i, 0);
		r = fx_request(&p);
		fx_assign(&f, &r, &t);
		prefill += 0.02 * (t.est_s - prefill);
		uncached += 0.02 * (4000 + 1000 * i - uncached);
		assert_true(near(f.pool->means.prefill_s, prefill));
		assert_true(near(f.pool->means.uncached_tokens, uncached));
		route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	}
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_node_gets_less),
		cmocka_unit_test(speed_is_learned_from_first_tokens),
		cmocka_unit_test(reported_usage_is_learned),
		cmocka_unit_test(learned_speed_is_bounded),
		cmocka_unit_test(pi_learns_from_what_was_unknown),
		cmocka_unit_test(averages_move_by_a_fiftieth),
	};

	return cmocka_run_group_tests_name("route/learning", tests, NULL, NULL);
}
