/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void load_reply_reset(struct load_reply *r, bool stream, bool keep_text)
{
	load_http_reset(&r->http);
	load_sse_reset(&r->sse);
	load_answer_reset(&r->answer, keep_text);
	r->json_len = 0;
	r->pieces = 0;
	r->stream = stream;
	r->done_mark = r->token = r->broken = false;
}

void load_reply_free(struct load_reply *r)
{
	load_http_free(&r->http);
	load_sse_free(&r->sse);
	load_answer_free(&r->answer);
	free(r->json);
	memset(r, 0, sizeof(*r));
}

static void on_data(void *arg, const char *data, size_t len)
{
	struct load_reply *r = arg;

	if (len == 6 && !memcmp(data, "[DONE]", 6))
		r->done_mark = true;
	else if (load_answer_scan(&r->answer, data, len))
		r->token = true;
}

static void on_event(void *arg)
{
	struct load_reply *r = arg;
	bool token = r->token;

	r->token = false;
	r->pieces += token;
	r->event(r->event_arg, token);
}

static void keep_json(struct load_reply *r, const char *p, size_t len)
{
	if (r->json_len + len > r->json_cap) {
		size_t cap = r->json_cap ? r->json_cap * 2 : 4096;
		char *json;

		while (cap < r->json_len + len)
			cap *= 2;
		json = cap <= LOAD_JSON_MAX ? realloc(r->json, cap) : NULL;
		if (!json) {
			r->broken = true;
			return;
		}
		r->json = json;
		r->json_cap = cap;
	}
	memcpy(r->json + r->json_len, p, len);
	r->json_len += len;
}

static void on_body(void *arg, const char *p, size_t len)
{
	struct load_reply *r = arg;

	if (r->http.status != 200 || r->broken)
		return; /* what an error says isn't kept */
	if (!r->stream)
		keep_json(r, p, len);
	else if (r->http.event_stream && load_sse_feed(&r->sse, p, len, on_data, on_event, r))
		r->broken = true;
}

long load_reply_feed(struct load_reply *r, const char *data, size_t len, load_reply_event_fn event, void *arg)
{
	r->event = event;
	r->event_arg = arg;
	return load_http_feed(&r->http, data, len, on_body, r);
}

const char *load_reply_judge(struct load_reply *r, char *code)
{
	if (r->http.status != 200) {
		snprintf(code, 4, "%u", r->http.status % 1000u);
		return code;
	}
	if (r->broken)
		return "bad_response";
	if (!r->stream) {
		bool text = load_answer_scan(&r->answer, r->json, r->json_len);

		return r->answer.error || (!text && r->answer.prompt_tokens < 0) ? "bad_response" : NULL;
	}
	if (!r->http.event_stream)
		return "not_a_stream";
	/* vLLM says 200, then an error event, then a clean [DONE], when it is busy or dying. */
	if (r->answer.error)
		return "stream_error";
	/* Nor may the end have come without the text. */
	if (!r->done_mark || (!r->pieces && r->answer.output_tokens > 0))
		return "truncated";
	return NULL;
}
