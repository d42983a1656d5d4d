/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Usage objects of the engines' answers, whole and cut anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/usage.h"

struct row {
	const char *name, *in;
	long prompt, completion, cached; /* -1: not told */
};

static const struct row rows[] = {
	{ "vllm json", "{\"id\":\"x\",\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":1153,\"total_tokens\":1161,"
	  "\"completion_tokens\":8,\"prompt_tokens_details\":{\"cached_tokens\":1152,\"created_cache_tokens\":0,"
	  "\"multimodal_tokens\":null},\"completion_tokens_details\":null},\"prompt_logprobs\":null}", 1153, 8, 1152 },
	{ "vllm without details", "{\"usage\":{\"prompt_tokens\":17,\"total_tokens\":25,\"completion_tokens\":8,"
	  "\"prompt_tokens_details\":null}}", 17, 8, -1 },
	{ "vllm stream", "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":17,\"total_tokens\":18,\"completion_tokens\":1}}\n\n"
	  "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":17,\"total_tokens\":20,\"completion_tokens\":3,"
	  "\"prompt_tokens_details\":{\"cached_tokens\":16}},\"system_fingerprint\":\"f\"}\n\ndata: [DONE]\n\n", 17, 3, 16 },
	{ "llama.cpp", "data: {\"choices\":[{\"text\":\"\"}],\"usage\":{\"completion_tokens\":2,\"prompt_tokens\":1077,"
	  "\"total_tokens\":1079,\"prompt_tokens_details\":{\"cached_tokens\":7}},\"id\":\"c\",\"timings\":{\"cache_n\":7,"
	  "\"prompt_n\":1070,\"prompt_ms\":4655.729,\"predicted_n\":2}}\n\n", 1077, 2, 7 },
	{ "llama.cpp timings alone", "data: {\"choices\":[],\"timings\":{\"cache_n\":25,\"prompt_n\":1,\"prompt_ms\":56.077,"
	  "\"predicted_n\":2,\"predicted_ms\":46.3}}\n\n", 26, 2, 25 },
	{ "llama.cpp messages", "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
	  "{\"cache_read_input_tokens\":25,\"input_tokens\":1,\"output_tokens\":0}}}\n\n"
	  "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":2}}\n\n", 26, 2, 25 },
	{ "anthropic", "{\"usage\":{\"input_tokens\":17,\"output_tokens\":4,\"cache_creation_input_tokens\":3,"
	  "\"cache_read_input_tokens\":100}}", 120, 4, 100 },
	{ "responses", "event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":26,\"input_tokens_details\":"
	  "{\"cached_tokens\":25,\"cache_write_tokens\":0,\"per_turn\":[]},\"output_tokens\":2,\"output_tokens_details\":"
	  "{\"reasoning_tokens\":0},\"total_tokens\":28},\"user\":null}}\n\n", 26, 2, 25 },
	{ "sglang", "{\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":5,\"cached_tokens\":32}}", 40, 5, 32 },
	{ "sglang native", "{\"text\":\"a\",\"meta_info\":{\"id\":\"x\",\"prompt_tokens\":40,\"cached_tokens\":32,"
	  "\"completion_tokens\":5,\"e2e_latency\":0.1}}", 40, 5, 32 },
	{ "spaces", "{\"usage\": { \"prompt_tokens\" : 5 , \"completion_tokens\" : 6 }}", 5, 6, -1 },
	{ "usage null", "data: {\"usage\":null}\n\n", -1, -1, -1 },
	{ "text, escaped", "{\"text\":\"{\\\"usage\\\":{\\\"prompt_tokens\\\":9}}\"}", -1, -1, -1 },
	{ "text, then real", "{\"text\":\"\\\"usage\\\":{\\\"prompt_tokens\\\":9}\",\"usage\":{\"prompt_tokens\":3}}", 3, -1, -1 },
	{ "key that ends in it", "{\"x\\\"usage\":{\"prompt_tokens\":9}}", -1, -1, -1 },
	{ "number cut", "{\"usage\":{\"completion_tokens\":4,\"prompt_tokens\":12", -1, 4, -1 },
	{ "negative, float, text", "{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1.5,\"cached_tokens\":\"x\"}}", -1, -1, -1 },
	{ "huge", "{\"usage\":{\"prompt_tokens\":99999999999999999999}}", -1, -1, -1 },
	{ "elsewhere", "{\"prompt_tokens\":7,\"choices\":[{\"prompt_tokens\":8}]}", -1, -1, -1 },
	{ "deeper", "{\"usage\":{\"x\":{\"prompt_tokens\":8},\"completion_tokens\":1}}", -1, 1, -1 },
	{ "empty", "", -1, -1, -1 },
};

