/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Passive health: what excludes a node, for how long, and that an exclusion always ends and never empties
 * a pool. Stories: breakers that counted 4xx and took the fleet down; an "overloaded" mark that nothing
 * ever cleared; a node that answers 500 at once and so attracts everything. */
#include <errno.h>

#include "fixture.h"

#include "route/health.h"

static void statuses(void **state)
{
	static const struct {
		int status;
		bool busy;
		enum route_result want;
	} rows[] = {
		{ 200, false, ROUTE_RESULT_OK },	{ 400, false, ROUTE_RESULT_OK },
		{ 404, false, ROUTE_RESULT_OK },	{ 422, false, ROUTE_RESULT_OK },
		{ 429, false, ROUTE_RESULT_OK },	{ 500, false, ROUTE_RESULT_HTTP_5XX },
		{ 501, false, ROUTE_RESULT_NEUTRAL },	{ 502, false, ROUTE_RESULT_HTTP_5XX },
		{ 503, false, ROUTE_RESULT_HTTP_5XX },	{ 503, true, ROUTE_RESULT_BUSY },
		{ 504, false, ROUTE_RESULT_HTTP_5XX },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(route_result_of_status(rows[i].status, rows[i].busy), rows[i].want);
}

static void connect_failures_back_off(void **state)
{
	struct health h = { 0 };
	uint64_t now = FX_S;
	uint32_t want_s[] = { 1, 2, 4, 8, 16, 30, 30 }, i;

	for (i = 0; i < 7; i++) {
		health_result(&h, ROUTE_RESULT_CONNECT_FAILED, now);
		/* Others that were under way fail too: one event, not a second step. */
		health_result(&h, ROUTE_RESULT_CONNECT_FAILED, now + 1);
		assert_int_equal(h.until_ns, now + want_s[i] * FX_S);
		assert_int_equal(health_check(&h, h.until_ns - 1), HEALTH_EXCLUDED);
		assert_int_equal(health_check(&h, h.until_ns), HEALTH_PROBE);
		now = h.until_ns;
	}
	/* One probe at a time, and a probe that says nothing expires. */
	health_probe_begin(&h, now);
	assert_int_equal(health_check(&h, now), HEALTH_EXCLUDED);
	assert_int_equal(health_check(&h, now + HEALTH_PROBE_MAX_NS), HEALTH_PROBE);
	health_probe_end(&h);
	assert_int_equal(health_check(&h, now), HEALTH_PROBE);
	health_result(&h, ROUTE_RESULT_OK, now);
	assert_int_equal(health_check(&h, now), HEALTH_OK);
	for (i = 0; i < HEALTH_WINDOW_MIN; i++)
		health_result(&h, ROUTE_RESULT_OK, now);
	health_result(&h, ROUTE_RESULT_CONNECT_FAILED, now);
	assert_int_equal(h.until_ns, now + FX_S);
}

static void three_5xx_in_a_row_or_half_of_the_window(void **state)
{
	struct health h = { 0 };
	uint32_t i;

	health_result(&h, ROUTE_RESULT_HTTP_5XX, FX_S);
	health_result(&h, ROUTE_RESULT_HTTP_5XX, FX_S);
	health_result(&h, ROUTE_RESULT_NEUTRAL, FX_S);
	assert_int_equal(health_check(&h, FX_S), HEALTH_OK);
	health_result(&h, ROUTE_RESULT_TIMEOUT, FX_S);
	assert_int_equal(health_check(&h, FX_S), HEALTH_EXCLUDED);

	/* Never three in a row, but two of three. */
	memset(&h, 0, sizeof(h));
	for (i = 0; i < 7; i++)
		health_result(&h, i % 3 == 2 ? ROUTE_RESULT_OK : ROUTE_RESULT_HTTP_5XX, FX_S);
	assert_int_equal(health_check(&h, FX_S), HEALTH_OK); /* seven results say nothing yet */
	health_result(&h, ROUTE_RESULT_HTTP_5XX, FX_S);
	assert_int_equal(health_check(&h, FX_S), HEALTH_EXCLUDED);

	/* One in five is no reason. */
	memset(&h, 0, sizeof(h));
	for (i = 0; i < 100; i++)
		health_result(&h, i % 5 ? ROUTE_RESULT_OK : ROUTE_RESULT_RESET, FX_S);
	assert_int_equal(health_check(&h, FX_S), HEALTH_OK);
}

static void client_errors_never_exclude(void **state)
{
	struct fx f = { 0 };
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 2, 256);
	for (i = 0; i < 1000; i++)
		route_node_result(f.pool, 0, route_result_of_status(i & 1 ? 400 : 422, false), f.now);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_READY);
	fx_close(&f);
}

