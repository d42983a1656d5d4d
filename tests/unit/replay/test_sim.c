/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whole replays, short ones: repeatable, the same requests for every policy, changes of the fleet, gateways. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "replay/agenda.h"
#include "replay/ask.h"
#include "replay/lruset.h"
#include "replay/series.h"
#include "replay/sim.h"

static struct replay_run run_of(const char *workload, const char *policy)
{
	struct replay_run r = { .w = replay_workload_find(workload), .policy = replay_policy_find(policy), .seed = 1,
				.rate = 40, .warmup_s = 20, .measure_s = 20 };

	assert_non_null(r.w);
	assert_non_null(r.policy);
	return r;
}

struct counts {
	uint32_t node[REPLAY_NODES_MAX], late_on_last;
	uint64_t requests, prompt_tokens, change_ns;
};

static void count(void *ctx, const struct replay_request *q, uint64_t now_ns, bool done)
{
	struct counts *c = ctx;

	if (done)
		return;
	c->requests++;
	c->prompt_tokens += q->prompt_tokens;
	c->node[q->node]++;
	if (c->change_ns && q->at_ns >= c->change_ns && q->node == REPLAY_NODES - 1)
		c->late_on_last++;
}

static struct replay_figures figures(const char *workload, const char *policy, struct counts *c)
{
	struct replay_run r = run_of(workload, policy);
	struct replay_figures f;

	if (c) {
		r.request = count;
		r.ctx = c;
	}
	assert_int_equal(replay_run(&r, &f), 0);
	return f;
}

static void the_same_again(void **state)
{
	const char *const policies[] = { "cost", "gie_322", "p2c", "oracle" };

	for (size_t i = 0; i < 4; i++) {
		struct replay_figures a = figures("support", policies[i], NULL), b = figures("support", policies[i], NULL);

		assert_memory_equal(&a, &b, sizeof(a));
		assert_true(a.requests > 600);
	}
}

/* Every policy serves every request, and the same ones. */
static void every_policy_serves_the_same(void **state)
{
	uint64_t measured = 0;

	for (uint32_t i = 0; i < replay_n_policies; i++) {
		struct replay_run r = run_of("support", replay_policies[i].name);
		struct replay_figures f;

		r.rate = 25; /* nobody melts */
		assert_int_equal(replay_run(&r, &f), 0);
		assert_int_equal(f.unfinished, 0);
		if (!i)
			measured = f.requests;
		assert_int_equal(f.requests, measured);
		assert_true(f.hit > .05 && f.hit < .9);
	}
}

static void a_better_policy_is_better(void **state)
{
	struct replay_run r = run_of("hetero", "round_robin");
	struct replay_figures rr, cost, oracle, pool;

	r.rate = 60;
	assert_int_equal(replay_run(&r, &rr), 0);
	r.policy = replay_policy_find("cost");
	assert_int_equal(replay_run(&r, &cost), 0);
	r.policy = replay_policy_find("oracle");
	assert_int_equal(replay_run(&r, &oracle), 0);
	r.policy = replay_policy_find("pool");
	assert_int_equal(replay_run(&r, &pool), 0);
	assert_true(rr.ttft_p99_s > 5 * cost.ttft_p99_s);
	assert_true(rr.busy_max_over_mean > 1.2 || rr.ttft_p50_s > 1);
	assert_true(cost.busy_max_over_mean < 1.2);
	assert_true(replay_regret_of(&cost, &oracle) < 1.25);
	assert_true(pool.hit > cost.hit);
	assert_true(replay_regret_of(&rr, &oracle) > 3);
	assert_true(fabs(replay_regret_of(&oracle, &oracle) - 1) < 1e-12);
}

static void a_run_with_a_limit_stops_early(void **state)
{
	struct replay_run r = run_of("support", "round_robin");
	struct replay_figures f;

	r.limit_s = 2;
	r.rate = 120;
	assert_int_equal(replay_run(&r, &f), 0); /* 120/s is three times what round-robin bears */
	assert_true(f.gave_up);
	r.rate = 20;
	r.warmup_s = 60;
	assert_int_equal(replay_run(&r, &f), 0);
	assert_false(f.gave_up);
	assert_true(f.ttft_p99_s < 2);
}

static void a_node_joins_and_one_leaves(void **state)
{
	const char *const policies[] = { "cost", "chwbl", "gie_322", "least_metrics", "oracle" };

	for (size_t i = 0; i < 5; i++) {
		struct replay_run r = run_of("support", policies[i]);
		struct replay_figures f;
		struct counts c = { 0 };

		r.rate = 25;
		r.change_s = 10;
		c.change_ns = (uint64_t)((1000 + r.change_s) * 1e9); /* runs begin at 1000 s */
		r.request = count;
		r.ctx = &c;
		r.join = true;
		assert_int_equal(replay_run(&r, &f), 0);
		assert_int_equal(f.unfinished, 0);
		assert_true(c.node[REPLAY_NODES] > 20);
		memset(c.node, 0, sizeof(c.node));
		c.late_on_last = 0;
		r.join = false;
		assert_int_equal(replay_run(&r, &f), 0);
		assert_int_equal(f.unfinished, 0);
		assert_true(c.node[REPLAY_NODES - 1] > 20);
		assert_int_equal(c.late_on_last, 0);
	}
}

