/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <string.h>

#include "kvsteer/version.h"
#include "load/rng.h"
#include "load/text.h"
#include "load/trace.h"

#define KEY_PREFIX 0x707265ull
#define KEY_BLOCK 0x626c6bull
#define BLOCK_BYTES (LOAD_TRACE_BLOCK_TOKENS * LOAD_TOKEN_BYTES)

struct load_call *load_call_new(void)
{
	return calloc(1, sizeof(struct load_call));
}

void load_call_free(struct load_call *call)
{
	if (call)
		free(call->buf);
	free(call);
}

static int make_head(struct load_body *b)
{
	static const char *const paths[] = {
		[LOAD_API_CHAT] = "/v1/chat/completions",
		[LOAD_API_COMPLETIONS] = "/v1/completions",
		[LOAD_API_INVOCATIONS] = "/invocations",
	};
	const struct load_options *o = b->o;
	FILE *f = open_memstream(&b->head, &b->head_len);

	if (!f)
		return -ENOMEM;
	fprintf(f, "POST %s%s HTTP/1.1\r\nHost: ", o->path, paths[o->api]);
	fprintf(f, strchr(o->host, ':') ? "[%s]:%s" : "%s:%s", o->host, o->port);
	fprintf(f, "\r\nUser-Agent: kvsteer-load/" KVSTEER_VERSION "\r\nAccept: %s\r\nContent-Type: application/json\r\n",
		o->stream ? "text/event-stream" : "application/json");
	for (uint32_t i = 0; i < o->n_headers; i++)
		fprintf(f, "%s\r\n", o->headers[i]);
	fputs("Content-Length: ", f);
	return fclose(f) ? -ENOMEM : 0;
}

int load_body_init(struct load_body *b, const struct load_options *o)
{
	size_t total;

	*b = (struct load_body){ .o = o };
	if (o->api == LOAD_API_COMPLETIONS) {
		/* One text without roles; a conversation needs its turns told apart. The marks are
		 * 8 and 12 bytes: whole tokens, so that an answer's tokens are the same when its
		 * text comes back in the next prompt. */
		b->open_system = b->open_user = ",\"prompt\":\"";
		b->next_user = o->shape.turns > 0 ? "\\n\\nUser: " : "";
		b->next_assistant = "\\n\\nAssistant:";
		b->tail = o->shape.turns > 0 ? "\\n\\nAssistant:\"}" : "\"}";
	} else {
		b->open_system = ",\"messages\":[{\"role\":\"system\",\"content\":\"";
		b->open_user = ",\"messages\":[{\"role\":\"user\",\"content\":\"";
		b->next_user = "\"},{\"role\":\"user\",\"content\":\"";
		b->next_assistant = "\"},{\"role\":\"assistant\",\"content\":\"";
		b->tail = "\"}]}";
	}
	b->prefix_bytes = (size_t)o->shape.prefix_tokens * LOAD_TOKEN_BYTES;
	total = b->prefix_bytes * o->shape.prefixes;
	if (total) {
		b->prefix_text = malloc(total);
		if (!b->prefix_text)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < o->shape.prefixes; i++)
		load_text_fill(b->prefix_text + i * b->prefix_bytes, b->prefix_bytes,
			       load_mix(o->seed, KEY_PREFIX << 32 | i));
	return make_head(b);
}

void load_body_free(struct load_body *b)
{
	free(b->prefix_text);
	free(b->head);
	memset(b, 0, sizeof(*b));
}

static void fill_blocks(const struct load_body *b, const struct load_prompt *p, char *dst, size_t len)
{
	for (size_t i = 0; len; i++) {
		size_t n = len < BLOCK_BYTES ? len : BLOCK_BYTES;

		load_text_fill(dst, n, load_mix(load_mix(b->o->seed, KEY_BLOCK), p->blocks[i]));
		dst += n;
		len -= n;
	}
}

int load_body_make(const struct load_body *b, const struct load_prompt *p, struct load_call *call)
{
	bool has_prefix = p->prefix != LOAD_NO_PREFIX;
	const char *next = p->history || !has_prefix ? "" : b->next_user;
	const char *open_text = has_prefix ? b->open_system : b->open_user;
	size_t next_len = strlen(next), tail_len = strlen(b->tail), text_len, head_len, open_len, body_len;
	char open[LOAD_NAME_MAX + 256], number[32], *at;

	text_len = p->history ? 0
			      : (size_t)(p->blocks ? p->block_tokens : p->question_tokens) * LOAD_TOKEN_BYTES;
	/* ignore_eos: the answer's length is the workload's, not the model's, choice. */
	open_len = (size_t)snprintf(open, sizeof(open), "{\"model\":\"%s\",%s\"ignore_eos\":true,\"max_tokens\":%u%s",
				    b->o->models[p->model],
				    b->o->stream ? "\"stream\":true,\"stream_options\":{\"include_usage\":true}," : "",
				    p->output_tokens, open_text);
	body_len = open_len + (has_prefix ? b->prefix_bytes : 0) + p->history_len + next_len + text_len + tail_len;
	head_len = (size_t)snprintf(number, sizeof(number), "%zu\r\n\r\n", body_len);

	call->buf = malloc(b->head_len + head_len + open_len + next_len + text_len + tail_len);
	if (!call->buf)
		return -ENOMEM;
	at = call->buf;
	at = mempcpy(at, b->head, b->head_len);
	at = mempcpy(at, number, head_len);
	at = mempcpy(at, open, open_len);
	call->n_iov = 0;
	call->iov[call->n_iov++] = (struct iovec){ call->buf, (size_t)(at - call->buf) };
	if (has_prefix)
		call->iov[call->n_iov++] =
			(struct iovec){ b->prefix_text + p->prefix * b->prefix_bytes, b->prefix_bytes };
	if (p->history_len)
		call->iov[call->n_iov++] = (struct iovec){ (char *)p->history, p->history_len };
	call->iov[call->n_iov].iov_base = at;
	at = mempcpy(at, next, next_len);
	if (p->blocks)
		fill_blocks(b, p, at, text_len);
	else if (text_len)
		load_text_fill(at, text_len, p->question_key);
	at = mempcpy(at + text_len, b->tail, tail_len);
	call->iov[call->n_iov].iov_len = (size_t)(at - (char *)call->iov[call->n_iov].iov_base);
	call->n_iov++;
	return 0;
}
