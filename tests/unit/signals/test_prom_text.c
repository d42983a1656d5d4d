/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The Prometheus text reader: every shape of line, any cut, any garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "signals/prom_text.h"

/* Samples as text, one a line: name{label=value;...} value@timestamp */
struct seen {
	char text[16384];
	size_t len;
};

static void on_sample(void *ctx, const struct prom_sample *s)
{
	struct seen *seen = ctx;
	char *at = seen->text + seen->len;
	size_t room = sizeof(seen->text) - seen->len;
	int n = snprintf(at, room, "%s{", s->name);

	for (unsigned i = 0; i < s->n_labels; i++)
		n += snprintf(at + n, room - (size_t)n, "%s=%s;", s->labels[i].name, s->labels[i].value);
	n += snprintf(at + n, room - (size_t)n, "} %g", s->value);
	if (s->has_timestamp)
		n += snprintf(at + n, room - (size_t)n, "@%.0f", s->timestamp);
	n += snprintf(at + n, room - (size_t)n, "\n");
	seen->len += (size_t)n;
}

static struct prom_parser parser; /* large */

static int parse_cut(const char *text, size_t len, size_t cut, struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	prom_parser_init(&parser, on_sample, seen);
	for (size_t at = 0; at < len; at += cut)
		prom_parser_feed(&parser, text + at, len - at < cut ? len - at : cut);
	return prom_parser_finish(&parser);
}

static int parse(const char *text, struct seen *seen)
{
	return parse_cut(text, strlen(text), strlen(text) + 1, seen);
}

static const struct {
	const char *line, *want; /* NULL: malformed */
} lines[] = {
	{ "up 1", "up{} 1\n" },
	{ "up 1\r", "up{} 1\n" },
	{ "  up\t 1  ", "up{} 1\n" },
	{ "a:b_c9 -2.5e3", "a:b_c9{} -2500\n" },
	{ "up{} 1", "up{} 1\n" },
	{ "up{}1", "up{} 1\n" },
	{ "up{a=\"b\"} 1", "up{a=b;} 1\n" },
	{ "up{a=\"b\",} 1", "up{a=b;} 1\n" },
	{ "up { a = \"b\" , c = \"d\" } 1", "up{a=b;c=d;} 1\n" },
	{ "up{a=\"\"} 1", "up{a=;} 1\n" },
	{ "up{a=\"x\\\\y\\\"z\\nw\\q\"} 1", "up{a=x\\y\"z\nw\\q;} 1\n" },
	{ "up{a=\"}, {=\"} 1", "up{a=}, {=;} 1\n" },
	{ "up NaN", "up{} nan\n" },
	{ "up +Inf", "up{} inf\n" },
	{ "up -Inf", "up{} -inf\n" },
	{ "up 1 1700000000123", "up{} 1@1700000000123\n" },
	{ "up{a=\"b\"} 1 -5", "up{a=b;} 1@-5\n" },
	{ "h_bucket{le=\"+Inf\"} 5 # {trace_id=\"x\"} 0.5", "h_bucket{le=+Inf;} 5\n" },
	{ "up 1 12.5 # {a=\"b\"} 1", "up{} 1@12\n" },
	{ "# HELP up is up", "" },
	{ "#", "" },
	{ "   # indented", "" },
	{ "# EOF", "" },
	{ "", "" },
	{ " \t ", "" },
	{ "up", NULL },
	{ "up{} ", NULL },
	{ "up one", NULL },
	{ "up 1x", NULL },
	{ "up 1 2 3", NULL },
	{ "up 1 x", NULL },
	{ "9up 1", NULL },
	{ "{a=\"b\"} 1", NULL },
	{ "up{a} 1", NULL },
	{ "up{a=b} 1", NULL },
	{ "up{a=\"b\" c=\"d\"} 1", NULL },
	{ "up{a=\"b\"", NULL },
	{ "up{a=\"b} 1", NULL },
	{ "up{a=\"b\\\"} 1", NULL },
	{ "up{9=\"b\"} 1", NULL },
	{ "up{,} 1", NULL },
	{ "up} 1", NULL },
	{ "<html><body>404</body></html>", NULL },
	{ "{\"error\":{\"message\":\"Loading model\"}}", NULL },
};

