/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "help.h"

static const struct {
	const char *path;
	enum prompt_family family;
} rows[] = {
	{ "/v1/chat/completions", PROMPT_FAMILY_CHAT },
	{ "/v1/chat/completions?a=1/x", PROMPT_FAMILY_CHAT },
	{ "/v1/completions", PROMPT_FAMILY_COMPLETIONS },
	{ "/v1/responses", PROMPT_FAMILY_RESPONSES },
	{ "/v1/messages", PROMPT_FAMILY_MESSAGES },
	{ "/v1/messages/count_tokens", PROMPT_FAMILY_MESSAGES },
	{ "/invocations", PROMPT_FAMILY_INVOCATIONS },
	{ "/generate", PROMPT_FAMILY_GENERATE },
	{ "/generate_stream", PROMPT_FAMILY_GENERATE },
	{ "/", PROMPT_FAMILY_GENERATE },
	{ "/inference/v1/generate", PROMPT_FAMILY_TOKENS },
	{ "/completion", PROMPT_FAMILY_LLAMA },
	{ "/completions", PROMPT_FAMILY_LLAMA },
	{ "/infill", PROMPT_FAMILY_LLAMA },
	{ "/api/chat", PROMPT_FAMILY_OLLAMA },
	{ "/api/generate", PROMPT_FAMILY_OLLAMA },
	{ "/v1/embeddings", PROMPT_FAMILY_EMBED },
	{ "/v1/audio/transcriptions", PROMPT_FAMILY_MEDIA },
	{ "/v1/models", PROMPT_FAMILY_META },
	{ "", PROMPT_FAMILY_NONE },
	{ "/v1/chat/completions/", PROMPT_FAMILY_NONE },
	{ "/V1/chat/completions", PROMPT_FAMILY_NONE },
	{ "//v1/chat/completions", PROMPT_FAMILY_NONE },
	{ "/v1/chat/../chat/completions", PROMPT_FAMILY_NONE },
	{ "/v1/chat%2fcompletions", PROMPT_FAMILY_NONE },
	{ "/metrics", PROMPT_FAMILY_NONE },
	{ "/health", PROMPT_FAMILY_NONE },
	{ "/v1/load_lora_adapter", PROMPT_FAMILY_NONE },
	{ "/slots", PROMPT_FAMILY_NONE },
};

static void test_paths(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum prompt_family f = prompt_family_of(rows[i].path, strlen(rows[i].path), NULL);

		if (f != rows[i].family)
			fail_msg("%s: family %d", rows[i].path, f);
	}
}

static void test_flags(void **state)
{
	enum prompt_family family;
	const char *path;
	unsigned int flags;
	size_t i;

	for (i = 0; (path = prompt_family_path(i, &family)); i++) {
		assert_int_equal(prompt_family_of(path, strlen(path), &flags), family);
		/* Keyed or by load, never both; a method is allowed. */
		assert_true(!(flags & PROMPT_FAM_KEYED) != !(flags & PROMPT_FAM_LOAD_ONLY));
		assert_true(flags & (PROMPT_FAM_POST | PROMPT_FAM_GET));
		assert_int_not_equal(family, PROMPT_FAMILY_NONE);
	}
	assert_true(i > 25);
	prompt_family_of("/v1/messages", 12, &flags);
	assert_true((flags & PROMPT_FAM_ANTHROPIC) && (flags & PROMPT_FAM_KEYED));
	prompt_family_of("/v1/messages/count_tokens", 25, &flags);
	assert_true((flags & PROMPT_FAM_ANTHROPIC) && (flags & PROMPT_FAM_LOAD_ONLY));
	prompt_family_of("/v1/models", 10, &flags);
	assert_int_equal(flags & (PROMPT_FAM_GET | PROMPT_FAM_POST), PROMPT_FAM_GET);
	prompt_family_of("/invocations", 12, &flags);
	assert_true(flags & PROMPT_FAM_INVOKE);
	prompt_family_of("/v1/files", 9, &flags);
	assert_true(flags & PROMPT_FAM_OPAQUE);
	prompt_family_of("/nope", 5, &flags);
	assert_int_equal(flags, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths), cmocka_unit_test(test_flags) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
