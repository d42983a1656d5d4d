/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Random draws and arrival times of the load generator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/arrivals.h"
#include "load/rng.h"
#include "load/text.h"
#include "load/zipf.h"

static void near(double got, double want, double tolerance)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("got %f, want %f +- %f", got, want, tolerance);
}

static void test_rng_streams(void **state)
{
	struct load_rng a, b, c;
	int equal = 0;

	load_rng_seed(&a, 1, 1);
	load_rng_seed(&b, 1, 1);
	load_rng_seed(&c, 1, 2);
	for (int i = 0; i < 1000; i++) {
		uint64_t v = load_rng_next(&a);

		assert_true(v == load_rng_next(&b));
		equal += v == load_rng_next(&c);
	}
	assert_int_equal(equal, 0);
	for (int i = 0; i < 100000; i++) {
		double u = load_rng_unit(&a);

		assert_true(u > 0 && u < 1);
	}
}

static void test_lognormal(void **state)
{
	enum { N = 200000 };
	static const double means[] = { 50, 150, 250 };
	struct load_rng r;

	load_rng_seed(&r, 3, 1);
	for (size_t m = 0; m < 3; m++) {
		double sum = 0, logs = 0, squares = 0;

		for (int i = 0; i < N; i++) {
			uint32_t v = load_rng_lognormal(&r, means[m], 0.5);

			assert_true(v >= 1);
			sum += v;
			logs += log(v);
			squares += log(v) * log(v);
		}
		/* The mean is the mean, the median exp(-sigma^2/2) of it. */
		near(sum / N, means[m], means[m] * 0.01);
		near(exp(logs / N), means[m] * exp(-0.125), means[m] * 0.01);
		near(sqrt(squares / N - logs / N * logs / N), 0.5, 0.01);
	}
	assert_int_equal(load_rng_lognormal(&r, 77, 0), 77);
	for (int i = 0; i < 1000; i++)
		assert_true(load_rng_lognormal(&r, 1, 3) >= 1);
}

static void test_geometric(void **state)
{
	enum { N = 200000 };
	struct load_rng r;
	double sum = 0, ones = 0;

	load_rng_seed(&r, 4, 1);
	for (int i = 0; i < N; i++) {
		uint32_t n = load_rng_geometric(&r, 5, 100);

		assert_true(n >= 1 && n <= 100);
		sum += n;
		ones += n == 1;
	}
	near(sum / N, 5, 0.05);
	near(ones / N, 0.2, 0.005);
	assert_int_equal(load_rng_geometric(&r, 1, 100), 1);
}

static void test_zipf(void **state)
{
	enum { N = 400000, K = 1000 };
	static const double zs[] = { 0, 0.4, 0.8, 1.2 };
	struct load_zipf z;
	struct load_rng r;
	int *count = malloc(K * sizeof(*count));

	assert_int_equal(load_zipf_init(&z, 0, 1), -EINVAL);
	load_rng_seed(&r, 9, 1);
	for (size_t e = 0; e < sizeof(zs) / sizeof(*zs); e++) {
		double norm = 0;

		assert_int_equal(load_zipf_init(&z, K, zs[e]), 0);
		memset(count, 0, K * sizeof(*count));
		for (int i = 0; i < N; i++)
			count[load_zipf_draw(&z, &r)]++;
		for (int k = 1; k <= K; k++)
			norm += pow(k, -zs[e]);
		/* Five standard deviations of the count. */
		for (int k = 0; k < K; k += k < 10 ? 1 : 89) {
			double want = N * pow(k + 1, -zs[e]) / norm;

			near(count[k], want, 5 * sqrt(want) + 1);
		}
		load_zipf_free(&z);
	}
	free(count);
}

