/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The JSON scanner alone: what it accepts, what it decodes, and that neither
 * depends on how the text is split. */
#include "help.h"

#include <errno.h>

#include "prompt/json.h"

/* Events as text. */
struct trace {
	char buf[4096];
	size_t n;
};

static void put(struct trace *t, const void *p, size_t n)
{
	assert_true(t->n + n <= sizeof(t->buf));
	memcpy(t->buf + t->n, p, n);
	t->n += n;
}

static int t_begin(void *c, bool array)
{
	put(c, array ? "[" : "{", 1);
	return 0;
}

static int t_end(void *c, bool array)
{
	put(c, array ? "]" : "}", 1);
	return 0;
}

static int t_key(void *c, const struct json_token *k)
{
	put(c, "k:", 2);
	if (k->len <= JSON_TOKEN_MAX) {
		put(c, k->buf, k->fill);
	} else {
		uint64_t h = json_token_hash(k);

		put(c, &h, sizeof(h));
	}
	put(c, ";", 1);
	return 0;
}

static int t_str_begin(void *c)
{
	put(c, "s:", 2);
	return 0;
}

static int t_chunk(void *c, const uint8_t *p, size_t n)
{
	assert_true(n > 0);
	put(c, p, n);
	return 0;
}

static int t_str_end(void *c)
{
	put(c, ";", 1);
	return 0;
}

static int t_prim(void *c, enum json_prim kind, const struct json_token *num)
{
	static const char *const names[] = { "null", "false", "true", "" };

	put(c, names[kind], strlen(names[kind]));
	if (kind == JSON_NUMBER)
		put(c, num->buf, num->fill);
	put(c, ",", 1);
	return 0;
}

static const struct json_ops ops = { t_begin, t_end, t_key, t_str_begin, t_chunk, t_str_end, t_prim };

static int scan(const char *text, size_t n, size_t piece, struct trace *t, bool *complete)
{
	struct json_scan s;
	size_t off;
	int rc = 0;

	t->n = 0;
	json_begin(&s, &ops, t);
	for (off = 0; off < n; off += piece)
		rc = json_feed(&s, text + off, n - off < piece ? n - off : piece);
	*complete = json_complete(&s);
	return rc;
}

