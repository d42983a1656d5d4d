/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gpusim/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FINGERPRINT "\"system_fingerprint\":\"vllm-0.32.0-gpusim\""

static const char *finish_reason(const struct sim_answer *a)
{
	if (a->api == SIM_API_MESSAGES)
		return a->by_limit ? "max_tokens" : "end_turn";
	return a->by_limit ? "length" : "stop";
}

static void add_text(const struct sim_answer *a, struct sim_buf *b)
{
	for (uint32_t i = 0; i < a->output_tokens; i++) {
		char text[4];

		sim_answer_text(a->text_seed, i, text);
		sim_buf_add(b, text, 4);
	}
}

/* One SSE event; `name` only on the APIs that name their events. */
static void add_event(struct sim_buf *out, const char *name, const struct sim_buf *data)
{
	struct sim_buf ev = { 0 };

	if (name)
		sim_buf_fmt(&ev, "event: %s\n", name);
	sim_buf_str(&ev, "data: ");
	sim_buf_add(&ev, data->data, data->len);
	sim_buf_str(&ev, "\n\n");
	sim_buf_chunk(out, ev.data, ev.len);
	out->failed |= ev.failed || data->failed;
	sim_buf_free(&ev);
}

/* `"id":..,"object":..,"created":..,"model":..`, the start of every OpenAI object. */
static void add_object(const struct sim_answer *a, struct sim_buf *b, const char *object)
{
	sim_buf_fmt(b, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%llu,\"model\":\"", a->id, object,
		    (unsigned long long)a->created);
	sim_buf_json(b, a->model, strlen(a->model));
	sim_buf_str(b, "\"");
}

int sim_answer_init(struct sim_answer *a, const struct sim_prompt *p, const char *model, uint64_t serial, uint64_t created)
{
	static const char *const prefix[] = {
		[SIM_API_CHAT] = "chatcmpl", [SIM_API_COMPLETIONS] = "cmpl", [SIM_API_MESSAGES] = "chatcmpl",
		[SIM_API_RESPONSES] = "resp", [SIM_API_INVOCATIONS] = "chatcmpl",
	};
	struct sim_buf head = { 0 };
	bool chat = p->api == SIM_API_CHAT;

	memset(a, 0, sizeof(*a));
	a->api = p->api;
	a->include_usage = p->include_usage;
	a->continuous_usage = p->include_usage && p->continuous_usage;
	a->by_limit = p->max_tokens != 0;
	a->text_seed = p->text_seed;
	a->prompt_tokens = p->prompt_tokens;
	a->output_tokens = p->output_tokens;
	a->created = created;
	a->model = model;
	snprintf(a->id, sizeof(a->id), "%s%c%016llx", prefix[p->api], p->api == SIM_API_RESPONSES ? '_' : '-',
		 (unsigned long long)serial);
	sim_buf_str(&head, "data: ");
	add_object(a, &head, chat ? "chat.completion.chunk" : "text_completion");
	sim_buf_str(&head, chat ? ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" : ",\"choices\":[{\"index\":0,\"text\":\"");
	if (head.failed)
		return -ENOMEM;
	a->head = head.data;
	a->head_len = (uint32_t)head.len;
	return 0;
}

static void add_usage(const struct sim_answer *a, struct sim_buf *b, uint32_t generated)
{
	sim_buf_fmt(b, "\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":%u", a->prompt_tokens,
		    a->prompt_tokens + generated, generated);
}

/* -- /v1/responses -- */

