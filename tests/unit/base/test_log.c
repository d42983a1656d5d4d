/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The daemon's log: one line an event whatever its text, levels, rate limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_format.h"

static FILE *sink;
static int saved;

/* stderr goes into a file while a test runs; cmocka's own report needs it afterwards. */
static int capture(void **state)
{
	fflush(stderr);
	sink = tmpfile();
	saved = dup(STDERR_FILENO);
	if (!sink || saved < 0 || dup2(fileno(sink), STDERR_FILENO) < 0)
		return -1;
	return 0;
}

static int release(void **state)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
	fclose(sink);
	log_set_level(LOG_LVL_INFO);
	return 0;
}

/* What was logged so far. */
static const char *logged(void)
{
	static char text[65536];
	size_t n;

	rewind(sink);
	n = fread(text, 1, sizeof(text) - 1, sink);
	text[n] = 0;
	return text;
}

static unsigned lines(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static void test_shape(void **state)
{
	const char *t;
	unsigned year, month, day, hour, minute, second, milli;
	int at = 0;

	log_warn("thing_failed", "errno=%d path=%s", 5, "/x");
	t = logged();
	assert_int_equal(sscanf(t, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ%n", &year, &month, &day, &hour, &minute, &second, &milli, &at), 7);
	assert_string_equal(t + at, " level=warn event=thing_failed errno=5 path=/x\n");
	assert_in_range(month, 1, 12);
}

static void test_no_fields(void **state)
{
	log_error("bare", "%s", "");
	assert_non_null(strstr(logged(), " level=error event=bare\n"));
}

static void test_levels(void **state)
{
	log_debug("hidden", "x=1");
	assert_string_equal(logged(), "");
	log_set_level(LOG_LVL_DEBUG);
	log_debug("shown", "x=1");
	assert_non_null(strstr(logged(), "level=debug event=shown"));
	log_set_level(LOG_LVL_ERROR);
	log_warn("hidden", "x=1");
	log_error("worst", "x=1");
	assert_null(strstr(logged(), "hidden"));
	assert_non_null(strstr(logged(), "event=worst"));
}

/* A name out of a configuration or an engine's message can't start a line of its own. */
static void test_one_line_whatever_the_text(void **state)
{
	char all[256];

	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = 0;
	log_info("odd", "text=%s", all);
	assert_int_equal(lines(logged()), 1);
	for (const char *p = logged(); *p; p++)
		assert_true(*p == '\n' ? !p[1] : (unsigned char)*p >= 0x20 && *p != 0x7f);
}

__attribute__((format(printf, 2, 3))) static const char *formatted(size_t cap, const char *fmt, ...)
{
	static char out[2048];
	va_list ap;
	size_t n;

	memset(out, '#', sizeof(out));
	va_start(ap, fmt);
	n = log_format(out, cap, fmt, ap);
	va_end(ap);
	assert_int_equal(strlen(out), n);
	assert_true(n < cap);
	assert_int_equal(out[cap], '#');
	return out;
}

/* A value stays one value whatever it holds: a message that quotes what it was given
 * (error="...bogus: "bogus"...") could not be told apart from what follows. */
static void test_values_are_quoted(void **state)
{
	static const struct {
		const char *value, *bare, *in_quotes; /* with key=%s and with key="%s" */
	} rows[] = {
		{ "plain", "plain", "\"plain\"" },
		{ "10.0.0.1:80", "10.0.0.1:80", "\"10.0.0.1:80\"" },
		{ "a=b", "a=b", "\"a=b\"" },
		{ "", "\"\"", "\"\"" },
		{ "two words", "\"two words\"", "\"two words\"" },
		{ "a \"b\" c", "\"a \\\"b\\\" c\"", "\"a \\\"b\\\" c\"" },
		{ "\"", "\"\\\"\"", "\"\\\"\"" },
		{ "a\\", "\"a\\\\\"", "\"a\\\\\"" },
		{ "line\nbreak\033[1m", "\"line?break?[1m\"", "\"line?break?[1m\"" },
		{ "caf\xc3\xa9", "caf\xc3\xa9", "\"caf\xc3\xa9\"" },
		{ "x level=error", "\"x level=error\"", "\"x level=error\"" },
	};
	char want[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		snprintf(want, sizeof(want), "a=1 key=%s b=2", rows[i].bare);
		assert_string_equal(formatted(1000, "a=%d key=%s b=%u", 1, rows[i].value, 2u), want);
		snprintf(want, sizeof(want), "a=1 key=%s said so", rows[i].in_quotes);
		assert_string_equal(formatted(1000, "a=%d key=\"%s\" said so", 1, rows[i].value), want);
	}
	/* A value of several parts is one, too. */
	assert_string_equal(formatted(1000, "at=%s:%u x=%s", "my host", 80u, "y"), "at=\"my host:80\" x=y");
	assert_string_equal(formatted(1000, "why=\"no %s here\" n=%d", "\"file\"", 3), "why=\"no \\\"file\\\" here\" n=3");
}

/* What comes out of every conversion is what printf makes of it. */
static void test_conversions(void **state)
{
	char want[256];

#define SAME(...)                                                       \
	do {                                                            \
		snprintf(want, sizeof(want), __VA_ARGS__);              \
		assert_string_equal(formatted(1000, __VA_ARGS__), want); \
	} while (0)
	SAME("a=%d b=%i c=%u d=%x e=%X", -1, INT32_MIN, UINT32_MAX, 0xabcu, 0xdefu);
	SAME("a=%ld b=%lu c=%lld d=%llu e=%zu", LONG_MIN, ULONG_MAX, LLONG_MIN, ULLONG_MAX, SIZE_MAX);
	SAME("a=%hd b=%hhu c=%jd", (short)-3, (unsigned char)200, INTMAX_MIN);
	SAME("a=%05d c=%+d d=%016llx, %-4dX", 42, 8, 0x1234ull, 7);
	SAME("a=%.1f b=%.3f c=%g d=%e e=%f", 1.25, -2.0, 1e-9, 12345.678, 0.5);
	SAME("a=%.3s b=%.*s c=%s d=%c", "abcdef", 2, "xyz", "w", 'q');
	SAME("a=%p 100%% done b=%d%%", (void *)0x1234, 5);
	SAME("no values at all");
	SAME("%s first", "word");
}

/* Cut anywhere: ended by NUL, quotes closed, no half of an escape, nothing written behind. */
static void test_cut_at_any_length(void **state)
{
	const char *whole = "error=\"say \\\"hi\\\" \\\\ end\" n=12";

	assert_string_equal(formatted(1000, "error=%s n=%d", "say \"hi\" \\ end", 12), whole);
	for (size_t cap = 8; cap < strlen(whole) + 2; cap++) {
		const char *got = formatted(cap, "error=%s n=%d", "say \"hi\" \\ end", 12);
		unsigned quotes = 0;

		for (const char *p = got; *p; p++) {
			if (*p == '\\')
				assert_true(*++p == '"' || *p == '\\');
			else
				quotes += *p == '"';
		}
		assert_int_equal(quotes % 2, 0);
	}
}

static void test_long_text_is_cut(void **state)
{
	char *big = malloc(100001);

	memset(big, 'a', 100000);
	big[100000] = 0;
	log_info("long", "text=%s", big);
	free(big);
	assert_int_equal(lines(logged()), 1);
	assert_in_range(strlen(logged()), 500, 1024);
}

static void flood(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		log_info("flood", "i=%u", i);
}

/* A call site says at most LOG_BURST lines a second; how many it kept back comes
 * with the next one. The sum is right whenever the second turns. */
static void test_flood_is_counted(void **state)
{
	unsigned said = 0, kept = 0, sent = 0;

	/* two full seconds at least: some lines go out after a pause that was told */
	for (int turn = 0; turn < 30 && !strstr(logged(), "suppressed="); turn++) {
		flood(100);
		sent += 100;
		usleep(100000);
	}
	assert_non_null(strstr(logged(), "suppressed="));
	for (const char *p = logged(); (p = strstr(p, "event=flood")); p++)
		said++;
	for (const char *p = logged(); (p = strstr(p, "suppressed=")); p++)
		kept += (unsigned)atoi(p + strlen("suppressed="));
	assert_true(said >= LOG_BURST);
	assert_true(said <= 4 * LOG_BURST);
	/* those kept back in the last second are not told yet: one turn's at most */
	assert_in_range(said + kept, sent - 100, sent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_shape, capture, release),
		cmocka_unit_test_setup_teardown(test_no_fields, capture, release),
		cmocka_unit_test_setup_teardown(test_levels, capture, release),
		cmocka_unit_test_setup_teardown(test_one_line_whatever_the_text, capture, release),
		cmocka_unit_test(test_values_are_quoted),
		cmocka_unit_test(test_conversions),
		cmocka_unit_test(test_cut_at_any_length),
		cmocka_unit_test_setup_teardown(test_long_text_is_cut, capture, release),
		cmocka_unit_test_setup_teardown(test_flood_is_counted, capture, release),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
