/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The chain of blocks: turns of a conversation, common starts, what a block weighs, what seeds it. */

#include "shorthand.h"

/* A long body, split in two at every offset. */
static void test_split_anywhere(void **state)
{
	char *text = letters(1500, 5), *body = malloc(8192);
	struct made whole;
	size_t n, at;

	assert_non_null(body);
	n = (size_t)snprintf(body, 8192,
			     "{\"tools\":[{\"name\":\"%.300s\"}],\"messages\":[{\"content\":\"%.700s\\n\\u00e9\\ud83d\\ude00%s\",\"role\":"
			     "\"user\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"%.256s\"},{\"type\":\"image_url\","
			     "\"image_url\":{\"url\":\"data:image/png;base64,%s\"}}]}],\"model\":\"x\"}", text, text, text, text, text);
	whole = make_limited(CHAT, body, n, 0, NULL, false);
	assert_true(whole.key.nblocks > 10);
	for (at = 1; at < n; at++) {
		struct prompt_key_params params = { .model = "m" };
		struct prompt_scan *s = prompt_scan_new();
		struct prompt_key key;

		prompt_scan_begin(s, CHAT, NULL);
		prompt_scan_feed(s, body, at);
		prompt_scan_feed(s, body + at, 0);
		prompt_scan_feed(s, body + at, n - at);
		prompt_scan_end(s, false);
		assert_int_equal(prompt_key_build(s, &params, NULL, 0, &key), 0);
		if (!same_key(&whole.key, &key))
			fail_msg("split at %zu", at);
		prompt_key_free(&key);
		prompt_scan_free(s);
	}
	prompt_key_free(&whole.key);
	free(text);
	free(body);
}

/* The chain of a conversation's turn is the exact start of the next turn's. */
static void test_turns(void **state)
{
	static const size_t lengths[] = { 0, 1, 100, 231, 232, 233, 256, 487, 488, 489, 512, 744, 5000, 3 };
	static const char *const roles[] = { "system", "user", "assistant", "user", "assistant", "user", "assistant" };
	struct made prev = { .key = { .nblocks = 0 } };
	size_t cap = 1 << 20, turn;
	char *body = malloc(cap);

	assert_non_null(body);
	for (turn = 1; turn <= 14; turn++) {
		struct made m;
		uint64_t sum = 0;
		uint32_t i, starts = 0;
		size_t n, k;

		n = (size_t)snprintf(body, cap, "{\"tools\":[{\"n\":1}],\"messages\":[");
		for (k = 0; k < turn; k++) {
			char *text = letters(lengths[k], (unsigned int)k);

			n += (size_t)snprintf(body + n, cap - n, "%s{\"role\":\"%s\",\"content\":\"%s\"}", k ? "," : "",
					      roles[k % 7], text);
			free(text);
		}
		n += (size_t)snprintf(body + n, cap - n, "],\"stream\":%s}", turn % 2 ? "true" : "false");
		m = make_limited(CHAT, body, n, 0, NULL, false);
		assert_false(m.key.raw);
		assert_true(m.key.nblocks > prev.key.nblocks);
		if (turn > 1) {
			assert_int_equal(shared_blocks(&prev.key, &m.key), prev.key.nblocks);
			assert_memory_equal(prev.key.bytes, m.key.bytes, prev.key.nblocks * sizeof(*m.key.bytes));
			assert_memory_equal(prev.key.flags, m.key.flags, prev.key.nblocks);
			assert_true(m.key.flags[prev.key.nblocks] & PROMPT_BLOCK_MESSAGE_START);
			/* the blocks that are new belong to the message that is new */
			for (i = prev.key.nblocks; i < m.key.nblocks; i++)
				assert_int_equal(!!(m.key.flags[i] & PROMPT_BLOCK_ASSISTANT),
						 !strcmp(roles[(turn - 1) % 7], "assistant"));
		}
		for (i = 0; i < m.key.nblocks; i++) {
			assert_in_range(m.key.bytes[i], 1, PROMPT_BLOCK_BYTES);
			sum += m.key.bytes[i];
			starts += m.key.flags[i] & PROMPT_BLOCK_MESSAGE_START;
		}
		assert_int_equal(sum, m.key.total_bytes);
		assert_int_equal(starts, turn);         /* one per message; tools have none */
		assert_int_equal(m.key.class_id, turn >= 3);
		prompt_key_free(&prev.key);
		prev = m;
	}
	prompt_key_free(&prev.key);
	free(body);
}