static void excluded_node_is_avoided_probed_and_back(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t[4] = { 0 };
	struct route_plan plan;
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 2, 256);
	route_node_result(f.pool, 0, ROUTE_RESULT_CONNECT_FAILED, f.now);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_EXCLUDED);
	assert_int_equal(fx_status(&f, 0).excluded_for_ns, FX_S);
	for (i = 0; i < 6; i++)
		assert_int_equal(fx_serve(&f, &r), 1);
	f.now = 1002 * FX_S;
	assert_int_equal(route_assign(f.pool, &r, f.now, &t[0], &plan), 0);
	assert_int_equal(plan.node, 0);
	assert_true(plan.probe);
	/* While the probe is out, the others go elsewhere. */
	for (i = 1; i < 4; i++)
		assert_int_equal(fx_assign(&f, &r, &t[i]), 1);
	/* It ends without a word about the node: the next one probes. */
	route_end(f.pool, &t[0], f.now, ROUTE_END_CLIENT_GONE, 0);
	assert_int_equal(fx_assign(&f, &r, &t[0]), 0);
	route_node_result(f.pool, 0, ROUTE_RESULT_OK, f.now);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_READY);
	for (i = 0; i < 4; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

static void exclusion_never_empties_a_pool(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t = { 0 };
	struct route_plan plan;
	uint32_t i, count[3] = { 0 };

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 3, 256);
	for (i = 0; i < 3; i++)
		route_node_result(f.pool, i, ROUTE_RESULT_CONNECT_FAILED, f.now);
	for (i = 0; i < 9; i++)
		count[fx_serve(&f, &r)]++;
	assert_int_equal(count[0], 3);
	assert_int_equal(count[1], 3);
	/* Draining is the operator's word and does empty it. */
	assert_int_equal(route_set_drain(f.pool, "n0", true), 0);
	assert_int_equal(route_set_drain(f.pool, "n1", true), 0);
	assert_int_equal(fx_serve(&f, &r), 2);
	assert_int_equal(route_set_drain(f.pool, "n2", true), 0);
	assert_int_equal(route_assign(f.pool, &r, f.now, &t, &plan), -EHOSTUNREACH);
	assert_int_equal(route_set_drain(f.pool, "n1", false), 0);
	assert_int_equal(fx_serve(&f, &r), 1);
	assert_int_equal(route_set_drain(f.pool, "nobody", true), -ENOENT);
	fx_close(&f);
}

/* A retry goes to the untried node even if that one is excluded, rather than nowhere. */
static void retry_prefers_an_excluded_node_to_none(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t = { 0 };
	struct route_plan plan;

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 2, 256);
	route_node_result(f.pool, 1, ROUTE_RESULT_CONNECT_FAILED, f.now);
	assert_int_equal(fx_assign(&f, &r, &t), 0);
	assert_int_equal(route_retry(f.pool, &t, f.now, &plan), 0);
	assert_int_equal(plan.node, 1);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 1);
	fx_close(&f);
}

/* Healthy nodes at their cap: wait for them, the excluded one is no way out. */
static void excluded_node_is_no_overflow(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t = { 0 }, more = { 0 };
	struct route_plan plan;

	fx_open(&f, ROUTE_POLICY_LEAST_REQUEST, 2, 1);
	route_node_result(f.pool, 1, ROUTE_RESULT_CONNECT_FAILED, f.now);
	assert_int_equal(fx_assign(&f, &r, &t), 0);
	assert_int_equal(route_assign(f.pool, &r, f.now, &more, &plan), -EAGAIN);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 1);
	fx_close(&f);
}

/* 500 at once: without exclusion its emptiness attracts everything. */
static void fast_failing_node_loses_its_share(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p;
	uint32_t i, bad = 0;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	for (i = 0; i < 1000; i++) {
		struct route_ticket t = { 0 };
		struct route_request r;
		struct route_plan plan;

		memset(&p, 0, sizeof(p));
		fx_say(&p, 1000 * i, 1000, 0);
		r = fx_request(&p);
		assert_int_equal(route_assign(f.pool, &r, f.now, &t, &plan), 0);
		f.now += 20 * FX_MS; /* 50 a second for 20 s */
		if (plan.node == 2) {
			bad++;
			route_node_result(f.pool, 2, ROUTE_RESULT_HTTP_5XX, f.now);
			route_end(f.pool, &t, f.now, ROUTE_END_BACKEND_FAILED, 0);
		} else {
			route_node_result(f.pool, plan.node, ROUTE_RESULT_OK, f.now);
			route_first_token(f.pool, &t, f.now, ROUTE_TOKENS_UNKNOWN);
			route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
		}
	}
	assert_true(bad >= 3);
	assert_true(bad < 12);
	assert_true(fx_status(&f, 2).speed == 1.0);
	fx_close(&f);
}

