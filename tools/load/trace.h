/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reader of request traces in the Mooncake format: one JSON object a line with
 * timestamp (ms), input_length, output_length (tokens) and hash_ids, one for each
 * 512-token block of the prompt; equal ids mean equal content up to there. Streams:
 * it holds the records of one stamp and one record ahead, never the file. */
#ifndef KVSTEER_LOAD_TRACE_H
#define KVSTEER_LOAD_TRACE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "load/rng.h"

#define LOAD_TRACE_BLOCK_TOKENS 512u
#define LOAD_TRACE_SPREAD_MS 3000.0  /* the stamps are rounded to this */
#define LOAD_TRACE_GROUP_MAX 65536u  /* records of one stamp */
#define LOAD_TRACE_LINE_MAX (8u << 20)

struct load_trace_record {
	double at_ms; /* since the first stamp, spread inside its group */
	uint32_t input_tokens;
	uint32_t output_tokens;
	uint64_t *ids; /* owned by the trace until the next call */
	uint32_t n_ids;
};

struct load_trace {
	FILE *file;
	const char *name;
	uint64_t line;
	char *text;           /* owned line buffer */
	size_t text_cap;
	bool poisson;         /* random places inside a stamp instead of even ones */
	struct load_rng rng;
	double first_ms;      /* stamp of the first record; -1 before */
	struct load_trace_record *group;
	uint32_t group_len, group_cap, group_next;
	struct load_trace_record ahead; /* first record of the next group */
	bool has_ahead;
	char error[320];      /* "FILE:LINE: what", after -EINVAL */
};

/* Opens `path`. Returns 0 or -errno. */
int load_trace_open(struct load_trace *t, const char *path, bool poisson, uint64_t seed);
/* Returns 1 and the next record (valid until the next call), 0 at the end, -EINVAL with
 * t->error when a line is malformed, -ENOMEM. */
int load_trace_next(struct load_trace *t, const struct load_trace_record **record);
void load_trace_close(struct load_trace *t);
#endif
