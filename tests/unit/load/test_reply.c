/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The reader of answers: HTTP framing, events, usage, verdicts; every answer
 * whole, byte by byte and split at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/reply.h"

#define SSE_HEAD "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
#define CHUNKED "transfer-encoding: chunked\r\n\r\n"

struct result {
	int events, tokens;
	long used;
	const char *verdict;
	char code[4];
	bool done;
};

struct counter {
	int events, tokens;
};

static void on_event(void *arg, bool token)
{
	struct counter *c = arg;

	c->events++;
	c->tokens += token;
}

/* Feeds `text` cut at `cut` (0: whole; -1: byte by byte). */
static struct result run(struct load_reply *r, const char *text, size_t len, long cut, bool stream, bool eof)
{
	struct result res = { 0 };
	struct counter c = { 0, 0 };
	size_t at = 0;

	load_reply_reset(r, stream, true);
	while (at < len) {
		size_t n = cut < 0 ? 1 : cut > 0 && at < (size_t)cut ? (size_t)cut - at : len - at;
		/* A copy of its own size, so that a read beyond it is found by ASAN. */
		char *piece = malloc(n);
		long used;

		memcpy(piece, text + at, n);
		used = load_reply_feed(r, piece, n, on_event, &c);
		free(piece);
		if (used < 0) {
			res.used = used;
			return res;
		}
		at += (size_t)used;
		if ((size_t)used < n)
			break;
	}
	if (eof && r->http.state != LOAD_HTTP_DONE)
		res.used = load_http_eof(&r->http);
	else
		res.used = (long)at;
	res.done = r->http.state == LOAD_HTTP_DONE;
	res.events = c.events;
	res.tokens = c.tokens;
	if (res.done) {
		res.verdict = load_reply_judge(r, res.code);
		if (res.verdict == res.code)
			res.verdict = "status";
	}
	return res;
}

struct row {
	const char *name, *text;
	bool stream, eof;
	bool done;          /* complete */
	const char *verdict;
	int events, tokens;
	int64_t prompt, cached, output;
	const char *answer; /* text kept */
	const char *backend;
};

