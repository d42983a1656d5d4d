/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From request bodies to tokens and block hashes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpusim/prompt.h"

static const struct sim_limits limits = { .max_model_tokens = 4096, .seed = 1 };

static struct sim_prompt parse_for(enum sim_api api, const char *body, const char *served)
{
	struct sim_refusal why;
	struct sim_prompt p;

	if (sim_prompt_parse(&p, api, body, strlen(body), &limits, &why)) {
		print_error("refused: %s\n", why.message);
		fail();
	}
	assert_int_equal(sim_prompt_complete(&p, served, &limits), 0);
	assert_int_equal(p.hashes, (p.prompt_tokens + p.output_tokens) / 16);
	return p;
}

static struct sim_prompt parse(enum sim_api api, const char *body)
{
	return parse_for(api, body, "m");
}

static struct sim_refusal refused(enum sim_api api, const char *body)
{
	struct sim_refusal why;
	struct sim_prompt p;

	assert_int_equal(sim_prompt_parse(&p, api, body, strlen(body), &limits, &why), -EINVAL);
	sim_prompt_free(&p);
	return why;
}

/* Leading blocks that two prompts share. */
static uint32_t shared(const struct sim_prompt *a, const struct sim_prompt *b)
{
	uint32_t i = 0;

	while (i < a->hashes && i < b->hashes && a->hash[i] == b->hash[i])
		i++;
	return i;
}

static uint32_t shared_bodies(const char *one, const char *served_one, const char *two, const char *served_two)
{
	struct sim_prompt a = parse_for(SIM_API_CHAT, one, served_one), b = parse_for(SIM_API_CHAT, two, served_two);
	uint32_t n = shared(&a, &b);

	sim_prompt_free(&a);
	sim_prompt_free(&b);
	return n;
}

#define LONG "0123456789abcdef0123456789ABCDEFfedcba9876543210FEDCBA9876543210" /* 64 bytes: a block */
#define USER(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}],\"max_tokens\":8}"

static void tokens_are_marks_and_4_bytes(void **state)
{
	/* 3 + 2 (hello) + 2 + 3 */
	struct sim_prompt p = parse(SIM_API_CHAT, USER("hello"));

	assert_int_equal(p.prompt_tokens, 10);
	assert_int_equal(p.output_tokens, 8);
	assert_memory_equal(&p.token[3], "hell", 4);
	sim_prompt_free(&p);
	p = parse(SIM_API_COMPLETIONS, "{\"prompt\":\"hello wo\"}");
	assert_int_equal(p.prompt_tokens, 2);
	sim_prompt_free(&p);
	p = parse(SIM_API_COMPLETIONS, "{\"prompt\":[1,2,3,4]}");
	assert_int_equal(p.prompt_tokens, 4);
	sim_prompt_free(&p);
	p = parse(SIM_API_COMPLETIONS, "{\"prompt\":[\"hello wo\"]}");
	assert_int_equal(p.prompt_tokens, 2);
	sim_prompt_free(&p);
}

static void fields_are_read(void **state)
{
	struct sim_prompt p = parse(SIM_API_CHAT, "{\"model\":\"x\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
				    "\"max_tokens\":5,\"max_completion_tokens\":7,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}");

	assert_string_equal(p.model, "x");
	assert_true(p.stream && p.include_usage && !p.continuous_usage);
	assert_int_equal(p.output_tokens, 7);	/* the newer name wins */
	sim_prompt_free(&p);
}

static void a_string_and_text_parts_are_the_same(void **state)
{
	struct sim_prompt a = parse(SIM_API_CHAT, USER(LONG "tail"));
	struct sim_prompt b = parse(SIM_API_CHAT, "{\"max_tokens\":8,\"messages\":[{\"content\":[{\"type\":\"text\",\"text\":\"" LONG "ta\"},"
				    "{\"type\":\"text\",\"text\":\"il\"}],\"role\":\"user\"}]}");

	assert_int_equal(a.prompt_tokens, b.prompt_tokens);
	assert_int_equal(shared(&a, &b), a.hashes);
	sim_prompt_free(&a);
	sim_prompt_free(&b);
}