/* Engines send 200 when a stream begins: one that then hangs shows failures only, and a first token is
 * what ends an exclusion. */
static void first_token_is_the_proof_of_a_stream(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t = { 0 };
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 1, 256);
	for (i = 0; i < 3; i++) {
		fx_assign(&f, &r, &t);
		route_node_result(f.pool, 0, ROUTE_RESULT_TIMEOUT, f.now);
		route_end(f.pool, &t, f.now, ROUTE_END_BACKEND_FAILED, 0);
	}
	assert_int_equal(fx_status(&f, 0).state, BACKEND_EXCLUDED);
	f.now += 2 * FX_S;
	fx_assign(&f, &r, &t);
	assert_true(t.probe);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_PROBING);
	route_first_token(f.pool, &t, f.now, ROUTE_TOKENS_UNKNOWN);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_READY);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 1);
	fx_close(&f);
}

/* Without traffic nothing else ends what is shown: an exclusion that is over is none any more. */
static void state_reads_by_time(void **state)
{
	struct route_health_row h[4];
	struct fx f = { 0 };

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 2, 256);
	assert_int_equal(route_pool_health(f.pool, f.now, h, 4), 2);
	assert_int_equal(h[0].state, BACKEND_READY);
	assert_int_equal(h[0].excluded_until_ns, 0);
	route_node_result(f.pool, 0, ROUTE_RESULT_CONNECT_FAILED, f.now);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_EXCLUDED);
	assert_int_equal(route_pool_health(f.pool, f.now, h, 4), 2);
	assert_int_equal(h[0].state, BACKEND_EXCLUDED);
	assert_string_equal(h[0].why, "connect_failed");
	assert_int_equal(h[0].excluded_ns, FX_S);
	assert_int_equal(h[1].state, BACKEND_READY);
	f.now += FX_S;
	assert_int_equal(fx_status(&f, 0).state, BACKEND_PROBING);
	assert_int_equal(fx_status(&f, 0).excluded_for_ns, 0);
	route_tick(f.pool, f.now);
	assert_int_equal(f.ledger.rows[fx_status(&f, 0).row].state, BACKEND_PROBING);
	route_node_result(f.pool, 0, ROUTE_RESULT_OK, f.now);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_READY);
	fx_close(&f);
}

/* A fleet that is excluded as a whole is tried all the same, and no look at it takes that for health. */
static void last_resort_is_told_apart(void **state)
{
	struct route_request r = fx_request(NULL);
	struct route_explain_row rows[2];
	struct route_pool_status ps;
	struct fx f = { 0 };

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 2, 256);
	route_node_result(f.pool, 0, ROUTE_RESULT_CONNECT_FAILED, f.now);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_int_equal(ps.n_eligible, 1);
	assert_false(ps.last_resort);
	route_node_result(f.pool, 1, ROUTE_RESULT_CONNECT_FAILED, f.now);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_int_equal(ps.n_eligible, 0);
	assert_true(ps.last_resort);
	assert_int_equal(route_explain(f.pool, &r, f.now, rows, 2, NULL), 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_string_equal(rows[i].why, "excluded");
		assert_true(rows[i].eligible && rows[i].last_resort);
	}
	assert_true(rows[0].chosen != rows[1].chosen);
	/* and a probe that may begin is none */
	f.now += FX_S;
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_int_equal(ps.n_eligible, 2);
	assert_false(ps.last_resort);
	fx_close(&f);
}

/* A backend without an address can't be tried: not even where all others fail. */
static void unresolved_is_never_picked(void **state)
{
	struct route_request r = fx_request(NULL);
	struct route_explain_row rows[2];
	struct route_plan plan;
	struct route_ticket t = { 0 };
	struct fx f = { 0 };

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 2, 256);
	f.b[0].unresolved = true;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_UNRESOLVED);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(fx_serve(&f, &r), 1);
	route_node_result(f.pool, 1, ROUTE_RESULT_CONNECT_FAILED, f.now);
	assert_int_equal(fx_serve(&f, &r), 1);
	route_explain(f.pool, &r, f.now, rows, 2, NULL);
	assert_string_equal(rows[0].why, "unresolved");
	assert_false(rows[0].eligible);
	route_set_drain(f.pool, f.b[1].name, true);
	assert_int_equal(route_assign(f.pool, &r, f.now, &t, &plan), -EHOSTUNREACH);
	f.b[0].unresolved = false;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	assert_int_equal(fx_serve(&f, &r), 0);
	fx_close(&f);
}