static void test_lines(void **state)
{
	struct seen seen;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		char text[256];

		print_message("line: %s\n", lines[i].line);
		snprintf(text, sizeof(text), "first 7\n%s\nlast 9\n", lines[i].line);
		assert_int_equal(parse(text, &seen), 0);
		assert_int_equal(parser.malformed, lines[i].want ? 0 : 1);
		snprintf(text, sizeof(text), "first{} 7\n%slast{} 9\n", lines[i].want ? lines[i].want : "");
		assert_string_equal(seen.text, text);
		/* The same line as the last one, without its newline. */
		parse(lines[i].line, &seen);
		assert_string_equal(seen.text, lines[i].want ? lines[i].want : "");
	}
}

/* All lines in one document, cut at every possible length. */
static void test_any_cut(void **state)
{
	static struct seen whole, seen;
	char text[4096];
	size_t len = 0;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", lines[i].line);
	assert_int_equal(parse_cut(text, len, len, &whole), 0);
	assert_true(whole.len > 0);
	for (size_t cut = 1; cut < 200; cut++) {
		assert_int_equal(parse_cut(text, len, cut, &seen), 0);
		assert_string_equal(seen.text, whole.text);
	}
}

static void test_labels(void **state)
{
	struct prom_label labels[] = { { "a", "1" }, { "ab", "2" } };
	struct prom_sample s = { .name = "x", .labels = labels, .n_labels = 2 };

	assert_string_equal(prom_sample_label(&s, "ab"), "2");
	assert_string_equal(prom_sample_label(&s, "a"), "1");
	assert_null(prom_sample_label(&s, "abc"));
}

/* Neither a line without end nor a thousand labels cost memory or the lines around them. */
static void test_bounds(void **state)
{
	static char text[3 * PROM_LINE_MAX];
	static struct seen seen;
	size_t len;

	for (size_t cut = 1; cut <= sizeof(text); cut = cut * 7 + 1) {
		len = (size_t)sprintf(text, "a 1\nb{l=\"");
		memset(text + len, 'x', 2 * PROM_LINE_MAX);
		len += 2 * PROM_LINE_MAX;
		len += (size_t)sprintf(text + len, "\"} 2\nc 3\n");
		assert_int_equal(parse_cut(text, len, cut, &seen), 0);
		assert_string_equal(seen.text, "a{} 1\nc{} 3\n");
		assert_int_equal(parser.malformed, 1);
	}
	/* The longest line that fits does. */
	memset(text, ' ', PROM_LINE_MAX);
	memcpy(text, "a 1", 3);
	assert_int_equal(parse_cut(text, PROM_LINE_MAX, 1000, &seen), 0);
	assert_string_equal(seen.text, "a{} 1\n");

	len = (size_t)sprintf(text, "a{");
	for (int i = 0; i < PROM_LABELS_MAX; i++)
		len += (size_t)sprintf(text + len, "l%d=\"v\",", i);
	sprintf(text + len, "} 1\n");
	assert_int_equal(parse(text, &seen), 0);
	sprintf(text + len, "z=\"v\"} 1\n");
	assert_int_equal(parse(text, &seen), -EBADMSG);
}

static void test_not_metrics(void **state)
{
	static struct seen seen;

	assert_int_equal(parse("", &seen), -ENODATA);
	assert_int_equal(parse("# only\n# comments\n", &seen), -ENODATA);
	assert_int_equal(parse("<html>\n", &seen), -EBADMSG);
	assert_int_equal(parse_cut("a 1\0b 2\n", 8, 8, &seen), -EBADMSG);
}

/* Random bytes, biased to the format's own: never a crash, samples plus malformed never exceed lines. */
static void test_garbage(void **state)
{
	static const char alphabet[] = "ab{}\"\\=, \t\n\n#1e+NaIf\r.\x80\x01";
	static struct seen seen;
	char text[300];

	srand(3);
	for (int round = 0; round < 20000; round++) {
		size_t len = (size_t)rand() % sizeof(text), newlines = 0;

		for (size_t i = 0; i < len; i++) {
			text[i] = alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
			newlines += text[i] == '\n';
		}
		parse_cut(text, len, 1 + (size_t)rand() % 50, &seen);
		assert_true(parser.samples + parser.malformed <= newlines + 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),  cmocka_unit_test(test_any_cut),     cmocka_unit_test(test_labels),
		cmocka_unit_test(test_bounds), cmocka_unit_test(test_not_metrics), cmocka_unit_test(test_garbage),
	};

	return cmocka_run_group_tests_name("signals/prom_text", tests, NULL, NULL);
}
