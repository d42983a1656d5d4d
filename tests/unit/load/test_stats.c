/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Histogram and statistics of the load generator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "load/hist.h"
#include "load/rng.h"
#include "load/stats.h"

static void near(double got, double want, double tolerance)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("got %f, want %f +- %f", got, want, tolerance);
}

static void test_empty(void **state)
{
	struct load_hist *h = calloc(1, sizeof(*h));

	near(load_hist_percentile_ms(h, 0.99), 0, 0);
	near(load_hist_mean_ms(h), 0, 0);
	free(h);
}

/* Against exact order statistics, over nine decades, within 0.5 %. */
static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void test_percentiles(void **state)
{
	enum { N = 20000 };
	static const double ps[] = { 0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1 };
	struct load_hist *h = calloc(1, sizeof(*h));
	uint64_t *v = malloc(N * sizeof(*v));
	struct load_rng r;
	double sum = 0;

	load_rng_seed(&r, 5, 5);
	for (int i = 0; i < N; i++) {
		/* 1 us to 1000 s, evenly in the logarithm */
		v[i] = (uint64_t)(1000 * pow(10, 9 * load_rng_unit(&r)));
		sum += (double)v[i];
		load_hist_add(h, v[i]);
	}
	qsort(v, N, sizeof(*v), by_value);
	for (size_t i = 0; i < sizeof(ps) / sizeof(*ps); i++) {
		int rank = (int)ceil(ps[i] * N);
		double want = (double)v[rank < 1 ? 0 : rank - 1] / 1e6;

		near(load_hist_percentile_ms(h, ps[i]), want, want * 0.005 + 0.001);
	}
	near(load_hist_mean_ms(h), sum / N / 1e6, sum / N / 1e6 * 1e-9);
	free(v);
	free(h);
}

/* Every bucket border: the value comes back within 0.5 %, and longer than the last
 * bucket is still the maximum, not lost. */
static void test_borders(void **state)
{
	struct load_hist *h = malloc(sizeof(*h));

	for (int bit = 0; bit < 38; bit++) {
		for (int d = -1; d <= 1; d++) {
			uint64_t us = (1ull << bit) + (uint64_t)(int64_t)d;

			memset(h, 0, sizeof(*h));
			load_hist_add(h, 0);
			load_hist_add(h, us * 1000);
			load_hist_add(h, us * 1000);
			near(load_hist_percentile_ms(h, 0.5), (double)us / 1000, (double)us / 1000 * 0.005);
		}
	}
	memset(h, 0, sizeof(*h));
	load_hist_add(h, 1ull << 60);
	near(load_hist_percentile_ms(h, 0.5), (double)((1ull << 60) / 1000) / 1000, 1);
	free(h);
}

#define S NSEC_PER_SEC

static struct load_call ok_call(uint64_t intended, uint64_t first, uint64_t end)
{
	return (struct load_call){ .intended_ns = intended, .start_ns = intended, .first_ns = first, .end_ns = end,
				   .measured = true, .status = 200 };
}

/* A late start counts against the answer: latencies begin at the intended time. */
static void test_counts_from_intended_time(void **state)
{
	struct load_stats *s = calloc(1, sizeof(*s));
	struct load_answer a = { .prompt_tokens = 100, .cached_tokens = 64, .output_tokens = 5 };
	struct load_call c = ok_call(10 * S, 13 * S, 14 * S);

	s->from_ns = 10 * S;
	s->until_ns = 20 * S;
	c.start_ns = 12 * S;
	c.first_token_ns = 13 * S;
	c.last_token_ns = 13 * S + S / 2;
	c.gaps = 5;
	load_stats_begin(s, &c);
	load_stats_end(s, &c, &a);
	near(load_hist_percentile_ms(&s->ttft, 0.5), 3000, 30);
	near(load_hist_percentile_ms(&s->e2e, 0.5), 4000, 40);
	near(load_hist_percentile_ms(&s->late, 0.99), 2000, 20);
	near(load_hist_percentile_ms(&s->tpot, 0.5), 100, 1);
	near(load_stats_hit_rate(s), 0.64, 1e-9);
	free(s);
}

static void test_rates_and_warmup(void **state)
{
	struct load_stats *s = calloc(1, sizeof(*s));
	struct load_answer a = { .prompt_tokens = 100, .cached_tokens = -1, .output_tokens = 5 };

	s->from_ns = 10 * S;
	s->until_ns = 20 * S;
	/* Warm-up: ends inside the window, so it is part of the throughput, but of nothing else. */
	struct load_call warm = ok_call(9 * S, 10 * S, 11 * S);

	warm.measured = false;
	load_stats_begin(s, &warm);
	load_stats_end(s, &warm, &a);
	for (uint64_t t = 10; t < 20; t++) {
		struct load_call c = ok_call(t * S, t * S + S, t * S + 2 * S);

		load_stats_begin(s, &c);
		load_stats_end(s, &c, &a);
	}
	assert_int_equal(s->requests, 10);
	assert_int_equal(s->errors, 0);
	assert_int_equal(s->ttft.count, 10);
	/* 8 of the ten and the warm one ended before 20 s. */
	near(load_stats_rate_rps(s), 0.9, 1e-9);
	near(load_stats_offered_rps(s), 1.0, 1e-9);
	/* No engine reported cached tokens: unknown, not 0. */
	near(load_stats_hit_rate(s), -1, 0);
	free(s);
}

static void test_errors_and_backends(void **state)
{
	struct load_stats *s = calloc(1, sizeof(*s));
	struct load_answer a = { .prompt_tokens = -1, .cached_tokens = -1, .output_tokens = -1 };
	struct load_call c = ok_call(S, 2 * S, 3 * S);

	s->until_ns = UINT64_MAX;
	load_stats_begin(s, &c);
	load_stats_end(s, &c, &a);
	c.error = "429";
	load_stats_end(s, &c, &a);
	c.error = "truncated";
	strcpy(c.backend, "node-1");
	load_stats_end(s, &c, &a);
	load_stats_end(s, &c, &a);
	assert_int_equal(s->requests, 4);
	assert_int_equal(s->errors, 3);
	assert_int_equal(s->ttft.count, 1);
	assert_int_equal(s->reasons.n, 2);
	assert_string_equal(s->reasons.list[0].name, "429");
	assert_int_equal(s->reasons.list[1].count, 2);
	/* The 429 had no backend: the router's own. */
	assert_int_equal(s->backends.n, 2);
	assert_string_equal(s->backends.list[0].name, "direct");
	assert_int_equal(s->backends.list[0].count, 1);
	assert_int_equal(s->backends.list[1].count, 2);
	free(s);
}

static void test_counters_are_bounded(void **state)
{
	struct load_counters *c = calloc(1, sizeof(*c));
	uint64_t sum = 0;
	char name[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		load_counters_add(c, name);
	}
	assert_int_equal(c->n, LOAD_COUNTERS_MAX);
	assert_string_equal(c->list[c->n - 1].name, "other");
	for (uint32_t i = 0; i < c->n; i++)
		sum += c->list[i].count;
	assert_int_equal(sum, 1000);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_borders),
		cmocka_unit_test(test_counts_from_intended_time),
		cmocka_unit_test(test_rates_and_warmup),
		cmocka_unit_test(test_errors_and_backends),
		cmocka_unit_test(test_counters_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
