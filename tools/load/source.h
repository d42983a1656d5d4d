/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where requests come from: a workload's prompts at its times. Open loop
 * (arrivals or a trace), closed loop (clients), and conversations in both. */
#ifndef KVSTEER_LOAD_SOURCE_H
#define KVSTEER_LOAD_SOURCE_H
#include <stdbool.h>
#include <stdint.h>

#include "load/answer.h"
#include "load/arrivals.h"
#include "load/body.h"
#include "load/call.h"
#include "load/conv.h"
#include "load/trace.h"
#include "load/zipf.h"

#define LOAD_NEVER UINT64_MAX
#define LOAD_CONVS_MAX 100000u
/* A closed loop whose server fails at once must not spin. */
#define LOAD_ERROR_PAUSE_NS 100000000ull
/* Mean time of an answer assumed for the ramp of conversations: 250 tokens at 16 ms. */
#define LOAD_ANSWER_S 4.0

struct load_due {
	uint64_t due_ns;
	struct load_conv *conv; /* NULL: a client's next request or conversation */
};

struct load_source {
	const struct load_options *o;
	struct load_body body;
	struct load_zipf zipf;
	struct load_arrivals arrivals;
	struct load_trace trace;
	const struct load_trace_record *record; /* the trace's next; NULL at its end */
	struct load_rng prefix_rng, length_rng, conv_rng;
	uint64_t start_ns;
	uint64_t arrival_ns;    /* next open-loop arrival; LOAD_NEVER in a closed loop */
	struct load_due *heap;  /* owned; by time */
	uint32_t heap_len, heap_cap;
	uint64_t n_prompts;     /* made so far: every question is a new text */
	uint64_t n_convs;
	uint32_t live_convs;
	char error[320];
};

/* Builds texts and reads ahead; times count from load_source_start. Returns 0 or -errno
 * with s->error. */
int load_source_init(struct load_source *s, const struct load_options *o);
void load_source_start(struct load_source *s, uint64_t now_ns);
void load_source_free(struct load_source *s);
/* When the next request is due; LOAD_NEVER while there is none (all clients wait for their
 * answers, or the trace is at its end). */
uint64_t load_source_due(const struct load_source *s);
/* Whether there will be no further request at all: the trace is at its end. */
bool load_source_ended(const struct load_source *s);
/* Makes the due request: its bytes and intended time. Returns 0 or -errno with s->error. */
int load_source_take(struct load_source *s, struct load_call *call);
/* The call has ended: its client or conversation goes on. `a` is its answer, for a success. */
void load_source_done(struct load_source *s, struct load_call *call, const struct load_answer *a, uint64_t now_ns);
#endif