/* Four gateways that exchange events are nearly one; four that do not prefill everything more than once. */
static void gateways_that_exchange_events(void **state)
{
	struct replay_run r = run_of("support", "cost");
	struct replay_figures one, four, alone;

	r.rate = 120;
	r.warmup_s = 40;
	assert_int_equal(replay_run(&r, &one), 0);
	r.w = replay_workload_find("g4-support");
	assert_int_equal(replay_run(&r, &four), 0);
	r.policy = replay_policy_find("cost_alone");
	assert_int_equal(replay_run(&r, &alone), 0);
	assert_true(replay_regret_of(&four, &one) < 1.2);
	assert_true(replay_regret_of(&alone, &one) > replay_regret_of(&four, &one));
}

static void a_closed_loop_keeps_its_clients_busy(void **state)
{
	struct replay_workload w = *replay_workload_find("support");
	struct replay_run r = run_of("support", "cost");
	struct replay_figures f;

	w.clients = 10;
	r.w = &w;
	assert_int_equal(replay_run(&r, &f), 0);
	/* Ten at a time, each as long as its requests take. */
	assert_true(fabs(f.rate_rps * f.e2e_p50_s - 10) < 2);
}

static void figures_of_series(void **state)
{
	double v[] = { 3, 1, 2 }, w[] = { 4, 1, 2, 3 };
	struct replay_series s = { 0 };

	for (int i = 100; i >= 0; i--)
		replay_series_add(&s, i);
	assert_true(replay_series_quantile(&s, .5) == 50);
	assert_true(replay_series_quantile(&s, .99) == 99);
	assert_true(replay_median(v, 3) == 2);
	assert_true(replay_median(w, 4) == 2.5);
	free(s.v);
	s = (struct replay_series){ 0 };
	assert_true(isnan(replay_series_quantile(&s, .5)));
}

static void the_agenda_is_in_order(void **state)
{
	struct replay_agenda a = { 0 };
	uint64_t last = 0;
	int thing[64];

	assert_null(replay_agenda_take(&a));
	for (int i = 0; i < 64; i++)
		replay_agenda_add(&a, load_mix(i, 1) % 8, &thing[i]);
	for (int i = 0, *before = NULL; i < 64; i++) {
		uint64_t at = replay_agenda_next_ns(&a);
		int *what = replay_agenda_take(&a);

		assert_true(at > last || !before || (at == last && what > before)); /* first in, first out */
		last = at;
		before = what;
	}
	assert_int_equal(replay_agenda_next_ns(&a), UINT64_MAX);
	free(a.heap);
}

static void believed_caches(void **state)
{
	struct lruset *s = lruset_new(2, 4);
	uint64_t a[] = { 1, 2, 3, 4 }, b[] = { 1, 2, 5 };

	lruset_touch(s, 0, a, 4, 1, 10);
	assert_int_equal(lruset_match(s, 0, a, 4, 1, 0), 4);
	assert_int_equal(lruset_match(s, 0, b, 3, 1, 0), 2);
	assert_int_equal(lruset_match(s, 1, a, 4, 1, 0), 0);
	assert_int_equal(lruset_match(s, 0, a, 4, 1, 11), 0); /* too old */
	lruset_touch(s, 0, b, 3, 1, 20); /* room for four: the end of the older chain goes first */
	assert_int_equal(lruset_match(s, 0, b, 3, 1, 0), 3);
	assert_int_equal(lruset_match(s, 0, a, 4, 1, 0), 3);
	assert_int_equal(lruset_pairs(s), 4);
	/* Every second hash of the chain: the second and the fourth. */
	lruset_touch(s, 1, a, 4, 2, 30);
	assert_int_equal(lruset_match(s, 1, a, 4, 2, 0), 2);
	assert_int_equal(lruset_pairs(s), 6);
	lruset_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_again),
		cmocka_unit_test(every_policy_serves_the_same),
		cmocka_unit_test(a_better_policy_is_better),
		cmocka_unit_test(a_run_with_a_limit_stops_early),
		cmocka_unit_test(a_node_joins_and_one_leaves),
		cmocka_unit_test(gateways_that_exchange_events),
		cmocka_unit_test(a_closed_loop_keeps_its_clients_busy),
		cmocka_unit_test(figures_of_series),
		cmocka_unit_test(the_agenda_is_in_order),
		cmocka_unit_test(believed_caches),
	};

	return cmocka_run_group_tests_name("replay/sim", tests, NULL, NULL);
}
