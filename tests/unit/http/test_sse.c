/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Event streams in the shapes that engines send, at every split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/sse.h"

struct row {
	const char *name;
	enum sse_token_rule rule;
	const char *in;
	const char *want; /* one word an event: comment ping data TOKEN error:CODE done empty */
};

#define ROLE "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"\"}}]}"
#define BUSY "data: {\"error\": {\"message\": \"The engine is currently busy and cannot accept new requests.\"," \
	     " \"type\": \"Service Unavailable\", \"param\": null, \"code\": 503}}"

static const struct row rows[] = {
	{ "vllm chat", SSE_TOKEN_ANY, ROLE "\n\n" ROLE "\n\ndata: [DONE]\n\n", "TOKEN TOKEN done" },
	{ "crlf", SSE_TOKEN_ANY, ROLE "\r\n\r\n" ROLE "\r\n\r\ndata: [DONE]\r\n\r\n", "TOKEN TOKEN done" },
	{ "cr", SSE_TOKEN_ANY, ROLE "\r\r" ROLE "\r\rdata: [DONE]\r\r", "TOKEN TOKEN done" },
	{ "mixed ends", SSE_TOKEN_ANY, ROLE "\r\n\n" ROLE "\n\r\n\r" ROLE "\r\r\n", "TOKEN TOKEN TOKEN" },
	{ "comments", SSE_TOKEN_ANY, ": keep-alive\n\n: keep-alive\n\n" ROLE "\n\n", "comment comment TOKEN" },
	{ "llama.cpp pings", SSE_TOKEN_ANY, ":\n\n:\r\n\r\n:\r\r" ROLE "\n\n", "comment comment comment TOKEN" },
	{ "comment inside an event", SSE_TOKEN_ANY, ROLE "\n: x\n\n", "TOKEN" },
	{ "busy", SSE_TOKEN_ANY, BUSY "\n\ndata: [DONE]\n\n", "error:503 done" },
	{ "error after a token", SSE_TOKEN_ANY, ROLE "\n\n" BUSY "\n\n", "TOKEN error:503" },
	{ "old vllm", SSE_TOKEN_ANY, "data: {\"object\":\"error\",\"message\":\"m\",\"code\":40303}\n\n", "error:0" },
	{ "old vllm code", SSE_TOKEN_ANY, "data: {\"code\":400,\"object\" : \"error\",\"message\":\"m\"}\n\n", "error:400" },
	{ "anthropic error", SSE_TOKEN_ANY, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
	  "error:0" },
	{ "anthropic error, no type line", SSE_TOKEN_ANY, "data: {\"type\":\"error\",\"error\":{\"code\":\"529\"}}\n\n", "error:529" },
	{ "error string", SSE_TOKEN_ANY, "data: {\"error\":\"boom\"}\n\n", "error:0" },
	{ "error event without json", SSE_TOKEN_ANY, "event:error\ndata: boom\n\n", "error:0" },
	{ "null error", SSE_TOKEN_ANY, "data: {\"error\":null,\"choices\":[]}\n\n", "TOKEN" },
	{ "nested error", SSE_TOKEN_ANY, "data: {\"choices\":[{\"error\":{\"code\":500}}],\"a\":{\"error\":{}}}\n\n", "TOKEN" },
	{ "text that looks like one", SSE_TOKEN_ANY, "data: {\"choices\":[{\"text\":\"{\\\"error\\\":{\"}]}\n\n", "TOKEN" },
	{ "anthropic", SSE_TOKEN_ANY, "event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n"
	  "event: content_block_delta\ndata: {}\n\n", "TOKEN ping TOKEN" },
	{ "ping by data", SSE_TOKEN_ANY, "data: {\"type\":\"ping\"}\n\n", "ping" },
	{ "responses", SSE_TOKEN_DELTA, "event: response.created\ndata: {\"response\":{\"error\":null},\"type\":\"response.created\"}\n\n"
	  "event: response.in_progress\ndata: {}\n\nevent: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n",
	  "data data TOKEN" },
	{ "responses by data", SSE_TOKEN_DELTA, "data: {\"type\":\"response.created\"}\n\n"
	  "data: {\"type\":\"response.reasoning_text.delta\",\"delta\":\"x\"}\n\n", "data TOKEN" },
	{ "responses failed", SSE_TOKEN_DELTA, "event: response.failed\ndata: {\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n",
	  "error:0" },
	{ "responses failed by data", SSE_TOKEN_DELTA, "data: {\"type\":\"response.failed\"}\n\n", "error:0" },
	{ "two data lines", SSE_TOKEN_ANY, "data: {\"error\":\ndata: {\"code\":501}}\n\n", "error:501" },
	{ "no space", SSE_TOKEN_ANY, "data:[DONE]\n\n", "done" },
	{ "two spaces", SSE_TOKEN_ANY, "data:  [DONE]\n\n", "TOKEN" },
	{ "other fields", SSE_TOKEN_ANY, "id: 1\nretry: 5\nevent: x\n\nid\n\n", "empty empty" },
	{ "data alone", SSE_TOKEN_ANY, "data\n\n", "TOKEN" },
	{ "long field name", SSE_TOKEN_ANY, "dataxxxxxxxxxxxxx: y\n\n", "empty" },
	{ "name prefix", SSE_TOKEN_ANY, "dat: y\n\ndatas: y\n\n", "empty empty" },
	{ "bom", SSE_TOKEN_ANY, "\xef\xbb\xbf" "data: x\n\n", "TOKEN" },
	{ "blank lines", SSE_TOKEN_ANY, "\n\r\n\r\n\n" ROLE "\n\n\n\n", "TOKEN" },
	{ "type does not stick", SSE_TOKEN_DELTA, "event: a.delta\ndata: x\n\ndata: x\n\n", "TOKEN data" },
	{ "last event type wins", SSE_TOKEN_DELTA, "event: a.delta\nevent: b\ndata: x\n\n", "data" },
	{ "unfinished", SSE_TOKEN_ANY, ROLE "\n", "" },
};