#define T(in, out) { in, sizeof(in) - 1, out, sizeof(out) - 1 }
static const struct {
	const char *in;
	size_t in_n;
	const char *out;        /* NULL: not JSON */
	size_t out_n;
} table[] = {
	T("{}", "{}"),
	T(" \t\r\n[ ] \n", "[]"),
	T("{\"a\":1,\"b\":[true,false,null]}", "{k:a;1,k:b;[true,false,null,]}"),
	T("[-0,0.5,1e9,1E-7,-12.25e+3,0e0]", "[-0,0.5,1e9,1E-7,-12.25e+3,0e0,]"),
	T("[NaN,Infinity,-Infinity]", "[NaN,Infinity,-Infinity,]"),
	T("\"x\"", "s:x;"),
	/* "2 " was JSON and "2" was none. */
	T("2", ""), T("-1.5e3", ""), T("2 ", "2,"), T(" 0\n", "0,"),
	T("\xef\xbb\xbf{}", "{}"),
	T("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "[s:\"\\/\b\f\n\r\t;]"),
	T("[\"\\u0041\\u00e9\\u20ac\\u20AC\"]", "[s:A\xc3\xa9\xe2\x82\xac\xe2\x82\xac;]"),
	T("[\"\\u0000\"]", "[s:\0;]"),
	T("[\"\\ud83d\\ude00\"]", "[s:\xf0\x9f\x98\x80;]"),
	T("[\"\\uDBFF\\uDFFF\"]", "[s:\xf4\x8f\xbf\xbf;]"),
	/* Lone surrogates. */
	T("[\"\\ud83d\"]", "[s:\xef\xbf\xbd;]"),
	T("[\"\\ude00\"]", "[s:\xef\xbf\xbd;]"),
	T("[\"\\ud83dx\"]", "[s:\xef\xbf\xbdx;]"),
	T("[\"\\ud83d\\n\"]", "[s:\xef\xbf\xbd\n;]"),
	T("[\"\\ud83d\\u0041\"]", "[s:\xef\xbf\xbd" "A;]"),
	T("[\"\\ud83d\\ud83d\\ude00\"]", "[s:\xef\xbf\xbd\xf0\x9f\x98\x80;]"),
	T("[\"\\ude00\\ud83d\"]", "[s:\xef\xbf\xbd\xef\xbf\xbd;]"),
	T("{\"\\ud83d\":\"\\ud83d\\ude00\"}", "{k:\xef\xbf\xbd;s:\xf0\x9f\x98\x80;}"),
	T("[\"\x7f\xc3\xa9\"]", "[s:\x7f\xc3\xa9;]"),
#define BAD(in) { in, sizeof(in) - 1, NULL, 0 }
	BAD("-"), BAD("1."), BAD("1e"), BAD("1e+"), BAD("2 3"), BAD("01"),
	BAD(""), BAD(" "), BAD("{"), BAD("["), BAD("[1"), BAD("\""), BAD("{\"a\""), BAD("{\"a\":"), BAD("{\"a\":1"),
	BAD("{\"a\":1,}"), BAD("[1,]"), BAD("[,1]"), BAD("{,}"), BAD("[1 2]"), BAD("{\"a\" 1}"), BAD("{a:1}"),
	BAD("{'a':1}"), BAD("[01]"), BAD("[+1]"), BAD("[1.]"), BAD("[.5]"), BAD("[1e]"), BAD("[1e+]"), BAD("[-]"),
	BAD("[--1]"), BAD("[1.2.3]"), BAD("[0x10]"), BAD("[nul]"), BAD("[nulll]"), BAD("[True]"), BAD("[-Inf]"),
	BAD("[}"), BAD("{]"), BAD("[]]"), BAD("{}{}"), BAD("{} x"), BAD("[\"\\x\"]"), BAD("[\"\\u12g4\"]"),
	BAD("[\"\\u123\"]"), BAD("[\"a\nb\"]"), BAD("[\"a\tb\"]"), BAD("[\"\0\"]"), BAD("[\"\xff\"]"), BAD("[\"\xf8\"]"),
	BAD("{\"a\x01\":1}"), BAD("\xef\xbb{}"), BAD("\xef\xbb\xbf\xef\xbb\xbf{}"), BAD("[1]//x"), BAD("\xfe\xff"),
	BAD("\0{}"),
};

static void test_table(void **state)
{
	size_t i, piece;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (piece = 1; piece <= table[i].in_n + 1; piece++) {
			struct trace t;
			bool complete;

			scan(table[i].in, table[i].in_n, piece, &t, &complete);
			if (complete != (table[i].out != NULL))
				fail_msg("row %zu (%s), pieces of %zu: complete %d", i, table[i].in, piece, complete);
			if (!table[i].out)
				continue;
			if (t.n != table[i].out_n || memcmp(t.buf, table[i].out, t.n))
				fail_msg("row %zu (%s), pieces of %zu: %.*s", i, table[i].in, piece, (int)t.n, t.buf);
		}
	}
}

static void test_depth(void **state)
{
	char text[1000];
	struct trace t;
	bool complete;

	memset(text, '[', 500);
	memset(text + 500, ']', 500);
	assert_int_equal(scan(text + 500 - JSON_MAX_DEPTH, 2 * JSON_MAX_DEPTH, 7, &t, &complete), 0);
	assert_true(complete);
	assert_int_equal(scan(text + 499 - JSON_MAX_DEPTH, 2 * JSON_MAX_DEPTH + 2, 7, &t, &complete), -E2BIG);
	assert_false(complete);
	/* Arrays and objects are told apart on every level. */
	memset(text, '[', 100);
	assert_int_equal(scan(text, 100, 100, &t, &complete), 0);
	text[100] = '}';
	assert_int_equal(scan(text, 101, 101, &t, &complete), -EINVAL);
}

static void test_long_tokens(void **state)
{
	uint64_t h1 = 0;
	size_t piece;
	char text[600];
	size_t n;

	/* A key and a number longer than any buffer: one hash, however split. */
	n = (size_t)snprintf(text, sizeof(text), "{\"%0*d\":%0*d}", 300, 7, 1, 5);
	for (piece = 1; piece < n; piece++) {
		struct trace t;
		bool complete;
		uint64_t h;

		scan(text, n, piece, &t, &complete);
		assert_true(complete);
		memcpy(&h, t.buf + 3, sizeof(h));
		if (piece > 1)
			assert_int_equal(h, h1);
		h1 = h;
	}
	memset(text, '9', sizeof(text));
	text[0] = '[';
	text[599] = ']';
	for (piece = 1; piece < 600; piece += 13) {
		struct trace t;
		bool complete;

		assert_int_equal(scan(text, 600, piece, &t, &complete), 0);
		assert_true(complete);
	}
}