static void test_text(void **state)
{
	char a[4096], b[4096], c[4096];

	load_text_fill(a, sizeof(a), 1);
	load_text_fill(b, sizeof(b), 1);
	load_text_fill(c, sizeof(c), 2);
	assert_memory_equal(a, b, sizeof(a));
	/* A shorter text of a key is the beginning of a longer one. */
	for (size_t len = 0; len < 100; len++) {
		memset(b, '#', sizeof(b));
		load_text_fill(b, len, 1);
		assert_memory_equal(a, b, len);
		assert_int_equal(b[len], '#');
	}
	/* Different keys share no 64-byte block, and nothing needs an escape. */
	for (size_t i = 0; i < sizeof(a); i += 64)
		assert_memory_not_equal(a + i, c + i, 64);
	for (size_t i = 0; i < sizeof(a); i++)
		assert_true(a[i] == ' ' || (a[i] >= 'a' && a[i] <= 'z') || (a[i] >= '0' && a[i] <= '5'));
}

/* Arrivals between `from` and `to` seconds. */
static uint64_t count_between(struct load_arrivals *a, double from, double to)
{
	uint64_t n = 0;
	double last = 0, t;

	while ((t = load_arrivals_next(a)) < to) {
		assert_true(t >= last);
		last = t;
		n += t >= from;
	}
	return n;
}

static struct load_arrivals make(enum load_arrival_kind kind, double rate, bool poisson)
{
	struct load_arrivals a = { .kind = kind, .rate = rate, .poisson = poisson, .time_scale = 1 };

	load_rng_seed(&a.rng, 11, 4);
	return a;
}

static void test_even(void **state)
{
	struct load_arrivals a = make(LOAD_ARRIVE_STEADY, 40, false);

	/* No drift: the millionth is where it should be. */
	for (int i = 0; i <= 1000000; i++) {
		double t = load_arrivals_next(&a);

		assert_true(fabs(t - i / 40.0) < 1e-9);
	}
}

static void test_poisson(void **state)
{
	enum { N = 200000 };
	struct load_arrivals a = make(LOAD_ARRIVE_STEADY, 40, true);
	double last = 0, sum = 0, squares = 0;

	for (int i = 0; i < N; i++) {
		double t = load_arrivals_next(&a), gap = t - last;

		last = t;
		sum += gap;
		squares += gap * gap;
	}
	near(sum / N, 1 / 40.0, 1 / 40.0 * 0.01);
	/* Exponential: standard deviation equals the mean. */
	near(sqrt(squares / N - sum / N * sum / N), 1 / 40.0, 1 / 40.0 * 0.02);
}

static void test_burst(void **state)
{
	struct load_arrivals a = make(LOAD_ARRIVE_BURST, 120, false), b = a, c = a, d = a;

	/* 60 periods: mean 120/s; inside a period 60/s, then 300/s. */
	near((double)count_between(&a, 0, 1200) / 1200, 120, 2);
	near((double)count_between(&b, 0, 15) / 15, 60, 10);
	near((double)count_between(&c, 15, 20) / 5, 300, 40);
	/* Twice as fast: the high state is from 7.5 to 10 s. */
	d.time_scale = 2;
	near((double)count_between(&d, 7.5, 10) / 2.5, 300, 60);
}

/* New conversations and those that come back make the wanted rate from the start. */
static void test_conversations_ramp(void **state)
{
	struct load_arrivals a = make(LOAD_ARRIVE_CONVERSATIONS, 100, true), b, c;

	a.comeback = 0.8;
	a.cycle_s = 34;
	b = c = a;
	near((double)count_between(&a, 0, 2) / 2, 100, 30);
	/* Filled up: only every fifth request is a first one. */
	near((double)count_between(&b, 300, 2300) / 2000, 20, 0.7);
	/* At one cycle 1 - 1/e of those that will come back do. */
	near((double)count_between(&c, 33, 35) / 2, 100 * (1 - 0.8 * (1 - exp(-1))), 22);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rng_streams), cmocka_unit_test(test_lognormal),
		cmocka_unit_test(test_geometric),   cmocka_unit_test(test_zipf),
		cmocka_unit_test(test_text),        cmocka_unit_test(test_even),
		cmocka_unit_test(test_poisson),     cmocka_unit_test(test_burst),
		cmocka_unit_test(test_conversations_ramp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
