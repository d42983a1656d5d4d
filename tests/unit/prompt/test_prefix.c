/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The one hash of policy prefix_aware. */
#include "help.h"

static uint64_t hash_pieces(enum prompt_family f, const char *body, size_t n, uint32_t len, const char *hint, size_t piece)
{
	struct iovec iov[300];
	int k = 0;
	size_t off;

	for (off = 0; off < n; off += piece) {
		assert_true(k < 300);
		iov[k].iov_base = (void *)(uintptr_t)(body + off);
		iov[k++].iov_len = n - off < piece ? n - off : piece;
	}
	return prompt_prefix_hash(iov, k, f, len, hint, hint ? strlen(hint) : 0);
}

static uint64_t hash(enum prompt_family f, const char *body, uint32_t len, const char *hint)
{
	size_t n = strlen(body), piece;
	uint64_t h = hash_pieces(f, body, n, len, hint, n ? n : 1);

	for (piece = 1 + n / 290; piece < n && piece < 12; piece++)
		assert_int_equal(hash_pieces(f, body, n, len, hint, piece), h);
	return h;
}

#define CHAT PROMPT_FAMILY_CHAT
#define U(x) "{\"messages\":[{\"role\":\"user\",\"content\":" x "}],\"stream\":true}"

static const struct {
	enum prompt_family family;
	uint32_t len;
	const char *a, *b;
	bool same;
} rows[] = {
	{ CHAT, 4, U("\"abcdX\""), U("\"abcdY\""), true },
	{ CHAT, 5, U("\"abcdX\""), U("\"abcdY\""), false },
	{ CHAT, 4, U("\"abcd\""), U("\"abcdY\""), true },
	{ CHAT, 4, U("\"abc\""), U("\"abcd\""), false },
	{ CHAT, 100, U("\"abc\""), U("\"abc\""), true },
	/* characters, not bytes; decoded, not as written */
	{ CHAT, 3, U("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80X\""), U("\"\\u00e9\\u20ac\\ud83d\\ude00Y\""), true },
	{ CHAT, 4, U("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80X\""), U("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80Y\""), false },
	{ CHAT, 2, U("\"a\xc3\xa9X\""), U("\"a\xc3\xa8X\""), false },
	/* the text of several messages and parts, and nothing else */
	{ CHAT, 4, U("[{\"type\":\"text\",\"text\":\"abcd\"}]"), U("\"abcd\""), true },
	{ CHAT, 4, "{\"messages\":[{\"role\":\"system\",\"content\":\"abcd\"},{\"role\":\"user\",\"content\":\"x\"}]}",
	  "{\"model\":\"z\",\"tools\":[{\"content\":\"t\"}],\"messages\":[{\"content\":\"abcdef\",\"role\":\"user\"}]}", true },
	{ CHAT, 5, "{\"messages\":[{\"content\":\"abcd\"},{\"content\":\"x\"}]}", "{\"messages\":[{\"content\":\"abcd\"},{\"content\":\"y\"}]}", false },
	{ CHAT, 5, "{\"messages\":[{\"content\":\"abcd\"},{\"content\":\"x\"}]}", "{\"messages\":[{\"content\":\"abcdx\"}]}", false },
	{ CHAT, 4, U("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"1\"}},{\"text\":\"abcd\"}]"),
	  U("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"2\"}},{\"text\":\"abcd\"}]"), true },
	{ PROMPT_FAMILY_COMPLETIONS, 3, "{\"prompt\":\"abcd\"}", "{\"prompt\":[\"abce\"],\"n\":1}", true },
	{ PROMPT_FAMILY_RESPONSES, 3, "{\"input\":\"abcd\"}", "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"abce\"}]}]}", true },
	{ PROMPT_FAMILY_MESSAGES, 3, "{\"system\":\"abcd\",\"messages\":[]}", "{\"system\":[{\"type\":\"text\",\"text\":\"abc\"}]}", true },
	/* a body without text, or that isn't JSON before there is enough: its bytes */
	{ CHAT, 6, "{\"prom\":1}", "{\"prompt\":1}", true },
	{ CHAT, 10, "{\"prom\":1}", "{\"prom\":2}", false },
	{ CHAT, 3, U("\"abc") "}oops", U("\"abc"), true },
	/* the Invoke path: raw bytes */
	{ PROMPT_FAMILY_INVOCATIONS, 10, "{\"inputs\":\"abc\"}", "{\"inputs\":\"xyz\"}", true },
	{ PROMPT_FAMILY_INVOCATIONS, 13, "{\"inputs\":\"abc\"}", "{\"inputs\":\"xyz\"}", false },
	{ PROMPT_FAMILY_INVOCATIONS, 14, "{\"inputs\":\"abc\"}", "{\"inputs\": \"abc\"}", false },
};

static void test_rows(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool same = hash(rows[i].family, rows[i].a, rows[i].len, NULL) == hash(rows[i].family, rows[i].b, rows[i].len, NULL);

		if (same != rows[i].same)
			fail_msg("row %zu: %s | %s", i, rows[i].a, rows[i].b);
	}
}

static void test_hint(void **state)
{
	uint64_t none = hash(CHAT, U("\"abc\""), 3, NULL), a = hash(CHAT, U("\"abc\""), 3, "a");

	assert_int_not_equal(none, a);
	assert_int_not_equal(a, hash(CHAT, U("\"abc\""), 3, "b"));
	assert_int_not_equal(a, hash(CHAT, U("\"abd\""), 3, "a"));
	assert_int_equal(a, hash(CHAT, U("\"abcd\""), 3, "a"));
}

/* It reads no further than it must: what follows may be anything. */
static void test_stops_early(void **state)
{
	char *text = letters(4096, 1), *body = malloc(8192);
	struct iovec iov[2];
	uint64_t h;

	assert_non_null(body);
	sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":\"%sX", text);
	iov[0] = (struct iovec){ body, strlen(body) };
	h = prompt_prefix_hash(iov, 1, CHAT, 4096, NULL, 0);
	iov[1] = (struct iovec){ (void *)(uintptr_t)8, 1 << 20 };       /* would fault if read */
	assert_int_equal(prompt_prefix_hash(iov, 2, CHAT, 4096, NULL, 0), h);
	free(body);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows), cmocka_unit_test(test_hint), cmocka_unit_test(test_stops_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