static void test_offsets(void **state)
{
	static const char text[] = "{\"a\": \"b\\u0041c\" }";
	size_t piece;

	for (piece = 1; piece < sizeof(text); piece++) {
		struct trace t = { .n = 0 };
		struct json_scan s;
		size_t off, n = sizeof(text) - 1;

		json_begin(&s, &ops, &t);
		for (off = 0; off < n; off += piece)
			json_feed(&s, text + off, n - off < piece ? n - off : piece);
		assert_int_equal(s.tok_off, 6);
		assert_int_equal(s.end_off, 16);
		assert_int_equal(s.off, n);
	}
}

/* All implementations find what the obvious loop finds, at every alignment, length and place. */
static void test_find(void **state)
{
	static const uint8_t bad[] = { '"', '\\', 0, 1, 0x1f, 0xf8, 0xff };
	static const uint8_t good[] = { ' ', '!', '#', '[', ']', 0x7f, 0x80, 0xf7, 0xc3, 0x20, 0x5d };
	json_find_fn *find;
	uint8_t *buf = malloc(256);
	unsigned int k;

	assert_non_null(buf);
	for (k = 0; (find = json_find_nth(k)); k++) {
		uint64_t st = 1;
		int round;

		for (round = 0; round < 20000; round++) {
			size_t n = rnd(&st) % 120, i, want = n;
			uint8_t *p = buf + 256 - n - rnd(&st) % 3;

			for (i = 0; i < n; i++)
				p[i] = good[rnd(&st) % sizeof(good)];
			for (i = rnd(&st) % 3; i && n; i--)
				p[rnd(&st) % n] = bad[rnd(&st) % sizeof(bad)];
			for (i = 0; i < n; i++) {
				if (memchr(bad, p[i], sizeof(bad))) {
					want = i;
					break;
				}
			}
			assert_int_equal(find(p, n), want);
		}
	}
	assert_true(k >= 1);
	free(buf);
}

/* Text as it comes, escapes of every kind and cut ones, all decoders: what they take of it, in however
 * many calls, is what the state machine makes of it byte by byte, and none writes beyond its buffer. */
static void test_text(void **state)
{
	static const char *const pieces[] = {
		"plain text of some length, more than a vector of thirty-two bytes", "a", "\xc3\xa9", "\\n", "\\\"", "\\\\", "\\/",
		"\\t\\r\\b\\f", "\\u0041", "\\u00E9", "\\u20ac", "\\uffff", "\\u07ff\\u0800", "0123456789abcdef0123456789abcde",
		"\\ud83d\\ude00", "\\ud83d", "\\x", "\\u12g4",
	};
	uint8_t *out = malloc(JSON_TEXT_RUN + JSON_TEXT_SLACK + 1);
	char *text = malloc(20000);
	json_text_fn *decode;
	unsigned int k;

	assert_non_null(out);
	assert_non_null(text);
	for (k = 0; (decode = json_text_nth(k)); k++) {
		uint64_t st = 7;
		int round;

		for (round = 0; round < 3000; round++) {
			/* a few rounds beyond one run, most short, the last pieces rarely */
			size_t n = 0, want = round % 50 ? rnd(&st) % 300 : 12000, at = 0;
			struct trace *t = calloc(1, sizeof(*t));
			bool complete;

			text[n++] = '"';
			while (n < want) {
				const char *piece = pieces[rnd(&st) % (rnd(&st) % 8 ? 14 : 18)];

				memcpy(text + n, piece, strlen(piece));
				n += strlen(piece);
			}
			if (want < 3000) {
				scan(text, n, 1, t, &complete);
				for (at = 1; at < n;) {
					size_t len, used;

					out[JSON_TEXT_RUN + JSON_TEXT_SLACK] = 0xa5;
					used = decode((uint8_t *)text + at, n - at, out, &len);
					assert_int_equal(out[JSON_TEXT_RUN + JSON_TEXT_SLACK], 0xa5);
					assert_true(used <= n - at && len <= used);
					if (at == 1)
						assert_memory_equal(out, t->buf + 2, len);
					if (!used)
						break;
					at += used;
				}
				/* it stops only where the state machine has to look */
				assert_true(at == n || text[at] == '\\');
			} else {
				size_t len, used = decode((uint8_t *)text + 1, n - 1, out, &len);

				assert_true(used <= n - 1 && len <= JSON_TEXT_RUN + JSON_TEXT_SLACK);
				assert_true(len >= JSON_TEXT_RUN || text[1 + used] == '\\');
			}
			free(t);
		}
	}
	assert_true(k >= 1);
	free(out);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table), cmocka_unit_test(test_depth), cmocka_unit_test(test_long_tokens),
		cmocka_unit_test(test_offsets), cmocka_unit_test(test_find),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
