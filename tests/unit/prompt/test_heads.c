/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Volatile heads.
 *
 * Story: a client put a nonce into its first system block; no two prompts of it had a common start any more,
 * each was placed as if it were new, and every request took a whole prefill. */
#include "help.h"
#include "prompt/heads.h"

static const char *const patterns[] = { "Current date: *", "[request *] ", "id=*;", "now*", "a*b*c" };

static const struct {
	const char *text, *want;
} removed[] = {
	{ "", "" },
	{ "You are helpful.", "You are helpful." },
	{ "Current date: 2026-12-05", "" },
	{ "Current date: 2026-12-05\nYou are helpful.", "\nYou are helpful." },
	{ "You are helpful.\nCurrent date: 1\n", "You are helpful.\n\n" },
	{ "You know the Current date: 1", "You know the Current date: 1" }, /* not at a line's beginning */
	{ "current date: 1", "current date: 1" },
	{ "[request 123] hello [request 5] x", "hello [request 5] x" },
	{ "[request 1] [request 2] id=3;id=4;x", "x" },
	{ "[request 123\n] hello", "[request 123\n] hello" }, /* a pattern ends with its line */
	{ "id=\nid=;", "id=\n" },
	{ "now", "" },
	{ "nowhere", "" },
	{ "a1b2c3", "3" },
	{ "abc", "" },
	{ "acb", "acb" },
	{ "\n\n", "\n\n" },
};

static void test_removed(void **state)
{
	for (size_t i = 0; i < sizeof(removed) / sizeof(*removed); i++) {
		size_t n = strlen(removed[i].text), len;
		uint8_t *text = malloc(n + 1), *out = malloc(n + 1); /* of exact size but for their own ends */

		memcpy(text, removed[i].text, n);
		text = realloc(text, n ? n : 1);
		len = heads_remove(patterns, 5, text, n, out);
		if (len != strlen(removed[i].want) || memcmp(out, removed[i].want, len))
			fail_msg("\"%s\": \"%.*s\"", removed[i].text, (int)len, out);
		free(text);
		free(out);
	}
}

/* At most eight pieces at one place: a client can't make the work quadratic. */
static void test_bounded(void **state)
{
	static const char *const one[] = { "x" };
	uint8_t text[HEADS_TEXT_MAX], out[HEADS_TEXT_MAX];

	memset(text, 'x', sizeof(text));
	assert_int_equal(heads_remove(one, 1, text, sizeof(text), out), sizeof(text) - 8);
}

static const struct prompt_limits with = { .volatile_heads = patterns, .n_volatile_heads = 5 };

