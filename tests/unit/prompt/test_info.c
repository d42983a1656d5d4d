/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fields that the gateway reads from a body. */
#include "help.h"

static struct prompt_info info_of(enum prompt_family family, const char *body)
{
	struct made whole = make(family, body);
	size_t piece;

	for (piece = 1; piece < 20; piece++) {
		struct made m = make_limited(family, body, strlen(body), piece, NULL, false);

		assert_memory_equal(&m.info, &whole.info, sizeof(m.info));
		prompt_key_free(&m.key);
	}
	prompt_key_free(&whole.key);
	return whole.info;
}

static void test_model(void **state)
{
	static const char body[] = "{\"a\":[1], \"model\" : \"ll\\u0061ma\\/70\" , \"messages\":[]}";
	struct prompt_info i = info_of(PROMPT_FAMILY_CHAT, body);
	char long_model[600];

	assert_true(i.json && i.has_model);
	assert_string_equal(i.model, "llama/70");
	assert_int_equal(i.model_len, 8);
	assert_memory_equal(body + i.model_off, "\"ll\\u0061ma\\/70\"", i.model_raw_len);
	assert_int_equal(i.model_raw_len, 16);
	/* Python takes the last one; so does what may be spliced. */
	i = info_of(PROMPT_FAMILY_CHAT, "{\"model\":\"a\",\"model\":\"bc\"}");
	assert_string_equal(i.model, "bc");
	assert_int_equal(i.model_off, 21);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"model\":\"a\",\"model\":null}");
	assert_false(i.has_model);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"model\":{\"model\":\"x\"},\"messages\":[{\"model\":\"y\"}]}");
	assert_false(i.has_model);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"model\":\"\"}");
	assert_true(i.has_model);
	assert_int_equal(i.model_len, 0);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"model\":\"a\\u0000b\"}");
	assert_false(i.has_model);
	assert_true(i.model_too_long);
	memset(long_model, 'm', sizeof(long_model));
	memcpy(long_model, "{\"model\":\"", 10);
	memcpy(long_model + 10 + PROMPT_MODEL_MAX, "\"}", 3);
	i = info_of(PROMPT_FAMILY_CHAT, long_model);
	assert_true(i.has_model);
	assert_int_equal(i.model_len, PROMPT_MODEL_MAX);
	memcpy(long_model + 10 + PROMPT_MODEL_MAX, "m\"}", 4);
	i = info_of(PROMPT_FAMILY_CHAT, long_model);
	assert_true(!i.has_model && i.model_too_long);
	/* Known although the body turns out not to be JSON. */
	i = info_of(PROMPT_FAMILY_CHAT, "{\"model\":\"a\",oops");
	assert_true(i.has_model && !i.json);
	/* Families that have no key have a model. */
	i = info_of(PROMPT_FAMILY_EMBED, "{\"input\":[\"x\"],\"model\":\"e\"}");
	assert_string_equal(i.model, "e");
	assert_int_equal(i.shape, PROMPT_SHAPE_NONE);
}

static void test_scalars(void **state)
{
	struct prompt_info i = info_of(PROMPT_FAMILY_CHAT, "{}");

	assert_false(i.has_stream || i.stream || i.include_usage || i.has_salt || i.has_assistant || i.has_media);
	assert_int_equal(i.max_tokens, -1);
	assert_int_equal(i.n, 1);
	assert_int_equal(i.id_slot, -1);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"stream\":true,\"stream_options\":{\"x\":{\"include_usage\":false},\"include_usage\":true},\"max_tokens\":7,"
					"\"n\":3,\"id_slot\":2,\"cache_salt\":\"s\"}");
	assert_true(i.has_stream && i.stream && i.include_usage && i.has_salt);
	assert_int_equal(i.max_tokens, 7);
	assert_int_equal(i.n, 3);
	assert_int_equal(i.id_slot, 2);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"max_completion_tokens\":5,\"max_tokens\":7,\"stream\":false}");
	assert_int_equal(i.max_tokens, 5);
	assert_true(i.has_stream && !i.stream);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"stream\":true,\"stream\":false,\"stream_options\":{\"include_usage\":true},\"stream_options\":{},"
					"\"max_tokens\":1,\"max_tokens\":null,\"n\":4,\"n\":\"x\"}");
	assert_false(i.stream || i.include_usage);
	assert_int_equal(i.max_tokens, -1);
	assert_int_equal(i.n, 1);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"stream\":\"true\",\"max_tokens\":1e3,\"n\":-5,\"id_slot\":NaN}");
	assert_false(i.has_stream || i.stream);
	assert_int_equal(i.max_tokens, 1000);
	assert_int_equal(i.n, 1);
	assert_int_equal(i.id_slot, -1);
	i = info_of(PROMPT_FAMILY_CHAT, "{\"max_tokens\":1e999,\"n\":1e30}");
	assert_int_equal(i.max_tokens, INT64_MAX);
	assert_int_equal(i.n, INT64_MAX);
	i = info_of(PROMPT_FAMILY_GENERATE, "{\"inputs\":\"x\",\"parameters\":{\"max_new_tokens\":9}}");
	assert_int_equal(i.max_tokens, 9);
	i = info_of(PROMPT_FAMILY_LLAMA, "{\"prompt\":\"x\",\"n_predict\":9,\"id_slot\":0}");
	assert_int_equal(i.max_tokens, 9);
	assert_int_equal(i.id_slot, 0);
}