static void add_response(const struct sim_answer *a, struct sim_buf *b, bool done)
{
	sim_buf_fmt(b, "{\"id\":\"%s\",\"created_at\":%llu,\"incomplete_details\":%s,\"instructions\":null,\"metadata\":null,\"model\":\"",
		    a->id, (unsigned long long)a->created, done && a->by_limit ? "{\"reason\":\"max_output_tokens\"}" : "null");
	sim_buf_json(b, a->model, strlen(a->model));
	sim_buf_str(b, "\",\"object\":\"response\",\"output\":[");
	if (done) {
		sim_buf_fmt(b, "{\"id\":\"msg_%s\",\"content\":[{\"annotations\":[],\"text\":\"", a->id + 5);
		add_text(a, b);
		sim_buf_str(b, "\",\"type\":\"output_text\",\"logprobs\":null}],\"role\":\"assistant\",\"status\":\"completed\","
			    "\"type\":\"message\",\"phase\":null}");
	}
	sim_buf_fmt(b, "],\"parallel_tool_calls\":true,\"temperature\":1.0,\"tool_choice\":\"none\",\"tools\":[],\"top_p\":1.0,"
		    "\"background\":false,\"max_output_tokens\":%u,\"previous_response_id\":null,\"reasoning\":null,"
		    "\"service_tier\":\"auto\",\"status\":\"%s\",\"text\":null,\"truncation\":\"disabled\",\"usage\":",
		    a->output_tokens, !done ? "in_progress" : a->by_limit ? "incomplete" : "completed");
	if (done)
		sim_buf_fmt(b, "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},\"output_tokens\":%u,"
			    "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%u}", a->prompt_tokens,
			    a->cached_tokens, a->output_tokens, a->prompt_tokens + a->output_tokens);
	else
		sim_buf_str(b, "null");
	sim_buf_str(b, ",\"user\":null}");
}

static void response_event(struct sim_answer *a, struct sim_buf *out, const char *type, bool done)
{
	struct sim_buf d = { 0 };

	sim_buf_str(&d, "{\"response\":");
	add_response(a, &d, done);
	sim_buf_fmt(&d, ",\"sequence_number\":%u,\"type\":\"%s\"}", a->sequence++, type);
	add_event(out, type, &d);
	sim_buf_free(&d);
}

static void response_part(struct sim_answer *a, struct sim_buf *out, const char *type, const char *before, bool text,
			  const char *after)
{
	struct sim_buf d = { 0 };

	sim_buf_str(&d, before);
	if (text)
		add_text(a, &d);
	sim_buf_str(&d, after);
	sim_buf_fmt(&d, ",\"item_id\":\"msg_%s\",\"output_index\":0,\"sequence_number\":%u,\"type\":\"%s\"}", a->id + 5,
		    a->sequence++, type);
	add_event(out, type, &d);
	sim_buf_free(&d);
}

static void response_item(struct sim_answer *a, struct sim_buf *out, const char *type, bool done)
{
	struct sim_buf d = { 0 };

	sim_buf_fmt(&d, "{\"item\":{\"id\":\"msg_%s\",\"content\":[", a->id + 5);
	if (done) {
		sim_buf_str(&d, "{\"annotations\":[],\"text\":\"");
		add_text(a, &d);
		sim_buf_str(&d, "\",\"type\":\"output_text\",\"logprobs\":null}");
	}
	sim_buf_fmt(&d, "],\"role\":\"assistant\",\"status\":\"%s\",\"type\":\"message\",\"phase\":null},\"output_index\":0,"
		    "\"sequence_number\":%u,\"type\":\"%s\"}", done ? "completed" : "in_progress", a->sequence++, type);
	add_event(out, type, &d);
	sim_buf_free(&d);
}

/* -- /v1/messages -- */

static void messages_begin(struct sim_answer *a, struct sim_buf *out)
{
	struct sim_buf d = { 0 };

	sim_buf_fmt(&d, "{\"type\":\"message_start\",\"message\":{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],"
		    "\"model\":\"", a->id);
	sim_buf_json(&d, a->model, strlen(a->model));
	sim_buf_fmt(&d, "\",\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":%u,\"output_tokens\":0}}}",
		    a->prompt_tokens);
	add_event(out, "message_start", &d);
	d.len = 0;
	sim_buf_str(&d, "{\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"},\"index\":0}");
	add_event(out, "content_block_start", &d);
	sim_buf_free(&d);
}

static void messages_end(struct sim_answer *a, struct sim_buf *out)
{
	struct sim_buf d = { 0 };

	sim_buf_str(&d, "{\"type\":\"content_block_stop\",\"index\":0}");
	add_event(out, "content_block_stop", &d);
	d.len = 0;
	sim_buf_fmt(&d, "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":null},\"usage\":{\"input_tokens\":%u,"
		    "\"output_tokens\":%u,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%u}}", finish_reason(a),
		    a->prompt_tokens - a->cached_tokens, a->output_tokens, a->cached_tokens);
	add_event(out, "message_delta", &d);
	d.len = 0;
	sim_buf_str(&d, "{\"type\":\"message_stop\"}");
	add_event(out, "message_stop", &d);
	sim_buf_free(&d);
}

