/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The wire shapes: chunked coding that adds up, events that are JSON, token
 * counts and texts that agree between streams and whole answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#include "gpusim/answer.h"

#define OUTPUT 20

struct stream {
	char text[512];		/* of all token events */
	int events, tokens, roles;
	bool done;
	uint64_t cached, completion, usages;
	char finish_text[32];
};

static struct sim_answer answer(enum sim_api api, bool usage, bool continuous)
{
	struct sim_prompt p = { .api = api, .include_usage = usage, .continuous_usage = continuous, .max_tokens = OUTPUT,
		.prompt_tokens = 100, .output_tokens = OUTPUT, .text_seed = 99 };
	struct sim_answer a;

	assert_int_equal(sim_answer_init(&a, &p, "m\"1\"", 0x1234, 1700000000), 0);
	a.cached_tokens = 48;
	return a;
}

static const char *str(yyjson_val *root, const char *ptr)
{
	return yyjson_get_str(yyjson_ptr_get(root, ptr));
}

static void read_event(struct stream *s, const char *data, size_t len)
{
	yyjson_doc *doc;
	yyjson_val *root;
	const char *text;

	if (len == 6 && !memcmp(data, "[DONE]", 6)) {
		s->done = true;
		return;
	}
	doc = yyjson_read(data, len, 0);
	assert_non_null(doc);
	root = yyjson_doc_get_root(doc);
	s->events++;
	s->roles += str(root, "/choices/0/delta/role") != NULL;
	text = str(root, "/choices/0/delta/content");
	if (!text)
		text = str(root, "/choices/0/text");
	if (!text)
		text = str(root, "/delta/text");
	if (!text)
		text = str(root, "/delta");
	if (text && *text) {
		s->tokens++;
		strcat(s->text, text);
	}
	text = str(root, "/choices/0/finish_reason");
	if (!text)
		text = str(root, "/delta/stop_reason");
	if (!text)
		text = str(root, "/response/status");
	if (text)
		snprintf(s->finish_text, sizeof(s->finish_text), "%s", text);
	if (yyjson_ptr_get(root, "/usage")) {
		s->usages++;
		s->completion = yyjson_get_uint(yyjson_ptr_get(root, "/usage/completion_tokens"));
		s->cached = yyjson_get_uint(yyjson_ptr_get(root, "/usage/prompt_tokens_details/cached_tokens"));
	}
	yyjson_doc_free(doc);
}

/* Undoes the chunked coding by its own sizes: one whole event a chunk. */
static struct stream read_stream(const struct sim_buf *b)
{
	struct stream s = { 0 };
	char *at = b->data, *end = b->data + b->len;

	assert_false(b->failed);
	for (;;) {
		char *after;
		size_t size = strtoul(at, &after, 16);
		const char *data;

		assert_memory_equal(after, "\r\n", 2);
		at = after + 2;
		assert_true(at + size + 2 <= end);
		assert_memory_equal(at + size, "\r\n", 2);
		if (!size) {
			assert_ptr_equal(at + 2, end);
			return s;
		}
		assert_memory_equal(at + size - 2, "\n\n", 2);
		data = at;
		if (!memcmp(data, "event: ", 7))
			data = (char *)memchr(data, '\n', size) + 1;
		assert_memory_equal(data, "data: ", 6);
		read_event(&s, data + 6, (size_t)(at + size - 2 - data - 6));
		at += size + 2;
	}
}

static struct stream whole_stream(enum sim_api api, bool usage, bool continuous)
{
	struct sim_answer a = answer(api, usage, continuous);
	struct sim_buf b = { 0 };
	struct stream s;

	sim_answer_begin(&a, &b);
	for (uint32_t i = 0; i < OUTPUT; i++)
		sim_answer_token(&a, i, &b);
	sim_answer_end(&a, &b);
	s = read_stream(&b);
	sim_buf_free(&b);
	free(a.head);
	return s;
}

static void a_chat_stream(void **state)
{
	struct stream s = whole_stream(SIM_API_CHAT, false, false);

	assert_true(s.done);
	assert_int_equal(s.roles, 1);
	assert_int_equal(s.events, OUTPUT + 1);
	assert_int_equal(s.tokens, OUTPUT);
	assert_int_equal(strlen(s.text), 4 * OUTPUT);
	assert_string_equal(s.finish_text, "length");
	assert_int_equal(s.usages, 0);
}