static void test_ids(void **state)
{
	struct prompt_info i = info_of(PROMPT_FAMILY_RESPONSES, "{\"prompt_cache_key\":\"abc\",\"user\":\"u\",\"previous_response_id\":\"resp_1\"}");

	assert_int_equal(i.cache_key_hash, prompt_id_hash("abc", 3));
	assert_int_equal(i.user_hash, prompt_id_hash("u", 1));
	assert_int_equal(i.previous_hash, prompt_id_hash("resp_1", 6));
	assert_int_equal(i.session_hash, 0);
	assert_int_not_equal(i.user_hash, i.cache_key_hash);
	i = info_of(PROMPT_FAMILY_RESPONSES, "{\"conversation\":{\"x\":\"y\",\"id\":\"conv\"}}");
	assert_int_equal(i.previous_hash, prompt_id_hash("conv", 4));
	i = info_of(PROMPT_FAMILY_RESPONSES, "{\"conversation\":\"c\\u006fnv\"}");
	assert_int_equal(i.previous_hash, prompt_id_hash("conv", 4));
	i = info_of(PROMPT_FAMILY_MESSAGES, "{\"metadata\":{\"user_id\":\"u\"}}");
	assert_int_equal(i.user_hash, prompt_id_hash("u", 1));
	i = info_of(PROMPT_FAMILY_GENERATE, "{\"session_params\":{\"id\":\"s\",\"rid\":\"x\"}}");
	assert_int_equal(i.session_hash, prompt_id_hash("s", 1));
	i = info_of(PROMPT_FAMILY_CHAT, "{\"user\":\"a\",\"user\":null,\"prompt_cache_key\":\"\",\"previous_response_id\":5}");
	assert_int_equal(i.user_hash, 0);
	assert_int_equal(i.cache_key_hash, 0);
	assert_int_equal(i.previous_hash, 0);
}

static const struct {
	enum prompt_family family;
	const char *body;
	enum prompt_shape shape;
	bool assistant, media, batch;
} shapes[] = {
	{ PROMPT_FAMILY_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"assistant\"}]}", PROMPT_SHAPE_CHAT, 0, 0, 0 },
	{ PROMPT_FAMILY_CHAT, "{\"messages\":[{\"content\":\"x\",\"role\":\"assistant\"}]}", PROMPT_SHAPE_CHAT, 1, 0, 0 },
	{ PROMPT_FAMILY_CHAT, "{\"messages\":[{\"role\":\"assistant\",\"role\":\"user\"}]}", PROMPT_SHAPE_CHAT, 0, 0, 0 },
	{ PROMPT_FAMILY_CHAT, "{\"messages\":[{\"role\":\"assistant\"}],\"messages\":[{\"role\":\"user\"}]}", PROMPT_SHAPE_CHAT, 0, 0, 0 },
	{ PROMPT_FAMILY_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]}]}", PROMPT_SHAPE_CHAT, 0, 1, 0 },
	{ PROMPT_FAMILY_RESPONSES, "{\"input\":[{\"type\":\"function_call\",\"name\":\"f\"}]}", PROMPT_SHAPE_CHAT, 1, 0, 0 },
	{ PROMPT_FAMILY_COMPLETIONS, "{\"prompt\":\"x\"}", PROMPT_SHAPE_TEXT, 0, 0, 0 },
	{ PROMPT_FAMILY_COMPLETIONS, "{\"prompt\":[\"x\"]}", PROMPT_SHAPE_TEXT, 0, 0, 0 },
	{ PROMPT_FAMILY_COMPLETIONS, "{\"prompt\":[\"x\",\"y\"]}", PROMPT_SHAPE_TEXT, 0, 0, 1 },
	{ PROMPT_FAMILY_COMPLETIONS, "{\"prompt\":[1,2]}", PROMPT_SHAPE_TOKENS, 0, 0, 0 },
	{ PROMPT_FAMILY_COMPLETIONS, "{\"prompt\":[[1,2],[3]]}", PROMPT_SHAPE_TOKENS, 0, 0, 1 },
	{ PROMPT_FAMILY_LLAMA, "{\"prompt\":[1,\"a\"]}", PROMPT_SHAPE_MIXED, 0, 0, 0 },
	{ PROMPT_FAMILY_LLAMA, "{\"prompt\":[\"b\",\"a\"]}", PROMPT_SHAPE_TEXT, 0, 0, 1 },
	{ PROMPT_FAMILY_INVOCATIONS, "{\"inputs\":\"a\",\"messages\":[{}]}", PROMPT_SHAPE_CHAT, 0, 0, 0 },
	{ PROMPT_FAMILY_INVOCATIONS, "{\"inputs\":\"a\"}", PROMPT_SHAPE_TEXT, 0, 0, 0 },
	{ PROMPT_FAMILY_GENERATE, "{\"input_ids\":[[4]],\"image_data\":[\"AA\"]}", PROMPT_SHAPE_TOKENS, 0, 1, 0 },
	{ PROMPT_FAMILY_CHAT, "{\"prompt\":\"x\"}", PROMPT_SHAPE_NONE, 0, 0, 0 },
};

static void test_shapes(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct prompt_info x = info_of(shapes[i].family, shapes[i].body);

		if (x.shape != shapes[i].shape || x.has_assistant != shapes[i].assistant ||
		    x.has_media != shapes[i].media || x.batch != shapes[i].batch)
			fail_msg("%s: shape %d, assistant %d, media %d, batch %d", shapes[i].body, x.shape, x.has_assistant,
				 x.has_media, x.batch);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model), cmocka_unit_test(test_scalars), cmocka_unit_test(test_ids),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
