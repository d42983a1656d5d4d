/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The cost model, against figures worked out by hand from its definition and the default profile
 * (a 15 ms, b 62.5 us, c 35 us, d 17.8 ns, e 0.7 ns, 8192 tokens a step, 256 sequences). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "route/cost.h"

static const struct route_profile profile = { .a_s = 15e-3, .b_s = 62.5e-6, .c_s = 35e-6, .d_s = 17.8e-9,
					      .e_s = 0.7e-9, .batch_tokens = 8192, .max_seqs = 256 };
static const struct cost_means means = { 0.2, 1000, 150, 2000 };

static void near_ms(double got_s, double want_ms)
{
	if (fabs(got_s * 1e3 - want_ms) > 1e-6 + want_ms * 1e-9)
		fail_msg("got %.9f ms, want %.9f ms", got_s * 1e3, want_ms);
}

static struct cost_terms compute(struct cost_node n, double tokens, double match)
{
	struct cost_terms t;

	cost_compute(&profile, &n, &means, tokens, match, 0.150, &t);
	return t;
}

static void idle_node_with_match(void **state)
{
	struct cost_terms t = compute((struct cost_node){ .r = 1, .kv_used = -1 }, 3061, 2944);

	/* U = 117: 62.5 us x 117 + .7 ns x 117 x (3061 - 58.5); one step of 15 ms before. */
	near_ms(t.prefill_s, 7.3125 + 0.24590475);
	near_ms(t.wait_s, 15);
	near_ms(t.ttft_s, 22.55840475);
	near_ms(t.congestion_s, 0.5 * 7.55840475);
	near_ms(t.decode_s, 0);
	near_ms(t.cost_s, 22.55840475 + 3.779202375);
}

static void at_least_16_tokens_are_computed(void **state)
{
	struct cost_terms t = compute((struct cost_node){ .r = 1, .kv_used = -1 }, 1000, 1000);

	near_ms(t.prefill_s, 1.0 + 0.7e-6 * 16 * 992);
	t = compute((struct cost_node){ .r = 1, .kv_used = -1 }, 0, 0);
	near_ms(t.prefill_s, 1.0 + 0.7e-6 * 16 * 8);
}

static void busy_node_own_counts(void **state)
{
	/* Three own prefills of .2 s and 3000 tokens each, 10 decoding; the oldest has run .1 s at r 2: credit .05. */
	struct cost_node n = { .r = 2, .work_s = 0.6, .work_tokens = 9000, .has_head = true, .head_s = 0.2,
			       .head_tokens = 3000, .head_running_s = 0.1, .own_unp = 3, .own_decoding = 10,
			       .in_flight = 13, .kv_used = -1 };
	struct cost_terms t = compute(n, 4000, 0);
	double pre = 62.5e-3 * 4000 + 0.7e-6 * 4000 * 2000; /* 255.6 ms */
	double step = 15 + 0.035 * 10 + 17.8e-6 * 10 * 2000; /* 15.706 ms */
	double queue = 600 - 50 + step * 2; /* (8250 + 4000) / 8192: two steps */

	near_ms(t.prefill_s, pre);
	near_ms(t.wait_s, 2 * queue + 2 * step / 2);
	near_ms(t.ttft_s, 2 * (queue + pre) + step);
	near_ms(t.congestion_s, (0.5 + 2 * 3) * 2 * pre);
	near_ms(t.decode_s, 0.03 * 10 * 2 * (pre + 150 * (0.035 + 17.8e-6 * 4000)));
}

static void credit_is_at_most_the_head(void **state)
{
	struct cost_node n = { .r = 1, .work_s = 0.2, .work_tokens = 3000, .has_head = true, .head_s = 0.2,
			       .head_tokens = 3000, .head_running_s = 9, .own_unp = 1, .in_flight = 1, .kv_used = -1 };

	near_ms(compute(n, 100, 0).wait_s, 15);
}

static void requests_of_others_count_by_the_mean(void **state)
{
	struct cost_node n = { .r = 1, .known = true, .waiting = 5, .running = 20, .kv_used = 0.5, .own_unp_then = 2,
			       .own_in_flight_then = 4, .in_flight = 6, .own_unp = 2, .own_decoding = 2 };
	struct cost_terms t = compute(n, 1000, 0);
	/* D = 20 + 6 - 4; others = 5 - 2: W' = .6 s, Wt' = 3000. */
	double step = 15 + 0.035 * 22 + 17.8e-6 * 22 * 2000;

	near_ms(t.wait_s, 600 + step + step / 2);
	near_ms(t.congestion_s, (0.5 + 2 * 5) * t.prefill_s * 1e3);
	/* Unknown: own counts alone. */
	n.known = false;
	step = 15 + 0.035 * 2 + 17.8e-6 * 2 * 2000;
	near_ms(compute(n, 1000, 0).wait_s, step + step / 2);
}

static void full_of_kv_waits_for_a_slot(void **state)
{
	struct cost_node n = { .r = 1, .known = true, .waiting = 10, .running = 40, .kv_used = 0.95, .own_unp_then = 10,
			       .own_in_flight_then = 50, .in_flight = 50, .own_unp = 10, .own_decoding = 40 };
	struct cost_terms t = compute(n, 1000, 0);
	double step = 15 + 0.035 * 40 + 17.8e-6 * 40 * 2000;

	/* 50 there + this one - 40 slots = 11 must end before; 40 run. */
	near_ms(t.wait_s, 11 * 150 * step / 40 + step / 2);
	n.kv_used = 0.9;
	near_ms(compute(n, 1000, 0).wait_s, step + step / 2);
}

static void adapter_and_distance(void **state)
{
	struct cost_node n = { .r = 1, .kv_used = -1, .adapter_cold = true, .own_decoding = 10, .in_flight = 10,
			       .extra_s = 0.020 };
	struct cost_terms t = compute(n, 1000, 900);

	near_ms(t.adapter_s, 150 * (1 + 0.5 + 0.3 * 10));
	near_ms(t.cost_s, (t.ttft_s + t.congestion_s + t.decode_s) * 1e3 + 675 + 20);
}

static void tie_band(void **state)
{
	assert_true(cost_ties(0.100 + 0.0099, 0.100));
	assert_false(cost_ties(0.100 + 0.0101, 0.100));
	assert_true(cost_ties(0.0049, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_node_with_match),
		cmocka_unit_test(at_least_16_tokens_are_computed),
		cmocka_unit_test(busy_node_own_counts),
		cmocka_unit_test(credit_is_at_most_the_head),
		cmocka_unit_test(requests_of_others_count_by_the_mean),
		cmocka_unit_test(full_of_kv_waits_for_a_slot),
		cmocka_unit_test(adapter_and_distance),
		cmocka_unit_test(tie_band),
	};

	return cmocka_run_group_tests_name("route/cost", tests, NULL, NULL);
}