static void a_later_turn_hits_prompt_and_answer(void **state)
{
	struct sim_prompt a = parse(SIM_API_CHAT, "{\"messages\":[{\"role\":\"system\",\"content\":\"" LONG LONG "\"},"
				    "{\"role\":\"user\",\"content\":\"odd question\"}],\"max_tokens\":101}"), b;
	char body[2048], answer[405] = { 0 };

	for (uint32_t i = 0; i < a.output_tokens; i++)
		sim_answer_text(a.text_seed, i, &answer[4 * i]);
	snprintf(body, sizeof(body), "{\"messages\":[{\"role\":\"system\",\"content\":\"" LONG LONG "\"},{\"role\":\"user\",\"content\":"
		 "\"odd question\"},{\"role\":\"assistant\",\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"next\"}]}", answer);
	b = parse(SIM_API_CHAT, body);
	/* Every full block of prompt and answer: marks, 128 + 12 bytes of text, 101 tokens. */
	assert_int_equal(a.prompt_tokens, 5 + 32 + 5 + 3 + 3);
	assert_int_equal(shared(&a, &b), (48 + 101) / 16);
	sim_prompt_free(&a);
	sim_prompt_free(&b);
}

static void answers_are_deterministic_letters(void **state)
{
	struct sim_prompt a = parse(SIM_API_CHAT, USER("q")), b = parse(SIM_API_CHAT, USER("q")), c = parse(SIM_API_CHAT, USER("r"));

	assert_int_equal(a.text_seed, b.text_seed);
	assert_int_not_equal(a.text_seed, c.text_seed);
	for (uint32_t i = 0; i < 1000; i++) {
		char t[4];

		sim_answer_text(a.text_seed, i, t);
		assert_true(i ? t[0] == ' ' : t[0] >= 'A' && t[0] <= 'Z');
		for (int k = 1; k < 4; k++)
			assert_in_range(t[k], 'a', 'z');
	}
	sim_prompt_free(&a);
	sim_prompt_free(&b);
	sim_prompt_free(&c);
}

static void model_and_salt_isolate(void **state)
{
	const char *plain = USER(LONG LONG);
	const char *salted = "{\"cache_salt\":\"t\",\"messages\":[{\"role\":\"user\",\"content\":\"" LONG LONG "\"}],\"max_tokens\":8}";

	assert_true(shared_bodies(plain, "m", plain, "m") >= 2);
	assert_int_equal(shared_bodies(plain, "m", plain, "lora"), 0);
	assert_int_equal(shared_bodies(plain, "m", salted, "m"), 0);
	assert_true(shared_bodies(salted, "m", salted, "m") >= 2);
}

static void roles_tools_and_media_count(void **state)
{
	static const char *const other[] = {
		"{\"messages\":[{\"role\":\"system\",\"content\":\"" LONG "\"}]}",
		"{\"tools\":[{\"type\":\"function\"}],\"messages\":[{\"role\":\"user\",\"content\":\"" LONG "\"}]}",
		"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://a/1\"}},"
		"{\"type\":\"text\",\"text\":\"" LONG "\"}]}]}",
	};
	struct sim_prompt p;

	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		assert_int_equal(shared_bodies(USER(LONG), "m", other[i], "m"), 0);
	p = parse(SIM_API_CHAT, other[2]);
	assert_int_equal(p.prompt_tokens, 3 + 64 + 16 + 2 + 3);
	sim_prompt_free(&p);
}

static void invocations_go_by_shape(void **state)
{
	struct sim_prompt p = parse(SIM_API_INVOCATIONS, USER("hi"));

	assert_int_equal(p.api, SIM_API_CHAT);
	sim_prompt_free(&p);
	p = parse(SIM_API_INVOCATIONS, "{\"prompt\":\"hi\"}");
	assert_int_equal(p.api, SIM_API_COMPLETIONS);
	sim_prompt_free(&p);
}

static void responses_and_messages_render_as_chat(void **state)
{
	struct sim_prompt c = parse(SIM_API_CHAT, "{\"messages\":[{\"role\":\"system\",\"content\":\"" LONG "\"},"
				    "{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":8}");
	struct sim_prompt m = parse(SIM_API_MESSAGES, "{\"system\":\"" LONG "\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":8}");
	struct sim_prompt r = parse(SIM_API_RESPONSES, "{\"instructions\":\"" LONG "\",\"input\":\"hi\",\"max_output_tokens\":8}");

	assert_int_equal(shared(&c, &m), c.hashes);
	assert_int_equal(shared(&c, &r), c.hashes);
	sim_prompt_free(&c);
	sim_prompt_free(&m);
	sim_prompt_free(&r);
}

static void lengths_without_a_limit_average_150(void **state)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2000; i++) {
		char body[64];
		struct sim_prompt p;

		snprintf(body, sizeof(body), "{\"prompt\":\"question %d\"}", i);
		p = parse(SIM_API_COMPLETIONS, body);
		sum += p.output_tokens;
		sim_prompt_free(&p);
	}
	assert_in_range(sum / 2000, 143, 157);
}

