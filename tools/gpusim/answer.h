/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The shapes of vLLM 0.32's answers: JSON bodies, SSE events, errors. */
#ifndef KVSTEER_TOOLS_GPUSIM_ANSWER_H
#define KVSTEER_TOOLS_GPUSIM_ANSWER_H
#include <stdbool.h>
#include <stdint.h>

#include "gpusim/buf.h"
#include "gpusim/prompt.h"

struct sim_answer {
	enum sim_api api;
	bool include_usage, continuous_usage;
	bool by_limit;		/* the client set the length: finish_reason is "length", else "stop" */
	uint64_t text_seed;
	uint32_t prompt_tokens, output_tokens, cached_tokens;
	uint64_t created;	/* seconds since the epoch */
	char id[48];
	const char *model;	/* as the client named it; outlives the answer */
	char *head;		/* owned: what every token's event begins with */
	uint32_t head_len;
	uint32_t sequence;	/* of /v1/responses events */
};

/* `serial` makes the id. Returns 0 or -ENOMEM; the caller frees a->head. */
int sim_answer_init(struct sim_answer *a, const struct sim_prompt *p, const char *model, uint64_t serial, uint64_t created);
/* Each appends events as chunks of HTTP chunked coding: what comes before the
 * first token, token i, what comes after the last (the final chunk included). */
void sim_answer_begin(struct sim_answer *a, struct sim_buf *out);
void sim_answer_token(struct sim_answer *a, uint32_t i, struct sim_buf *out);
void sim_answer_end(struct sim_answer *a, struct sim_buf *out);
/* A stream that fails after its head: the error as an event, [DONE], a clean end. */
void sim_answer_fail(const char *message, const char *type, int code, struct sim_buf *out);
/* The whole answer as one JSON body. */
void sim_answer_json(struct sim_answer *a, struct sim_buf *out);
/* {"error":{...}}; an empty param is null. */
void sim_error_json(struct sim_buf *out, const char *message, const char *type, const char *param, int code);
#endif
