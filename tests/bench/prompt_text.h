/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Chat requests of a given size for the benchmark clients: a system prompt (one of several), turns of a few
 * hundred bytes with what JSON text has in it (line breaks, quotes, characters outside ASCII), and a last
 * question that differs from request to request and is sent as a piece of its own. */
#ifndef KVSTEER_BENCH_PROMPT_TEXT_H
#define KVSTEER_BENCH_PROMPT_TEXT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT_TAIL_BYTES 64

struct prompt_text {
	char *text; /* head and body but its last PROMPT_TAIL_BYTES */
	size_t len;
};

/* The end of a body: always PROMPT_TAIL_BYTES. */
static inline void prompt_tail(char tail[PROMPT_TAIL_BYTES + 1], unsigned long long seq)
{
	snprintf(tail, PROMPT_TAIL_BYTES + 1, "Question %020llu, please?%-*s\"}]}", seq, PROMPT_TAIL_BYTES - 42, "");
}

static inline struct prompt_text prompt_new(const char *model, unsigned prefix, size_t body_bytes, int stream)
{
	static const char *const words[] = { "the ", "cache ", "of ", "a ", "node ", "holds ", "what ", "was ", "asked ",
					     "before; ", "\\\"so\\\" ", "fa\xc3\xa7" "ade ", "and.\\n", "answer ", "order ", "number ",
					     "which ", "stays ", "for ", "longer ", "than ", "one ", "question ", "would " };
	char *body = malloc(body_bytes + 1024), *text = malloc(body_bytes + 2048);
	size_t n, goal = body_bytes - PROMPT_TAIL_BYTES;
	unsigned x = prefix * 2654435761u + 12345u;
	struct prompt_text t = { 0 };
	int head;

	if (!body || !text)
		exit(1);
	n = (size_t)sprintf(body, "{\"model\":\"%s\",%s\"max_tokens\":16,\"messages\":[{\"role\":\"system\",\"content\":\""
			    "You are assistant %u of this fleet. ", model, stream ? "\"stream\":true," : "", prefix);
	for (unsigned turn = 1; n + 200 < goal; turn++) {
		/* the system prompt is half of it, turns of 600 bytes are the rest */
		size_t end = turn == 1 ? goal / 2 : n + 600;

		while (n < end && n + 120 < goal) {
			const char *w = words[(x >> 16) % (sizeof(words) / sizeof(*words))];

			x = x * 1664525u + 1013904223u;
			memcpy(body + n, w, strlen(w));
			n += strlen(w);
		}
		n += (size_t)sprintf(body + n, "\"},{\"role\":\"%s\",\"content\":\"", turn % 2 ? "user" : "assistant");
	}
	while (n < goal)
		body[n++] = '.';
	head = sprintf(text, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway.example\r\nUser-Agent: openai-python/1.40\r\n"
		       "Accept: application/json\r\nAuthorization: Bearer none-needed-here\r\n"
		       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", n + PROMPT_TAIL_BYTES);
	memcpy(text + head, body, n);
	free(body);
	t.text = text;
	t.len = (size_t)head + n;
	return t;
}
#endif