/* -- streams -- */

void sim_answer_begin(struct sim_answer *a, struct sim_buf *out)
{
	struct sim_buf d = { 0 };

	if (a->api == SIM_API_MESSAGES) {
		messages_begin(a, out);
	} else if (a->api == SIM_API_RESPONSES) {
		response_event(a, out, "response.created", false);
		response_event(a, out, "response.in_progress", false);
		response_item(a, out, "response.output_item.added", false);
		response_part(a, out, "response.content_part.added", "{\"content_index\":0,\"part\":{\"annotations\":[],\"text\":\"", false,
			      "\",\"type\":\"output_text\",\"logprobs\":[]}");
	} else if (a->api == SIM_API_CHAT) {
		add_object(a, &d, "chat.completion.chunk");
		sim_buf_str(&d, ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
			    "\"finish_reason\":null}]");
		if (a->continuous_usage) {
			sim_buf_str(&d, ",");
			add_usage(a, &d, 0);
			sim_buf_str(&d, "}");
		}
		sim_buf_str(&d, ",\"prompt_token_ids\":null,\"prompt_text\":null}");
		add_event(out, NULL, &d);
	}
	sim_buf_free(&d);
}

static void add_named_token(struct sim_answer *a, const char text[4], struct sim_buf *out)
{
	struct sim_buf d = { 0 };

	if (a->api == SIM_API_MESSAGES) {
		sim_buf_fmt(&d, "{\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"%.4s\"},\"index\":0}", text);
		add_event(out, "content_block_delta", &d);
	} else {
		sim_buf_fmt(&d, "{\"content_index\":0,\"delta\":\"%.4s\",\"item_id\":\"msg_%s\",\"logprobs\":[],\"output_index\":0,"
			    "\"sequence_number\":%u,\"type\":\"response.output_text.delta\"}", text, a->id + 5, a->sequence++);
		add_event(out, "response.output_text.delta", &d);
	}
	sim_buf_free(&d);
}

/* The hot path: one copy of the prepared head, the token, a constant tail. */
void sim_answer_token(struct sim_answer *a, uint32_t i, struct sim_buf *out)
{
	bool chat = a->api == SIM_API_CHAT, last = i + 1 == a->output_tokens;
	char text[4], tail[384];
	int len;

	sim_answer_text(a->text_seed, i, text);
	if (a->api == SIM_API_MESSAGES || a->api == SIM_API_RESPONSES) {
		add_named_token(a, text, out);
		return;
	}
	if (last)
		len = snprintf(tail, sizeof(tail), "\"%s,\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null%s,\"token_ids\":null}]",
			       chat ? "}" : "", finish_reason(a), chat ? "" : ",\"prompt_token_ids\":null");
	else
		len = snprintf(tail, sizeof(tail), "\"%s,\"logprobs\":null,\"finish_reason\":null%s,\"token_ids\":null}]",
			       chat ? "}" : "", chat ? "" : ",\"stop_reason\":null,\"prompt_token_ids\":null");
	if (a->continuous_usage)
		len += snprintf(tail + len, sizeof(tail) - (size_t)len,
				",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,\"completion_tokens\":%u}", a->prompt_tokens,
				a->prompt_tokens + i + 1, i + 1);
	len += snprintf(tail + len, sizeof(tail) - (size_t)len, "}\n\n");
	sim_buf_fmt(out, "%x\r\n", a->head_len + 4 + (unsigned int)len);
	sim_buf_add(out, a->head, a->head_len);
	sim_buf_add(out, text, 4);
	sim_buf_add(out, tail, (size_t)len);
	sim_buf_add(out, "\r\n", 2);
}

static void add_done(struct sim_buf *out)
{
	static const char done[] = "data: [DONE]\n\n";

	sim_buf_chunk(out, done, sizeof(done) - 1);
	sim_buf_chunk(out, "", 0);
}

