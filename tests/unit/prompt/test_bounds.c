/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Bodies with no prompt to be found, cut, nested, huge: keyed by their bytes or by what there is,
 * at a bounded cost. */

#include "shorthand.h"

static const struct {
	enum prompt_family family;
	const char *body;
} raw[] = {
	{ CHAT, "" }, { CHAT, "x" }, { CHAT, "[]" }, { CHAT, "[{\"messages\":[]}]" }, { CHAT, "\"s\"" }, { CHAT, "12" }, { CHAT, "{}" },
	{ CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" }, { CHAT, "{\"messages\":\"x\"}" },
	{ CHAT, "{\"messages\":null}" }, { CHAT, "{\"prompt\":\"x\"}" },
	{ CHAT, M("\"a\nb\"") }, { CHAT, M("\"\xff\"") }, { CHAT, ONE "x" }, { CHAT, "{\"messages\":[1,}" },
	{ COMP, "{\"prompt\":null}" }, { COMP, "{\"prompt\":[]}" }, { COMP, "{\"prompt\":[[]]}" }, { COMP, "{\"messages\":[1]}" },
	{ COMP, "{\"prompt\":7}" }, { PROMPT_FAMILY_EMBED, "{\"input\":\"x\"}" },
};

static void test_raw(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(raw) / sizeof(raw[0]); i++) {
		struct made m = make(raw[i].family, raw[i].body), again;
		char other[256];

		if (!m.key.raw || m.info.shape != PROMPT_SHAPE_NONE)
			fail_msg("row %zu isn't raw: %s", i, raw[i].body);
		/* The bytes count, all of them. */
		snprintf(other, sizeof(other), "%s ", raw[i].body);
		again = make(raw[i].family, other);
		assert_true(again.key.raw);
		assert_int_equal(shared_blocks(&m.key, &again.key), 0);
		prompt_key_free(&m.key);
		prompt_key_free(&again.key);
	}
}

/* No message at all: known shape, nothing to hash but the bytes. */
static void test_no_messages(void **state)
{
	struct made m = make(CHAT, "{\"messages\":[]}");

	assert_true(m.key.raw);
	assert_int_equal(m.info.shape, PROMPT_SHAPE_CHAT);
	prompt_key_free(&m.key);
}

/* The raw key of a body in one piece is that of the body in many. */
static void test_raw_iov(void **state)
{
	char *text = letters(3000, 2);
	struct prompt_key_params params = { .model = "m" };
	struct iovec one = { text, 3000 }, many[60];
	struct prompt_key a, b;
	int i;

	for (i = 0; i < 60; i++)
		many[i] = (struct iovec){ text + i * 50, 50 };
	assert_int_equal(prompt_key_build_raw(&one, 1, &params, 0, &a), 0);
	assert_int_equal(prompt_key_build_raw(many, 60, &params, 0, &b), 0);
	assert_true(same_key(&a, &b));
	assert_int_equal(a.nblocks, 12);
	assert_int_equal(a.total_bytes, 3000);
	prompt_key_free(&a);
	prompt_key_free(&b);
	assert_int_equal(prompt_key_build_raw(NULL, 0, &params, 0, &a), 0);
	assert_int_equal(a.nblocks, 1);
	prompt_key_free(&a);
	free(text);
}

/* Nested deeper than the limit: by its bytes, not refused. At the limit: canonical. */
static void test_nesting(void **state)
{
	static const int levels[] = { 100, PROMPT_MAX_DEPTH - 2, PROMPT_MAX_DEPTH - 1, 1000 };
	char body[4096];
	size_t i, n;

	for (i = 0; i < 4; i++) {
		struct made m;
		int k = levels[i];

		n = (size_t)snprintf(body, sizeof(body), "{\"tools\":[");
		memset(body + n, '[', (size_t)k);
		n += (size_t)k;
		memset(body + n, ']', (size_t)k);
		n += (size_t)k;
		n += (size_t)snprintf(body + n, sizeof(body) - n, "],\"messages\":[]}");
		m = make_limited(CHAT, body, n, 0, NULL, false);
		assert_int_equal(m.key.raw, k + 2 > PROMPT_MAX_DEPTH);
		prompt_key_free(&m.key);
	}
}

/* Numbers of any size are kept as they are written. */
static void test_huge_numbers(void **state)
{
	char *a = malloc(40000), *b = malloc(40000);
	struct made x, y;
	size_t n;

	assert_non_null(a);
	assert_non_null(b);
	n = (size_t)sprintf(a, "{\"max_tokens\":");
	memset(a + n, '9', 10000);
	n += 10000;
	n += (size_t)sprintf(a + n, ",\"tools\":[");
	memset(a + n, '9', 10000);
	n += 10000;
	n += (size_t)sprintf(a + n, "],\"messages\":[]}");
	memcpy(b, a, n + 1);
	x = make_limited(CHAT, a, n, 777, NULL, false);
	y = make_limited(CHAT, b, n, 64, NULL, false);
	assert_true(same_key(&x.key, &y.key));
	assert_false(x.key.raw);
	assert_int_equal(x.info.max_tokens, INT64_MAX);
	prompt_key_free(&y.key);
	b[15000] = '8';
	y = make_limited(CHAT, b, n, 64, NULL, false);
	assert_int_equal(shared_blocks(&x.key, &y.key), 0);
	prompt_key_free(&x.key);
	prompt_key_free(&y.key);
	free(a);
	free(b);
}