/* Feeds pieces of `piece` bytes, the first of `first`; words go to `out`. */
static void run(const struct row *row, size_t first, size_t piece, char *out)
{
	static const char *const words[] = { "comment", "ping", "data", "error", "done", "empty" };
	size_t n = strlen(row->in), pos = 0, k = first;
	struct sse_watch w;

	sse_init(&w, row->rule);
	*out = 0;
	while (pos < n) {
		size_t len = k < n - pos ? k : n - pos, at = 0, used;
		char *p = malloc(len ? len : 1);
		struct sse_event ev;

		memcpy(p, row->in + pos, len);
		while (sse_feed(&w, p + at, len - at, &used, &ev)) {
			assert_in_range(used, 1, len - at);
			/* nothing is reported before its line is complete */
			assert_true(p[at + used - 1] == '\n' || p[at + used - 1] == '\r');
			at += used;
			strcat(out, *out ? " " : "");
			strcat(out, ev.kind == SSE_DATA && ev.first_token ? "TOKEN" : words[ev.kind]);
			if (ev.kind == SSE_ERROR)
				sprintf(out + strlen(out), ":%d", ev.error_code);
			assert_int_equal(strlen(ev.type) <= SSE_TYPE_MAX, 1);
		}
		assert_int_equal(used, len - at);
		free(p);
		pos += len;
		k = piece;
	}
}

static void test_rows(void **state)
{
	char got[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t n = strlen(rows[i].in);

		for (size_t cut = 0; cut <= n; cut++) {
			run(&rows[i], cut, n, got);
			if (strcmp(got, rows[i].want))
				fail_msg("%s, cut at %zu: \"%s\", want \"%s\"", rows[i].name, cut, got, rows[i].want);
		}
		for (size_t piece = 1; piece < 8; piece++) {
			run(&rows[i], piece, piece, got);
			if (strcmp(got, rows[i].want))
				fail_msg("%s, pieces of %zu: \"%s\", want \"%s\"", rows[i].name, piece, got, rows[i].want);
		}
	}
}