/* What follows the prompt is one last block, and leaves the chain before it alone. */
static void test_trailer(void **state)
{
	struct made a = make(CHAT, ONE);
	struct made b = make(CHAT, "{\"response_format\":{\"type\":\"json_object\"},\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
	struct made t1 = make(CHAT, "{\"tools\":[1],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");

	assert_int_equal(b.key.nblocks, a.key.nblocks + 1);
	assert_int_equal(shared_blocks(&a.key, &b.key), a.key.nblocks);
	assert_true(b.key.flags[b.key.nblocks - 1] & PROMPT_BLOCK_TRAILER);
	/* Tools come first: nothing is shared behind different ones. */
	assert_int_equal(shared_blocks(&a.key, &t1.key), 0);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	prompt_key_free(&t1.key);
}

/* A text and a longer one that starts with it share all full blocks. */
static void test_common_start(void **state)
{
	char *text = letters(4000, 9), body[8192];
	struct made a, b;

	snprintf(body, sizeof(body), "{\"prompt\":\"%.3000s\"}", text);
	a = make(COMP, body);
	snprintf(body, sizeof(body), "{\"prompt\":\"%.4000s\"}", text);
	b = make(COMP, body);
	assert_int_equal(a.key.nblocks, 12);            /* 3000 = 11 * 256 + 184 */
	assert_int_equal(b.key.nblocks, 16);
	assert_int_equal(shared_blocks(&a.key, &b.key), 11);
	assert_int_equal(a.key.total_bytes, 3000);
	assert_int_equal(a.key.bytes[11], 184);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	/* The middle of a prompt never matches another's start: blocks are chained. */
	snprintf(body, sizeof(body), "{\"prompt\":\"%s\"}", text + 256);
	a = make(COMP, body);
	snprintf(body, sizeof(body), "{\"prompt\":\"%s\"}", text);
	b = make(COMP, body);
	assert_int_equal(shared_blocks(&a.key, &b.key), 0);
	assert_int_not_equal(a.key.hash[0], b.key.hash[1]);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(text);
}

/* Model, hint, tenant and salt change every hash of the chain. */
static void test_seed(void **state)
{
	static const struct prompt_key_params params[] = {
		{ .model = "a" }, { .model = "b" }, { .model = "" }, { .model = NULL },
		{ .model = "a", .hint = "h", .hint_len = 1 }, { .model = "a", .hint = "", .hint_len = 0 },
		{ .model = "a", .tenant = "h", .tenant_len = 1 },
		{ .model = "a", .hint = "h", .hint_len = 1, .tenant = "h", .tenant_len = 1 },
	};
	enum { N = sizeof(params) / sizeof(params[0]) };
	static const char body[] = "{\"prompt\":\"some text\"}", bad[] = "some text";
	struct iovec iov = { (void *)(uintptr_t)bad, sizeof(bad) - 1 };
	struct prompt_scan *s = prompt_scan_new();
	struct prompt_key key[2 * N];
	size_t i, j;

	prompt_scan_begin(s, COMP, NULL);
	prompt_scan_feed(s, body, sizeof(body) - 1);
	prompt_scan_end(s, false);
	for (i = 0; i < N; i++) {
		assert_int_equal(prompt_key_build(s, &params[i], NULL, 0, &key[i]), 0);
		assert_int_equal(prompt_key_build_raw(&iov, 1, &params[i], 0, &key[N + i]), 0);
	}
	for (i = 0; i < 2 * N; i++) {
		for (j = 0; j < i; j++)
			assert_int_equal(shared_blocks(&key[i], &key[j]), 0);
	}
	for (i = 0; i < 2 * N; i++)
		prompt_key_free(&key[i]);
	prompt_scan_free(s);
}

/* Large things that are digested weigh what they are, in blocks of the usual size. */
static void test_weight(void **state)
{
	char *text = letters(40000, 4), *body = malloc(50000);
	struct made m;
	uint32_t i;

	assert_non_null(body);
	sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"%s\"}]}]}", text);
	m = make(MSGS, body);
	assert_in_range(m.key.total_bytes, 40000, 40200);
	for (i = 0; i < m.key.nblocks; i++)
		assert_in_range(m.key.bytes[i], 1, PROMPT_BLOCK_BYTES);
	prompt_key_free(&m.key);
	sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}}]}]}", text);
	m = make(CHAT, body);
	assert_in_range(m.key.total_bytes, 1000, 3000);         /* not the size of its base64 */
	assert_true(m.info.has_media);
	prompt_key_free(&m.key);
	/* Token ids weigh 4 bytes each. */
	m = make(COMP, "{\"prompt\":[1,128000,3,4,5,6,7]}");
	assert_int_equal(m.key.total_bytes, 28);
	prompt_key_free(&m.key);
	free(text);
	free(body);
}

/* Runs of a prompt: ids fill blocks, a new run starts one, and its start is part of the chain. */
static void test_runs(void **state)
{
	char *text = letters(256, 6), body[2048];
	struct made a, b;
	size_t n, i;

	n = (size_t)sprintf(body, "{\"prompt\":[0");
	for (i = 1; i < 100; i++)
		n += (size_t)sprintf(body + n, ",%zu", i);
	sprintf(body + n, "]}");
	a = make(COMP, body);
	assert_int_equal(a.key.nblocks, 2);             /* 64 ids a block */
	assert_int_equal(a.key.total_bytes, 400);
	prompt_key_free(&a.key);
	sprintf(body, "{\"prompt\":[\"%s\",\"b\",7]}", text);
	a = make(LLAM, body);
	sprintf(body, "{\"prompt\":[\"%sb\",7]}", text);
	b = make(LLAM, body);
	assert_int_equal(a.key.nblocks, b.key.nblocks);
	assert_int_equal(shared_blocks(&a.key, &b.key), 1);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(text);
}

/* A text given twice leaves no trace, also where its blocks were folded for want of room. */
static void test_rewind_folded(void **state)
{
	struct prompt_limits lim = { .max_blocks = 1 };
	char *text = letters(900, 8), body[4096];
	struct made a, b;

	sprintf(body, M("[\"%.300s\",{\"text\":\"%s\",\"text\":\"hi\"}]"), text, text);
	a = make_limited(CHAT, body, strlen(body), 0, &lim, false);
	sprintf(body, M("[\"%.300s\",{\"text\":\"hi\"}]"), text);
	b = make_limited(CHAT, body, strlen(body), 0, &lim, false);
	assert_true(same_key(&a.key, &b.key));
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_anywhere),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_trailer),
		cmocka_unit_test(test_common_start),
		cmocka_unit_test(test_seed),
		cmocka_unit_test(test_weight),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_rewind_folded),
	};

	return cmocka_run_group_tests_name("prompt/chain", tests, NULL, NULL);
}