static void the_context_bounds_the_answer(void **state)
{
	struct sim_prompt p = parse(SIM_API_COMPLETIONS, "{\"prompt\":\"" LONG "\",\"max_tokens\":4096}");

	assert_int_equal(p.output_tokens, 4096 - 16);
	sim_prompt_free(&p);
}

static void refusals_are_the_engines(void **state)
{
	static const struct {
		enum sim_api api;
		const char *body, *type, *param;
	} rows[] = {
		{ SIM_API_CHAT, "", "Bad Request", "body" },
		{ SIM_API_CHAT, "{\"model\":", "Bad Request", "body.9" },
		{ SIM_API_CHAT, "{\"model\":\"m\"}", "Bad Request", "body.messages" },
		{ SIM_API_COMPLETIONS, "{\"model\":\"m\"}", "Bad Request", "body.prompt" },
		{ SIM_API_RESPONSES, "{\"model\":\"m\"}", "Bad Request", "body.input" },
		{ SIM_API_CHAT, "[1]", "Bad Request", "body" },
		{ SIM_API_CHAT, "{\"messages\":\"x\"}", "Bad Request", "body.messages" },
		{ SIM_API_CHAT, "{\"messages\":[]}", "BadRequestError", "messages" },
		{ SIM_API_CHAT, "{\"model\":1,\"messages\":[{}]}", "Bad Request", "body.model" },
		{ SIM_API_CHAT, "{\"cache_salt\":\"\",\"messages\":[{}]}", "BadRequestError", "cache_salt" },
		{ SIM_API_CHAT, "{\"max_tokens\":0,\"messages\":[{}]}", "BadRequestError", "max_tokens" },
		{ SIM_API_CHAT, "{\"max_tokens\":9999,\"messages\":[{}]}", "BadRequestError", "max_tokens" },
		{ SIM_API_CHAT, "{\"max_tokens\":\"9\",\"messages\":[{}]}", "Bad Request", "body.max_tokens" },
		{ SIM_API_CHAT, "{\"n\":2,\"messages\":[{}]}", "BadRequestError", "n" },
		{ SIM_API_COMPLETIONS, "{\"prompt\":[\"a\",\"b\"]}", "BadRequestError", "prompt" },
		{ SIM_API_COMPLETIONS, "{\"prompt\":\"\"}", "BadRequestError", "prompt" },
		{ SIM_API_COMPLETIONS, "{\"prompt\":{}}", "Bad Request", "body.prompt" },
		{ SIM_API_COMPLETIONS, "{\"prompt\":[1,-2]}", "Bad Request", "body.prompt" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_refusal why = refused(rows[i].api, rows[i].body);

		assert_int_equal(why.status, 400);
		assert_string_equal(why.type, rows[i].type);
		assert_string_equal(why.param, rows[i].param);
		assert_true(why.message[0]);
	}
}

static void a_prompt_beyond_the_context_is_refused(void **state)
{
	char *body = malloc(20000);
	struct sim_refusal why;

	for (int tokens = 4095; tokens <= 4096; tokens++) {
		struct sim_prompt p;

		strcpy(body, "{\"prompt\":\"");
		memset(body + 11, 'x', (size_t)tokens * 4);
		strcpy(body + 11 + tokens * 4, "\"}");
		assert_int_equal(sim_prompt_parse(&p, SIM_API_COMPLETIONS, body, strlen(body), &limits, &why),
				 tokens == 4095 ? 0 : -EINVAL);
		sim_prompt_free(&p);
	}
	assert_string_equal(why.param, "input_tokens");
	free(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_are_marks_and_4_bytes),
		cmocka_unit_test(fields_are_read),
		cmocka_unit_test(a_string_and_text_parts_are_the_same),
		cmocka_unit_test(a_later_turn_hits_prompt_and_answer),
		cmocka_unit_test(answers_are_deterministic_letters),
		cmocka_unit_test(model_and_salt_isolate),
		cmocka_unit_test(roles_tools_and_media_count),
		cmocka_unit_test(invocations_go_by_shape),
		cmocka_unit_test(responses_and_messages_render_as_chat),
		cmocka_unit_test(lengths_without_a_limit_average_150),
		cmocka_unit_test(the_context_bounds_the_answer),
		cmocka_unit_test(refusals_are_the_engines),
		cmocka_unit_test(a_prompt_beyond_the_context_is_refused),
	};

	return cmocka_run_group_tests_name("gpusim prompt", tests, NULL, NULL);
}
