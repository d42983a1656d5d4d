/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What an engine says about a finished answer: tokens of the prompt, of the
 * completion, and how many of the prompt came from its cache. Read from the
 * first and last bytes of the payload (SSE or JSON), never from all of it. */
#ifndef KVSTEER_HTTP_USAGE_H
#define KVSTEER_HTTP_USAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_usage {
	bool has_prompt;
	bool has_completion;
	bool has_cached;
	uint64_t prompt_tokens; /* all of the prompt, cached part included, whatever the API counts */
	uint64_t completion_tokens;
	uint64_t cached_tokens;
};

/* Reads usage objects from any piece of a payload: OpenAI `usage` with
 * prompt_tokens_details / input_tokens_details, Anthropic cache_read_input_tokens,
 * SGLang cached_tokens and meta_info, llama.cpp timings. The last value of each wins.
 * Tolerates pieces cut anywhere. Returns true if anything was found. */
bool http_usage_scan(const char *p, size_t n, struct http_usage *out);

#define USAGE_HEAD_BYTES 1024 /* message_start carries the counts of the Anthropic API */
#define USAGE_TAIL_BYTES 4096

/* Keeps the first and the last bytes of a payload. 5 KiB: for sampled answers. */
struct usage_tail {
	uint64_t total_bytes;
	char head[USAGE_HEAD_BYTES];
	char ring[USAGE_TAIL_BYTES];
};

void usage_tail_init(struct usage_tail *t);
void usage_tail_feed(struct usage_tail *t, const char *p, size_t n);
/* At the end of the answer. Returns true if anything was found. */
bool usage_tail_read(const struct usage_tail *t, struct http_usage *out);
#endif