static void busy_lasts_a_moment(void **state)
{
	struct health h = { 0 };
	uint64_t now = FX_S, want[] = { 50, 100, 200, 400, 800, 1000, 1000 };
	uint32_t i;

	for (i = 0; i < 7; i++) {
		health_result(&h, ROUTE_RESULT_BUSY, now);
		health_result(&h, ROUTE_RESULT_BUSY, now + 1); /* others that were under way: the same event */
		assert_int_equal(h.busy_until_ns, now + want[i] * FX_S / 1000);
		assert_true(health_busy(&h, h.busy_until_ns - 1));
		assert_false(health_busy(&h, h.busy_until_ns));
		assert_int_equal(health_check(&h, now), HEALTH_OK);
		/* an answer of an older request does not make room */
		health_result(&h, ROUTE_RESULT_OK, h.busy_until_ns - 1);
		now = h.busy_until_ns;
	}
	health_result(&h, ROUTE_RESULT_OK, now);
	health_result(&h, ROUTE_RESULT_BUSY, now);
	assert_int_equal(h.busy_until_ns, now + HEALTH_BUSY_MIN_NS);
}

/* A refusal takes no time: the full node has the fewest requests and the least work, and every
 * policy would ask it first, for each request. */
static void busy_node_does_not_attract(void **state)
{
	static const enum route_policy policies[] = { ROUTE_POLICY_COST, ROUTE_POLICY_LEAST_REQUEST, ROUTE_POLICY_ROUND_ROBIN,
						      ROUTE_POLICY_WEIGHTED, ROUTE_POLICY_SESSION, ROUTE_POLICY_PREFIX_AWARE };
	struct route_ticket t[200] = { 0 };
	struct route_request r = fx_request(NULL);
	uint32_t p, i, at_busy;

	r.placement_key = r.prefix_key = 7;
	for (p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
		struct fx f = { 0 };

		fx_open(&f, policies[p], 3, 256);
		at_busy = 0;
		for (i = 0; i < 200; i++) {
			memset(&t[i], 0, sizeof(t[i]));
			if (fx_assign(&f, &r, &t[i]) == 0) {
				struct route_plan plan;

				at_busy++;
				route_node_result(f.pool, 0, ROUTE_RESULT_BUSY, f.now);
				assert_int_equal(route_retry(f.pool, &t[i], f.now, &plan), 0);
				assert_int_not_equal(plan.node, 0);
			}
			f.now += FX_S / 1000;
		}
		/* 200 ms: the marks of 50, 100 and 200 ms */
		assert_in_range(at_busy, 0, 3);
		assert_int_equal(fx_status(&f, 0).state, BACKEND_READY);
		for (i = 0; i < 200; i++)
			route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 1);
		fx_close(&f);
	}
}

/* "Overloaded" marks never empty a pool, and a full node is asked before a broken one. */
static void busy_never_empties_a_pool(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 2, 256);
	for (i = 0; i < 2; i++)
		route_node_result(f.pool, i, ROUTE_RESULT_BUSY, f.now);
	assert_int_equal(fx_serve(&f, &r) + fx_serve(&f, &r), 1); /* both take their turn */
	route_node_result(f.pool, 0, ROUTE_RESULT_CONNECT_FAILED, f.now);
	for (i = 0; i < 4; i++)
		assert_int_equal(fx_serve(&f, &r), 1);
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(statuses),
		cmocka_unit_test(busy_lasts_a_moment),
		cmocka_unit_test(busy_node_does_not_attract),
		cmocka_unit_test(busy_never_empties_a_pool),
		cmocka_unit_test(connect_failures_back_off),
		cmocka_unit_test(three_5xx_in_a_row_or_half_of_the_window),
		cmocka_unit_test(client_errors_never_exclude),
		cmocka_unit_test(excluded_node_is_avoided_probed_and_back),
		cmocka_unit_test(exclusion_never_empties_a_pool),
		cmocka_unit_test(retry_prefers_an_excluded_node_to_none),
		cmocka_unit_test(excluded_node_is_no_overflow),
		cmocka_unit_test(first_token_is_the_proof_of_a_stream),
		cmocka_unit_test(state_reads_by_time),
		cmocka_unit_test(last_resort_is_told_apart),
		cmocka_unit_test(unresolved_is_never_picked),
		cmocka_unit_test(fast_failing_node_loses_its_share),
	};

	return cmocka_run_group_tests_name("route/exclusion", tests, NULL, NULL);
}
