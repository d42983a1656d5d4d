/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What arrives: conversations (of one turn, where the workload has no others), drawn from a seed
 * and from nothing that the fleet or the policy does, so that every policy serves the same requests. */
#ifndef KVSTEER_REPLAY_SOURCE_H
#define KVSTEER_REPLAY_SOURCE_H
#include <stdbool.h>
#include <stdint.h>

#include "load/arrivals.h"
#include "load/rng.h"
#include "load/trace.h"
#include "load/zipf.h"
#include "replay/text.h"
#include "replay/workload.h"

#define REPLAY_NO_PREFIX 0xffffffffu

/* A conversation. Between replay_source_ask() and the next one `text` holds the prompt and,
 * behind it, the answer that is being generated. */
struct replay_talk {
	struct replay_text text;
	struct load_rng rng;
	uint64_t id;
	uint32_t prefix;        /* REPLAY_NO_PREFIX: none */
	int32_t adapter;        /* NODE_NO_ADAPTER: none */
	uint32_t turns, turn;   /* it will have; asked so far */
	uint32_t output_tokens; /* of a trace's record */
	/* Of the turn under way. */
	uint32_t prompt_tokens, prompt_links, answer_tokens;
};

struct replay_source {
	const struct replay_workload *w;
	double rate;
	uint64_t seed, talks;
	struct load_arrivals arrivals;
	struct load_zipf zipf;
	struct load_rng prefix_rng;
	struct replay_text *prefix_text; /* made at first use */
	struct load_trace trace;
	bool has_trace;
};

/* `trace`: file of a trace workload, else unused. Returns 0 or -errno with a message on stderr. */
int replay_source_open(struct replay_source *s, const struct replay_workload *w, double rate, uint64_t seed,
		       const char *trace);
void replay_source_close(struct replay_source *s);
/* The next new conversation and when it arrives; the caller frees it. NULL: the trace has ended. */
struct replay_talk *replay_source_next(struct replay_source *s, uint64_t *at_ns);
void replay_talk_free(struct replay_talk *t);
/* Adds the next message of the user, and the answer that it will get. */
void replay_talk_ask(const struct replay_source *s, struct replay_talk *t);
/* Nanoseconds until the next turn, or UINT64_MAX: that was the last one. */
uint64_t replay_talk_think_ns(const struct replay_source *s, struct replay_talk *t);
#endif