static const struct {
	enum prompt_family family;
	const char *a, *b;
	bool same;
} pairs[] = {
#define CHAT PROMPT_FAMILY_CHAT
	{ CHAT, "{\"messages\":[{\"role\":\"system\",\"content\":\"Current date: 1\\nBe kind.\"},{\"role\":\"user\",\"content\":\"q\"}]}",
	  "{\"messages\":[{\"content\":\"Current date: 22222\\nBe kind.\",\"role\":\"system\"},{\"role\":\"user\",\"content\":\"q\"}]}", true },
	{ CHAT, "{\"messages\":[{\"role\":\"system\",\"content\":\"Current date: 1\\nBe kind.\"}]}",
	  "{\"messages\":[{\"role\":\"system\",\"content\":\"Current date: 1\\nBe rude.\"}]}", false },
	{ CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[request 1] q\"}]}]}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":\"[request 2] q\"}]}", true },
	/* escapes are text like any other */
	{ CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"\\u005brequest 1] q\"}]}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":\"[request \\\"2\\\"] q\"}]}", true },
	/* not in a later message, a role or a tool */
	{ CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"user\",\"content\":\"now 1\"}]}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"user\",\"content\":\"now 2\"}]}", false },
	{ CHAT, "{\"messages\":[{\"role\":\"now 1\",\"content\":\"q\"}]}", "{\"messages\":[{\"role\":\"now 2\",\"content\":\"q\"}]}", false },
	/* messages given twice: the first of the last */
	{ CHAT, "{\"messages\":[{\"content\":\"x\"}],\"messages\":[{\"content\":\"now 1\"}]}", "{\"messages\":[{\"content\":\"now 2\"}]}", true },
	{ PROMPT_FAMILY_MESSAGES, "{\"system\":\"id=1;Be kind.\",\"messages\":[]}", "{\"messages\":[],\"system\":[{\"text\":\"id=22;Be kind.\"}]}", true },
	{ PROMPT_FAMILY_MESSAGES, "{\"system\":[{\"text\":\"now 1\"},{\"text\":\"now 2\"}],\"messages\":[]}",
	  "{\"system\":[{\"text\":\"now 3\"},{\"text\":\"now 4\"}],\"messages\":[]}", true },
	{ PROMPT_FAMILY_RESPONSES, "{\"instructions\":\"now 1\",\"input\":\"now 2\"}", "{\"input\":\"now 3\",\"instructions\":\"now 4\"}", true },
	{ PROMPT_FAMILY_COMPLETIONS, "{\"prompt\":\"now 1\\nx\"}", "{\"prompt\":[\"now 2\\nx\"]}", true },
	{ PROMPT_FAMILY_COMPLETIONS, "{\"prompt\":\"now 1\\nx\"}", "{\"prompt\":\"now 1\\ny\"}", false },
};

/* With the patterns the pair is the same or not; without them it never is; and it does not matter how the
 * body was cut. */
static void test_keys(void **state)
{
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct made a = make_limited(pairs[i].family, pairs[i].a, strlen(pairs[i].a), 0, &with, false);
		struct made b = make_limited(pairs[i].family, pairs[i].b, strlen(pairs[i].b), 0, &with, false);
		struct made c = make_limited(pairs[i].family, pairs[i].b, strlen(pairs[i].b), 1, &with, false);
		struct made x = make(pairs[i].family, pairs[i].a), y = make(pairs[i].family, pairs[i].b);

		if (same_key(&a.key, &b.key) != pairs[i].same || !same_key(&b.key, &c.key) || same_key(&x.key, &y.key))
			fail_msg("pair %zu: %s", i, pairs[i].a);
		prompt_key_free(&a.key);
		prompt_key_free(&b.key);
		prompt_key_free(&c.key);
		prompt_key_free(&x.key);
		prompt_key_free(&y.key);
	}
}

/* Only the first HEADS_TEXT_MAX bytes are looked at, wherever the body is cut, and nothing else is lost. */
static void test_long(void **state)
{
	char *word = letters(3000, 7), body[2][4096];
	struct made whole, cut, plain;

	for (size_t at = HEADS_TEXT_MAX - 40; at < HEADS_TEXT_MAX + 40; at++) {
		for (int k = 0; k < 2; k++)
			snprintf(body[k], sizeof(body[k]), "{\"messages\":[{\"content\":\"%.*s\\nid=%d;%s\"}]}", (int)at, word, k, word);
		whole = make_limited(CHAT, body[0], strlen(body[0]), 0, &with, false);
		cut = make_limited(CHAT, body[1], strlen(body[1]), 1 + at % 7, &with, false);
		plain = make(CHAT, body[0]);
		/* behind the line break, all five bytes of the head must be within the start */
		assert_int_equal(same_key(&whole.key, &cut.key), at + 6 <= HEADS_TEXT_MAX);
		assert_int_equal(same_key(&whole.key, &plain.key), at + 6 > HEADS_TEXT_MAX);
		assert_int_equal(whole.key.total_bytes, plain.key.total_bytes - (at + 6 <= HEADS_TEXT_MAX ? 5 : 0));
		prompt_key_free(&whole.key);
		prompt_key_free(&cut.key);
		prompt_key_free(&plain.key);
	}
	free(word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_removed), cmocka_unit_test(test_bounded), cmocka_unit_test(test_keys), cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