static const struct row good[] = {
	{ .name = "vLLM chat stream with usage", .stream = true, .done = true, .events = 5, .tokens = 2,
	  .prompt = 17, .cached = 16, .output = 2, .answer = "QU \\\"x\\\\", .backend = "node-1",
	  .text = SSE_HEAD "X-Kvsteer-Backend: node-1\r\n" CHUNKED
		  "5f\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"u\":1111}\n\n\r\n"
		  "39\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"QU\"}}]}\n\r\n"
		  "1\r\n\n\r\n"
		  "3d;ext=\"v\"\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \\\"x\\\\\"}}]}\n\r\n"
		  "1\r\n\n\r\n"
		  "8a\r\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":17,\"total_tokens\":19,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":16}}}\r\n\r\n\r\n"
		  "e\r\ndata: [DONE]\n\n\r\n0\r\nx-trailer: 1\r\n\r\n" },
	{ .name = "pings are no events, two events in one chunk", .stream = true, .done = true, .events = 3, .tokens = 2,
	  .prompt = -1, .cached = -1, .output = -1, .answer = "to or", .backend = "",
	  .text = SSE_HEAD CHUNKED "3\r\n:\n\n\r\ne\r\n: keep-alive\n\n\r\n"
		  "4c\r\ndata: {\"choices\":[{\"text\":\"to\",\"i\":0}]}\n\ndata:{\"choices\":[{\"text\":\" or\"}]}\n\n\r\n"
		  "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" },
	{ .name = "stream that ends with the connection", .stream = true, .eof = true, .done = true, .events = 2,
	  .tokens = 1, .prompt = -1, .cached = -1, .output = -1, .answer = "a", .backend = "",
	  .text = SSE_HEAD "\r\ndata: {\"text\":\"a\"}\n\ndata: [DONE]\n\n" },
	{ .name = "no [DONE] is truncated", .stream = true, .done = true, .verdict = "truncated", .events = 1,
	  .tokens = 1, .prompt = -1, .cached = -1, .output = -1, .answer = "a", .backend = "",
	  .text = SSE_HEAD CHUNKED "15\r\ndata: {\"text\":\"a\"} \n\n\r\n0\r\n\r\n" },
	{ .name = "usage without text is truncated", .stream = true, .done = true, .verdict = "truncated", .events = 2,
	  .prompt = 3, .cached = -1, .output = 9, .answer = "", .backend = "",
	  .text = SSE_HEAD "content-length: 75\r\n\r\n"
		  "data: {\"usage\":{\"prompt_tokens\": 3 ,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n" },
	{ .name = "busy: 200, an error event, [DONE]", .stream = true, .done = true, .verdict = "stream_error",
	  .events = 2, .prompt = -1, .cached = -1, .output = -1, .answer = "", .backend = "",
	  .text = SSE_HEAD CHUNKED "32\r\ndata: {\"error\": {\"message\": \"busy\",\"code\": 503}}\r\n\r\n"
		  "4\r\n\n\n\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n" },
	{ .name = "JSON where a stream was asked for", .stream = true, .done = true, .verdict = "not_a_stream",
	  .prompt = -1, .cached = -1, .output = -1, .answer = "", .backend = "",
	  .text = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}" },
	{ .name = "503 with a body", .stream = true, .done = true, .verdict = "status", .prompt = -1, .cached = -1,
	  .output = -1, .answer = "", .backend = "",
	  .text = "HTTP/1.1 503 \r\ncontent-length: 12\r\n\r\n{\"error\":{}}" },
	{ .name = "100 first, then JSON", .done = true, .prompt = 26, .cached = 25, .output = 3, .answer = "Say \\u00e9",
	  .backend = "",
	  .text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\ncontent-length: 145\r\nConnection: keep-alive, Close\r\n\r\n"
		  "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"Say \\u00e9\"}}],"
		  "\"usage\":{\"completion_tokens\":3,\"prompt_tokens\":26,\"d\":{\"cached_tokens\":25}}}" },
	{ .name = "JSON of something else", .done = true, .verdict = "bad_response", .prompt = -1, .cached = -1,
	  .output = -1, .answer = "", .backend = "", .text = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello" },
	{ .name = "204 has no body", .done = true, .verdict = "status", .prompt = -1, .cached = -1, .output = -1,
	  .answer = "", .backend = "", .text = "HTTP/1.1 204 No Content\r\n\r\n" },
	{ .name = "escaped keys inside a text are no keys", .done = true, .prompt = 1, .cached = -1, .output = -1,
	  .answer = "\\\"usage\\\":{\\\"prompt_tokens\\\":99}", .backend = "",
	  .text = "HTTP/1.1 200 OK\r\ncontent-length: 98\r\n\r\n"
		  "{\"content\":\"\\\"usage\\\":{\\\"prompt_tokens\\\":99}\",\"usage\" : {\"prompt_tokens\":1}, \"pad\":\"000000000000\"}" },
};

static void check_row(struct load_reply *r, const struct row *g, long cut)
{
	struct result res = run(r, g->text, strlen(g->text), cut, g->stream, g->eof);

	if (res.done != g->done || (!g->eof && res.used != (long)strlen(g->text)) || res.events != g->events || res.tokens != g->tokens ||
	    (g->verdict ? !res.verdict || strcmp(res.verdict, g->verdict) : res.verdict != NULL) ||
	    r->answer.prompt_tokens != g->prompt || r->answer.cached_tokens != g->cached ||
	    r->answer.output_tokens != g->output || r->answer.text_len != strlen(g->answer) ||
	    memcmp(r->answer.text ? r->answer.text : "", g->answer, strlen(g->answer)) ||
	    strcmp(r->http.backend, g->backend))
		fail_msg("%s, cut %ld: used %ld of %zu done %d events %d tokens %d verdict %s usage %lld/%lld/%lld text %.*s",
			 g->name, cut, res.used, strlen(g->text), res.done, res.events, res.tokens,
			 res.verdict ? res.verdict : "-", (long long)r->answer.prompt_tokens,
			 (long long)r->answer.cached_tokens, (long long)r->answer.output_tokens,
			 (int)r->answer.text_len, r->answer.text ? r->answer.text : "");
}

static void test_answers_in_all_splits(void **state)
{
	struct load_reply r = { 0 };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		check_row(&r, &good[i], 0);
		check_row(&r, &good[i], -1);
		for (long cut = 1; cut < (long)strlen(good[i].text); cut++)
			check_row(&r, &good[i], cut);
	}
	load_reply_free(&r);
}

