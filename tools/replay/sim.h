/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One replay: a workload, a policy, a seed; by events, in simulated time, the same on every machine. */
#ifndef KVSTEER_REPLAY_SIM_H
#define KVSTEER_REPLAY_SIM_H
#include <stdbool.h>
#include <stdint.h>

#include "replay/policy.h"
#include "replay/workload.h"

struct replay_run {
	const struct replay_workload *w;
	const struct replay_policy *policy;
	double rate;                 /* 0: the workload's */
	uint64_t seed;
	double warmup_s, measure_s;  /* 0: the workload's */
	const char *trace;
	/* Stop as soon as it is certain that more than 1 % of the measured requests wait longer; 0: never. */
	double limit_s;
	uint32_t nodes;              /* at the start; 0: REPLAY_NODES */
	/* At this time one more node joins, or the last one leaves: it gets no new request. 0: never. */
	double change_s;
	bool join;
	/* Called for each request with its first token, and at its end (done), if not NULL. */
	void (*request)(void *ctx, const struct replay_request *q, uint64_t now_ns, bool done);
	void *ctx;
};

struct replay_figures {
	double hit;                              /* cached over prompt tokens */
	double ttft_p50_s, ttft_p90_s, ttft_p99_s;
	double e2e_p50_s, itl_p50_s, rate_rps;   /* requests that ended, a second */
	double busy_max_over_mean;               /* of the nodes' computing time while measured */
	double late;                             /* share of the measured above limit_s */
	uint64_t requests, unfinished;           /* measured; of them without end */
	uint64_t preempted, adapter_loads;
	bool gave_up;                            /* by limit_s, or the queue grew beyond all bounds */
};

/* Returns 0 or -errno with a message on stderr. */
int replay_run(const struct replay_run *r, struct replay_figures *out);
#endif