static void usage_comes_when_asked_for(void **state)
{
	struct stream s = whole_stream(SIM_API_CHAT, true, false);

	assert_int_equal(s.usages, 1);
	assert_int_equal(s.cached, 48);
	assert_int_equal(s.completion, OUTPUT);
	s = whole_stream(SIM_API_COMPLETIONS, true, true);
	assert_int_equal(s.usages, OUTPUT + 1);
	assert_int_equal(s.cached, 48);
	s = whole_stream(SIM_API_CHAT, true, true);
	assert_int_equal(s.usages, OUTPUT + 2);
}

static void the_other_streams(void **state)
{
	static const struct {
		enum sim_api api;
		int events;
		bool done;
		const char *finish;
	} rows[] = {
		{ SIM_API_COMPLETIONS, OUTPUT, true, "length" },
		{ SIM_API_MESSAGES, OUTPUT + 5, false, "max_tokens" },
		{ SIM_API_RESPONSES, OUTPUT + 8, false, "incomplete" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct stream s = whole_stream(rows[i].api, false, false);

		assert_int_equal(s.events, rows[i].events);
		assert_int_equal(s.tokens, OUTPUT);
		assert_int_equal(s.done, rows[i].done);
		assert_string_equal(s.finish_text, rows[i].finish);
	}
}

static void whole_answers_carry_the_streams_text(void **state)
{
	static const struct {
		enum sim_api api;
		const char *text, *cached, *model;
	} rows[] = {
		{ SIM_API_CHAT, "/choices/0/message/content", "/usage/prompt_tokens_details/cached_tokens", "/model" },
		{ SIM_API_COMPLETIONS, "/choices/0/text", "/usage/prompt_tokens_details/cached_tokens", "/model" },
		{ SIM_API_MESSAGES, "/content/0/text", "/usage/cache_read_input_tokens", "/model" },
		{ SIM_API_RESPONSES, "/output/0/content/0/text", "/usage/input_tokens_details/cached_tokens", "/model" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_answer a = answer(rows[i].api, false, false);
		struct stream s = whole_stream(rows[i].api, false, false);
		struct sim_buf b = { 0 };
		yyjson_doc *doc;

		sim_answer_json(&a, &b);
		doc = yyjson_read(b.data, b.len, 0);
		assert_non_null(doc);
		assert_string_equal(str(yyjson_doc_get_root(doc), rows[i].text), s.text);
		assert_string_equal(str(yyjson_doc_get_root(doc), rows[i].model), "m\"1\"");
		assert_int_equal(yyjson_get_uint(yyjson_ptr_get(yyjson_doc_get_root(doc), rows[i].cached)), 48);
		yyjson_doc_free(doc);
		sim_buf_free(&b);
		free(a.head);
	}
}

static void a_failed_stream_ends_cleanly(void **state)
{
	struct sim_buf b = { 0 };
	struct stream s;

	sim_answer_fail("no", "Service Unavailable", 503, &b);
	s = read_stream(&b);
	assert_true(s.done);
	assert_int_equal(s.events, 1);
	assert_int_equal(s.tokens, 0);
	sim_buf_free(&b);
}

static void errors_are_json_whatever_they_quote(void **state)
{
	struct sim_buf b = { 0 };
	yyjson_doc *doc;

	sim_error_json(&b, "the \"model\"\n  \\ does not exist", "NotFoundError", "", 404);
	doc = yyjson_read(b.data, b.len, 0);
	assert_non_null(doc);
	assert_string_equal(str(yyjson_doc_get_root(doc), "/error/message"), "the \"model\"\n  \\ does not exist");
	assert_true(yyjson_is_null(yyjson_ptr_get(yyjson_doc_get_root(doc), "/error/param")));
	assert_int_equal(yyjson_get_int(yyjson_ptr_get(yyjson_doc_get_root(doc), "/error/code")), 404);
	yyjson_doc_free(doc);
	sim_buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chat_stream),
		cmocka_unit_test(usage_comes_when_asked_for),
		cmocka_unit_test(the_other_streams),
		cmocka_unit_test(whole_answers_carry_the_streams_text),
		cmocka_unit_test(a_failed_stream_ends_cleanly),
		cmocka_unit_test(errors_are_json_whatever_they_quote),
	};

	return cmocka_run_group_tests_name("gpusim answer", tests, NULL, NULL);
}
