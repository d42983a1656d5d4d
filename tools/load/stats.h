/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a run has measured. Only requests meant to be sent after the warm-up count. */
#ifndef KVSTEER_LOAD_STATS_H
#define KVSTEER_LOAD_STATS_H
#include <stdbool.h>
#include <stdint.h>

#include "load/answer.h"
#include "load/call.h"
#include "load/hist.h"

/* More names than this are counted as "other". */
#define LOAD_COUNTERS_MAX 300u

struct load_counter {
	char name[LOAD_HTTP_BACKEND_MAX];
	uint64_t count;
};

struct load_counters {
	struct load_counter list[LOAD_COUNTERS_MAX];
	uint32_t n;
};

struct load_stats {
	uint64_t from_ns;       /* end of the warm-up */
	uint64_t until_ns;      /* end of --duration; UINT64_MAX without */
	uint64_t requests;      /* measured and ended */
	uint64_t errors;
	uint64_t begun;         /* measured and sent, ended or not */
	uint64_t first_intended_ns, last_intended_ns;
	uint64_t last_end_ns;   /* of a measured success */
	uint64_t successes_in_window; /* successes that ended between from_ns and until_ns */
	uint64_t prompt_tokens, cached_tokens, output_tokens;
	uint64_t usage_seen, cached_seen; /* answers with usage; and with cached tokens in it */
	struct load_hist ttft, itl, e2e, late;
	struct load_hist tpot;  /* of an answer: its mean time a token after the first */
	struct load_counters reasons, backends;
};

void load_counters_add(struct load_counters *c, const char *name);
/* A call was begun. */
void load_stats_begin(struct load_stats *s, const struct load_call *call);
/* A call has ended; `a` is its answer. */
void load_stats_end(struct load_stats *s, const struct load_call *call, const struct load_answer *a);
/* Successes a second: those that ended inside the measured window, warm-up requests among
 * them, so that a steady load gives its rate. Without a window: measured successes from the
 * end of the warm-up to the last answer. */
double load_stats_rate_rps(const struct load_stats *s);
/* Measured requests meant to be sent a second. */
double load_stats_offered_rps(const struct load_stats *s);
/* Sum of cached over sum of prompt tokens as the engines report them; -1 when none does. */
double load_stats_hit_rate(const struct load_stats *s);
#endif