/* A body cut at the scan limit: its start is keyed canonically, and equals the start of the whole. */
static void test_truncated(void **state)
{
	char *text = letters(6000, 3), *body = malloc(16384);
	struct made whole, cut;
	size_t n, at;

	assert_non_null(body);
	n = (size_t)snprintf(body, 16384, "{\"model\":\"x\",\"messages\":[{\"role\":\"system\",\"content\":\"%.2000s\"},{\"role\":\"user\",\"content\":[{\"type\":"
			     "\"text\",\"text\":\"%s\"}]}],\"tool_choice\":{\"a\":[1]}}", text, text);
	whole = make_limited(CHAT, body, n, 0, NULL, false);
	for (at = 1; at < n; at += 7) {
		struct made again;

		cut = make_limited(CHAT, body, at, 0, NULL, true);
		again = make_limited(CHAT, body, at, 5, NULL, true);
		assert_true(cut.info.truncated);
		assert_true(same_key(&cut.key, &again.key));
		if (at > 3000) {
			assert_int_equal(cut.info.shape, PROMPT_SHAPE_CHAT);
			assert_true(cut.info.has_model);
			/* all but the block that was cut, and the header that it may miss */
			assert_true(shared_blocks(&cut.key, &whole.key) + 1 >= cut.key.nblocks);
		}
		prompt_key_free(&cut.key);
		prompt_key_free(&again.key);
	}
	prompt_key_free(&whole.key);
	/* A model cut in the middle is no model. */
	cut = make_limited(CHAT, "{\"prompt_cache_key\":\"k\",\"model\":\"llam", 37, 0, NULL, true);
	assert_false(cut.info.has_model);
	assert_true(cut.info.cache_key_hash);
	prompt_key_free(&cut.key);
	free(text);
	free(body);
}

/* The number of blocks is bounded whatever the body; the cost stays linear (the run would take hours else). */
static void test_many(void **state)
{
	const size_t count = 1000000;
	char *body = malloc(count * 24 + 100);
	struct prompt_limits lim = { .max_blocks = 20000, .max_cuts = 1000 };
	struct made a, b;
	size_t n, i;

	assert_non_null(body);
	n = (size_t)sprintf(body, "{\"messages\":[{\"content\":\"s\"}");
	for (i = 0; i < count; i++)
		n += (size_t)sprintf(body + n, ",{\"content\":\"%zu\"}", i % 10);
	n += (size_t)sprintf(body + n, "]}");
	a = make_limited(CHAT, body, n, 100000, NULL, false);
	assert_in_range(a.key.nblocks, 8193, 49152);
	assert_int_equal(a.key.bytes[100], 5);
	prompt_key_free(&a.key);
	a = make_limited(CHAT, body, n, 0, &lim, false);
	assert_in_range(a.key.nblocks, 1001, 20000);
	/* One more message: all but the last block stay. */
	n -= 2;
	n += (size_t)sprintf(body + n, ",{\"content\":\"x\"}]}");
	b = make_limited(CHAT, body, n, 0, &lim, false);
	assert_true(shared_blocks(&a.key, &b.key) + 1 >= a.key.nblocks);
	assert_int_not_equal(a.key.hash[a.key.nblocks - 1], b.key.hash[b.key.nblocks - 1]);
	prompt_key_free(&b.key);
	prompt_key_free(&a.key);
	/* A lower bound still tells a difference at the very end. */
	lim.max_blocks = 50;
	a = make_limited(CHAT, body, n, 0, &lim, false);
	body[n - 5] = 'y';
	b = make_limited(CHAT, body, n, 0, &lim, false);
	assert_int_equal(a.key.nblocks, 50);
	assert_int_equal(shared_blocks(&a.key, &b.key), 49);
	prompt_key_free(&b.key);
	prompt_key_free(&a.key);

	/* A million keys: at the top level, in a message, in the template's arguments, in a tool. */
	for (i = 0; i < 4; i++) {
		static const char *const open[] = { "{", "{\"messages\":[{", "{\"chat_template_kwargs\":{", "{\"tools\":[{" };
		static const char *const close[] = { "\"messages\":[{\"content\":\"x\"}]}", "\"content\":\"x\"}]}",
						     "\"z\":1},\"messages\":[{\"content\":\"x\"}]}",
						     "\"z\":1}],\"messages\":[{\"content\":\"x\"}]}" };
		size_t k;

		n = (size_t)sprintf(body, "%s", open[i]);
		for (k = 0; k < count; k++)
			n += (size_t)sprintf(body + n, "\"k%zu\":%zu,", k, k % 7);
		n += (size_t)sprintf(body + n, "%s", close[i]);
		a = make_limited(CHAT, body, n, 0, NULL, false);
		assert_false(a.key.raw);
		assert_true(a.key.nblocks <= 49152);
		prompt_key_free(&a.key);
	}
	/* The same key a million times, with text. */
	n = (size_t)sprintf(body, "{\"messages\":[{");
	for (i = 0; i < count; i++)
		n += (size_t)sprintf(body + n, "\"content\":\"a%zu\",", i % 10);
	n += (size_t)sprintf(body + n, "\"content\":\"x\"}]}");
	a = make_limited(CHAT, body, n, 0, NULL, false);
	b = make(CHAT, "{\"messages\":[{\"content\":\"x\"}]}");
	assert_true(same_key(&a.key, &b.key));
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raw),
		cmocka_unit_test(test_no_messages),
		cmocka_unit_test(test_raw_iov),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_huge_numbers),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests_name("prompt/bounds", tests, NULL, NULL);
}