void sim_answer_end(struct sim_answer *a, struct sim_buf *out)
{
	struct sim_buf d = { 0 };

	if (a->api == SIM_API_MESSAGES) {
		messages_end(a, out);
		sim_buf_chunk(out, "", 0);
		return;
	}
	if (a->api == SIM_API_RESPONSES) {
		response_part(a, out, "response.output_text.done", "{\"content_index\":0,\"logprobs\":[],\"text\":\"", true, "\"");
		response_part(a, out, "response.content_part.done", "{\"content_index\":0,\"part\":{\"annotations\":[],\"text\":\"", true,
			      "\",\"type\":\"output_text\",\"logprobs\":null}");
		response_item(a, out, "response.output_item.done", true);
		response_event(a, out, "response.completed", true);
		sim_buf_chunk(out, "", 0);
		return;
	}
	if (a->include_usage) {
		add_object(a, &d, a->api == SIM_API_CHAT ? "chat.completion.chunk" : "text_completion");
		sim_buf_str(&d, ",\"choices\":[],");
		add_usage(a, &d, a->output_tokens);
		sim_buf_fmt(&d, ",\"prompt_tokens_details\":{\"cached_tokens\":%u%s}}," FINGERPRINT "}", a->cached_tokens,
			    a->api == SIM_API_CHAT ? ",\"created_cache_tokens\":0" : "");
		add_event(out, NULL, &d);
		sim_buf_free(&d);
	}
	add_done(out);
}

void sim_answer_fail(const char *message, const char *type, int code, struct sim_buf *out)
{
	struct sim_buf d = { 0 };

	sim_buf_fmt(&d, "{\"error\": {\"message\": \"%s\", \"type\": \"%s\", \"param\": null, \"code\": %d}}", message, type, code);
	add_event(out, NULL, &d);
	sim_buf_free(&d);
	add_done(out);
}

void sim_answer_json(struct sim_answer *a, struct sim_buf *out)
{
	if (a->api == SIM_API_RESPONSES) {
		add_response(a, out, true);
		return;
	}
	if (a->api == SIM_API_MESSAGES) {
		sim_buf_fmt(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"", a->id);
		add_text(a, out);
		sim_buf_str(out, "\"}],\"model\":\"");
		sim_buf_json(out, a->model, strlen(a->model));
		sim_buf_fmt(out, "\",\"stop_reason\":\"%s\",\"usage\":{\"input_tokens\":%u,\"output_tokens\":%u,"
			    "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%u}}", finish_reason(a),
			    a->prompt_tokens - a->cached_tokens, a->output_tokens, a->cached_tokens);
		return;
	}
	if (a->api == SIM_API_CHAT) {
		add_object(a, out, "chat.completion");
		sim_buf_str(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"");
		add_text(a, out);
		sim_buf_fmt(out, "\",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\"reasoning\":null},"
			    "\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null,\"token_ids\":null}]", finish_reason(a));
	} else {
		add_object(a, out, "text_completion");
		sim_buf_str(out, ",\"choices\":[{\"index\":0,\"text\":\"");
		add_text(a, out);
		sim_buf_fmt(out, "\",\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null,\"token_ids\":null,"
			    "\"prompt_logprobs\":null,\"prompt_token_ids\":null}]", finish_reason(a));
	}
	sim_buf_str(out, ",\"service_tier\":null," FINGERPRINT ",");
	add_usage(a, out, a->output_tokens);
	sim_buf_fmt(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%u,\"created_cache_tokens\":%s,\"multimodal_tokens\":null},"
		    "\"completion_tokens_details\":null}%s,\"kv_transfer_params\":null,\"metrics\":null}", a->cached_tokens,
		    a->api == SIM_API_CHAT ? "0" : "null",
		    a->api == SIM_API_CHAT ? ",\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"prompt_text\":null" : "");
}

void sim_error_json(struct sim_buf *out, const char *message, const char *type, const char *param, int code)
{
	sim_buf_str(out, "{\"error\":{\"message\":\"");
	for (const char *s = message; *s; s++) {
		if (*s == '\n')
			sim_buf_str(out, "\\n");
		else
			sim_buf_json(out, s, 1);
	}
	sim_buf_fmt(out, "\",\"type\":\"%s\",\"param\":", type);
	if (*param) {
		sim_buf_str(out, "\"");
		sim_buf_json(out, param, strlen(param));
		sim_buf_str(out, "\"");
	} else {
		sim_buf_str(out, "null");
	}
	sim_buf_fmt(out, ",\"code\":%d}}", code);
}