static void check(const char *name, bool found, const struct http_usage *u, const struct row *r)
{
	long prompt = u->has_prompt ? (long)u->prompt_tokens : -1;
	long completion = u->has_completion ? (long)u->completion_tokens : -1;
	long cached = u->has_cached ? (long)u->cached_tokens : -1;

	if (prompt != r->prompt || completion != r->completion || cached != r->cached ||
	    found != (prompt >= 0 || completion >= 0 || cached >= 0))
		fail_msg("%s (%s): %ld %ld %ld", r->name, name, prompt, completion, cached);
}

static void test_rows(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].in);
		char *p = malloc(n ? n : 1);
		struct http_usage u;

		memcpy(p, rows[i].in, n);
		check("scan", http_usage_scan(p, n, &u), &u, &rows[i]);
		free(p);
	}
}

/* A piece cut anywhere tells the truth or nothing: never a cut number. */
static void test_cut(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t from = 0, n = strlen(rows[i].in); from <= n; from++)
			for (size_t len = 0; from + len <= n; len += 3) {
				char *p = malloc(len ? len : 1);
				struct http_usage u;

				memcpy(p, rows[i].in + from, len);
				http_usage_scan(p, len, &u);
				/* a stream's earlier figure is true too: completion only grows */
				if (u.has_completion)
					assert_true((long)u.completion_tokens <= rows[i].completion);
				if (u.has_cached)
					assert_int_equal(u.cached_tokens, rows[i].cached);
				if (u.has_prompt)
					assert_true((long)u.prompt_tokens <= rows[i].prompt);
				free(p);
			}
}

/* The same through the tail, behind and before a long text, in odd pieces. */
static void test_tail(void **state)
{
	static struct usage_tail t;
	unsigned int seed = 9;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int before = 0; before < 3; before++) {
			static const size_t text[] = { 0, 3000, 100000 };
			size_t n = strlen(rows[i].in), total = text[before] + n;
			char *all = malloc(total ? total : 1);
			struct http_usage u;

			memset(all, 'x', text[before]);
			memcpy(all + text[before], rows[i].in, n);
			usage_tail_init(&t);
			for (size_t pos = 0; pos < total;) {
				size_t k = 1 + (size_t)rand_r(&seed) % (before == 2 ? 9000 : 300);

				k = k < total - pos ? k : total - pos;
				usage_tail_feed(&t, all + pos, k);
				pos += k;
			}
			check("tail", usage_tail_read(&t, &u), &u, &rows[i]);
			free(all);
		}
}

/* The Anthropic API tells the prompt first and the output last. */
static void test_head_and_tail(void **state)
{
	static const char start[] = "data: {\"message\":{\"usage\":{\"cache_read_input_tokens\":25,\"input_tokens\":1,\"output_tokens\":0}}}\n\n";
	static const char end[] = "data: {\"usage\":{\"output_tokens\":900}}\n\n";
	static const char token[] = "data: {\"delta\":{\"text\":\"a\"}}\n\n";
	static struct usage_tail t;
	struct http_usage u;

	usage_tail_init(&t);
	usage_tail_feed(&t, start, sizeof(start) - 1);
	for (int i = 0; i < 10000; i++)
		usage_tail_feed(&t, token, sizeof(token) - 1);
	usage_tail_feed(&t, end, sizeof(end) - 1);
	assert_true(usage_tail_read(&t, &u));
	assert_int_equal(u.prompt_tokens, 26);
	assert_int_equal(u.cached_tokens, 25);
	assert_int_equal(u.completion_tokens, 900);
}

/* Nested or endless openings are read once: 4 KiB of them cost what 4 KiB cost. */
static void test_hostile(void **state)
{
	static const char *const pieces[] = { "\"usage\":{", "{\"usage\":{\"prompt_tokens_details\":{", "\\\"", "\"\\", "[{\"a\":" };
	struct http_usage u;

	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		size_t k = strlen(pieces[i]), n = 0;
		char *p = malloc(1 << 20);

		while (n + k <= 1 << 20) {
			memcpy(p + n, pieces[i], k);
			n += k;
		}
		/* quadratic work on 1 MiB would run for minutes */
		assert_false(http_usage_scan(p, n, &u));
		free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_head_and_tail),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