/* The offset reported is where the event ends: what may go out, and no more. */
static void test_offset(void **state)
{
	static const char in[] = ": x\n\ndata: 1\r\n\r\ndata: 2\n\n";
	struct sse_watch w;
	struct sse_event ev;
	size_t used;

	sse_init(&w, SSE_TOKEN_ANY);
	assert_int_equal(sse_feed(&w, in, sizeof(in) - 1, &used, &ev), 1);
	assert_int_equal(ev.kind, SSE_COMMENT);
	assert_int_equal(used, 4);
	assert_int_equal(sse_feed(&w, in + 4, sizeof(in) - 5, &used, &ev), 1);
	assert_int_equal(ev.kind, SSE_DATA);
	assert_int_equal(4 + used, strlen(": x\n\ndata: 1\r\n\r\n"));
	assert_int_equal(ev.data_len, 1);
	assert_memory_equal(ev.data, "1", 1);
}

/* Kept bytes are bounded, whatever comes. */
static void test_bounds(void **state)
{
	size_t n = 1 << 20, used;
	char *big = malloc(n);
	struct sse_watch w;
	struct sse_event ev;

	memset(big, 'x', n);
	memcpy(big, "event: ", 7);
	sse_init(&w, SSE_TOKEN_DELTA);
	assert_int_equal(sse_feed(&w, big, n, &used, &ev), 0);
	assert_int_equal(sse_feed(&w, "\ndata: ", 7, &used, &ev), 0);
	assert_int_equal(sse_feed(&w, big, n, &used, &ev), 0);
	assert_int_equal(sse_feed(&w, "\n\n", 2, &used, &ev), 1);
	assert_int_equal(ev.kind, SSE_DATA);
	assert_int_equal(ev.data_len, SSE_KEEP);
	assert_int_equal(strlen(ev.type), SSE_TYPE_MAX);
	free(big);
}

static void test_error_json(void **state)
{
	static const struct {
		const char *in;
		bool error;
		int code;
	} json[] = {
		{ "{\"error\":{\"code\":400,\"message\":\"request (20024 tokens)\"}}", true, 400 },
		{ " { \"error\" : {\"message\":\"a\\\"}\",\"code\":503 }}", true, 503 },
		{ "{\"detail\":\"Not Found\"}", false, 0 },
		{ "{\"error\":{\"message\":\"cut her", true, 0 },
		{ "{\"error\":{\"code\":50", true, 0 },
		{ "{\"error\"", false, 0 },
		{ "{\"err", false, 0 },
		{ "", false, 0 },
		{ "[{\"error\":{}}]", false, 0 },
		{ "{\"code\":500,\"id\":1}", false, 0 },
		{ "{\"a\":\"\\", false, 0 },
	};

	for (size_t i = 0; i < sizeof(json) / sizeof(json[0]); i++) {
		char text[128];
		size_t used, n = (size_t)snprintf(text, sizeof(text), "data: %s\n\n", json[i].in);
		struct sse_watch w;
		struct sse_event ev;

		sse_init(&w, SSE_TOKEN_ANY);
		assert_int_equal(sse_feed(&w, text, n, &used, &ev), 1);
		assert_int_equal(used, n);
		assert_int_equal(ev.kind == SSE_ERROR, json[i].error);
		assert_int_equal(ev.error_code, json[i].code);
	}
}

/* By definition, byte by byte: a byte is activity if its line begins with neither
 * ':' nor an end. */
static void test_activity(void **state)
{
	static const char alphabet[] = "\n\r:dx";
	unsigned int seed = 5;

	for (int round = 0; round < 200000; round++) {
		char in[12];
		size_t n = 1 + (size_t)rand_r(&seed) % sizeof(in);
		size_t x = (size_t)rand_r(&seed) % (n + 1), y = (size_t)rand_r(&seed) % (n + 1);
		size_t a = x < y ? x : y, b = x < y ? y : x;
		bool want[3] = { false, false, false };
		struct sse_activity act = { 0 };
		int line = 0; /* 0 start, 1 comment, 2 other */

		for (size_t i = 0; i < n; i++) {
			in[i] = alphabet[(size_t)rand_r(&seed) % 5];
			if (in[i] == '\n' || in[i] == '\r')
				line = 0;
			else if (line == 0)
				line = in[i] == ':' ? 1 : 2;
			if (line == 2)
				want[(i >= a) + (i >= b)] = true;
		}
		assert_int_equal(sse_activity(&act, in, a), want[0]);
		assert_int_equal(sse_activity(&act, in + a, b - a), want[1]);
		assert_int_equal(sse_activity(&act, in + b, n - b), want[2]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_offset),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_error_json),
		cmocka_unit_test(test_activity),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