/* Cut off anywhere, no answer passes for a complete one. */
static void test_every_prefix_is_incomplete(void **state)
{
	struct load_reply r = { 0 };

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		if (good[i].eof)
			continue;
		for (size_t len = 0; len < strlen(good[i].text); len++) {
			struct result res = run(&r, good[i].text, len, 0, good[i].stream, true);

			if (res.done || res.used != -EPIPE)
				fail_msg("%s: complete after %zu bytes", good[i].name, len);
		}
	}
	load_reply_free(&r);
}

/* What must not pass (RFC 9112): each is refused in all splits. */
static void test_bad_http(void **state)
{
	static const char *const bad[] = {
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n",
		"ICY 200 OK\r\n\r\n",
		"\r\n\r\n",
		"HTTP/1.1 101 Switching\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "g\r\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "\r\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "-1\r\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "1 \r\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "1\na",
		"HTTP/1.1 200 OK\r\n" CHUNKED "1;x\ny\r\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "1\r\nab",
		"HTTP/1.1 200 OK\r\n" CHUNKED "1\r\na\rb",
		"HTTP/1.1 200 OK\r\n" CHUNKED "0000000000000001\r\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "0\r\n\n",
		"HTTP/1.1 200 OK\r\n" CHUNKED "0\r\n\rx",
		"HTTP/1.1 200 OK\r\n" CHUNKED "0\r\na: b\n",
	};
	struct load_reply r = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		for (long cut = -1; cut < (long)strlen(bad[i]); cut++) {
			struct result res = run(&r, bad[i], strlen(bad[i]), cut, true, false);

			if (res.used != -EBADMSG)
				fail_msg("taken with cut %ld: %s", cut, bad[i]);
		}
	}
	load_reply_free(&r);
}

static void test_head_limit(void **state)
{
	size_t len = LOAD_HTTP_HEAD_MAX + 100, fit = LOAD_HTTP_HEAD_MAX;
	char *text = malloc(len + 8);
	struct load_reply r = { 0 };
	int at = sprintf(text, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: ");

	memset(text + at, 'a', len - (size_t)at);
	for (long cut = -1; cut <= 1; cut++)
		assert_int_equal(run(&r, text, len, cut, true, false).used, -EBADMSG);
	/* Exactly the limit passes. */
	memcpy(text + fit - 4, "\r\n\r\n", 4);
	for (long cut = -1; cut <= 1; cut++)
		assert_true(run(&r, text, fit, cut, true, false).done);
	free(text);
	load_reply_free(&r);
}

/* Bytes behind the answer are left: the caller must not take them for its own. */
static void test_stops_at_the_end(void **state)
{
	const char *text = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n";
	struct load_reply r = { 0 };

	assert_int_equal(run(&r, text, strlen(text), 0, false, false).used, 39);
	load_reply_free(&r);
}

static void test_text_is_bounded(void **state)
{
	struct load_answer a = { 0 };
	char event[2048];
	int n = snprintf(event, sizeof(event), "{\"content\":\"%01500d\"}", 0);

	load_answer_reset(&a, true);
	for (int i = 0; i < 2000; i++)
		assert_true(load_answer_scan(&a, event, (size_t)n));
	assert_true(a.text_cut);
	assert_true(a.text_len <= LOAD_ANSWER_TEXT_MAX);
	load_answer_free(&a);
}

static void test_line_is_bounded(void **state)
{
	struct load_sse s = { 0 };
	char block[4096];
	int rc = 0;

	memset(block, 'd', sizeof(block));
	for (int i = 0; i < 300 && !rc; i++)
		rc = load_sse_feed(&s, block, sizeof(block), NULL, NULL, NULL);
	assert_int_equal(rc, -EBADMSG);
	assert_true(s.cap <= LOAD_SSE_LINE_MAX);
	load_sse_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_in_all_splits),
		cmocka_unit_test(test_every_prefix_is_incomplete),
		cmocka_unit_test(test_bad_http),
		cmocka_unit_test(test_head_limit),
		cmocka_unit_test(test_stops_at_the_end),
		cmocka_unit_test(test_text_is_bounded),
		cmocka_unit_test(test_line_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
