/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "control/prom.h"

static char *text;
static size_t text_len;

static FILE *begin(void)
{
	FILE *f = open_memstream(&text, &text_len);

	assert_non_null(f);
	return f;
}

static void expect(FILE *f, const char *want)
{
	fclose(f);
	assert_string_equal(text, want);
	free(text);
}

static void test_escaping(void **state)
{
	FILE *f = begin();

	prom_family(f, "m_total", "counter", "One \\ and \"two\"\nlines.");
	prom_uint(f, "m_total", PROM_LABELS({ "a", "q\"b\\n\nx" }, { "b", "" }), 18446744073709551615ull);
	expect(f, "# HELP m_total One \\\\ and \"two\"\\nlines.\n# TYPE m_total counter\n"
		  "m_total{a=\"q\\\"b\\\\n\\nx\",b=\"\"} 18446744073709551615\n");
}

static void test_numbers(void **state)
{
	FILE *f = begin();

	prom_real(f, "m", PROM_NONE, 0.25);
	prom_real(f, "m", PROM_NONE, __builtin_nan(""));
	prom_real(f, "m", PROM_NONE, __builtin_inf());
	prom_real(f, "m", PROM_NONE, -__builtin_inf());
	prom_real(f, "m", PROM_NONE, 1e12);
	prom_uint(f, "m", PROM_NONE, 0);
	expect(f, "m 0.25\nm NaN\nm +Inf\nm -Inf\nm 1e+12\nm 0\n");
}

static void test_histogram(void **state)
{
	static const struct hist_bounds bounds = { 3, { 1000, 1000000, 2500000000ull } };
	struct hist h = { 0 };
	FILE *f;

	hist_observe(&h, &bounds, 1000);
	hist_observe(&h, &bounds, 1001);
	hist_observe(&h, &bounds, 1000000000ull);
	hist_observe(&h, &bounds, 4000000000ull);
	f = begin();
	prom_histogram(f, "t_seconds", PROM_LABELS({ "pool", "p" }), &h, &bounds);
	expect(f, "t_seconds_bucket{pool=\"p\",le=\"1e-06\"} 1\n"
		  "t_seconds_bucket{pool=\"p\",le=\"0.001\"} 2\n"
		  "t_seconds_bucket{pool=\"p\",le=\"2.5\"} 3\n"
		  "t_seconds_bucket{pool=\"p\",le=\"+Inf\"} 4\n"
		  "t_seconds_sum{pool=\"p\"} 5.000002\n"
		  "t_seconds_count{pool=\"p\"} 4\n");
	/* read while it is written: the sum of the buckets is the count, whatever `count` says */
	h.count = 7;
	f = begin();
	prom_histogram(f, "t_seconds", PROM_NONE, &h, &bounds);
	expect(f, "t_seconds_bucket{le=\"1e-06\"} 1\nt_seconds_bucket{le=\"0.001\"} 2\nt_seconds_bucket{le=\"2.5\"} 3\n"
		  "t_seconds_bucket{le=\"+Inf\"} 4\nt_seconds_sum 5.000002\nt_seconds_count 4\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_escaping),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_histogram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
