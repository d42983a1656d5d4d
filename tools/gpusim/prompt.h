/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From a request's body to the tokens that the simulated engine sees, and to
 * the hashes of its KV blocks.
 *
 * The engine's own rendering, deliberately not the router's: a chat prompt is
 * ChatML (3 mark tokens before a message, 2 after it, 3 for the answer to
 * come), text is cut into tokens of 4 bytes from the start of each message,
 * tools come first as JSON, a media part is 64 tokens made from its JSON.
 * Answers are 4 bytes a token, so that a later prompt which contains the answer
 * as an assistant message has the very tokens that were generated. The hash
 * chain of a prompt starts from the model's or adapter's name and the salt. */
#ifndef KVSTEER_TOOLS_GPUSIM_PROMPT_H
#define KVSTEER_TOOLS_GPUSIM_PROMPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sim_api {
	SIM_API_CHAT,		/* /v1/chat/completions */
	SIM_API_COMPLETIONS,	/* /v1/completions */
	SIM_API_MESSAGES,	/* /v1/messages */
	SIM_API_RESPONSES,	/* /v1/responses */
	SIM_API_INVOCATIONS,	/* /invocations: chat or completions, by shape */
};

struct sim_prompt {
	enum sim_api api;	/* never INVOCATIONS once parsed */
	char *model;		/* owned; NULL: none given */
	bool stream, include_usage, continuous_usage;
	uint32_t max_tokens;	/* 0: not given */
	uint32_t *token;	/* owned; room for the answer's too once completed */
	uint32_t prompt_tokens, output_tokens;
	uint64_t root;		/* of the hash chain */
	uint64_t *hash;		/* owned; of the full blocks of prompt + answer */
	uint32_t hashes;
	uint64_t text_seed;	/* of the answer's text */
};

/* Why a request is refused, in the engine's words. */
struct sim_refusal {
	int status;
	char type[32], param[72];	/* param empty: null */
	char message[512];
};

struct sim_limits {
	uint32_t max_model_tokens;
	uint64_t seed;
};

/* Parses and renders. Returns 0, or -EINVAL with *why filled. In both cases
 * sim_prompt_free() frees. Output length, answer and hashes are still open:
 * the caller checks the model's name first. */
int sim_prompt_parse(struct sim_prompt *p, enum sim_api api, const char *body, size_t len,
		     const struct sim_limits *limits, struct sim_refusal *why);
/* Decides the output length, invents the answer and hashes it all. `served` is
 * the model's or adapter's name that isolates the cache. Returns 0 or -ENOMEM. */
int sim_prompt_complete(struct sim_prompt *p, const char *served, const struct sim_limits *limits);
void sim_prompt_free(struct sim_prompt *p);

/* The 4 bytes of token i of the answer with that seed: letters, and a space
 * before every word but the first. */
void sim_answer_text(uint64_t text_seed, uint32_t i, char text[4]);
#endif
