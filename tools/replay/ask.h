/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the command line asks for, and the commands. */
#ifndef KVSTEER_REPLAY_ASK_H
#define KVSTEER_REPLAY_ASK_H
#include <stdbool.h>
#include <stdint.h>
#include <yyjson.h>

#include "replay/sim.h"

#define REPLAY_LIST_MAX 32

struct replay_ask {
	const struct replay_policy *policy[REPLAY_LIST_MAX];
	uint32_t policies;
	const struct replay_workload *workload[REPLAY_LIST_MAX];
	uint32_t workloads;
	double rate, seconds, warmup;   /* 0: the workload's */
	uint64_t seed;                  /* the first one */
	uint32_t seeds;
	double precision;               /* of capacities */
	const char *trace, *out;
	bool json, quick;
	/* Results, if json. */
	yyjson_mut_doc *doc;
};

/* Fills `a`. Returns the command's word, or NULL after a message and the exit code in *code. */
const char *replay_ask_parse(int argc, char **argv, struct replay_ask *a, int *code);

/* Names, NULL at the end, that stand for what was not given. */
void replay_ask_defaults(struct replay_ask *a, const char *const *policies, const char *const *workloads);
/* A run of this ask; what differs is changed by the caller. */
struct replay_run replay_ask_run(const struct replay_ask *a, const struct replay_workload *w,
				 const struct replay_policy *p);
/* True, after a line on stderr, if the workload needs a trace and there is none. */
bool replay_ask_skips(const struct replay_ask *a, const struct replay_workload *w);

/* "[done/all] what" on a terminal, nothing elsewhere. */
void replay_progress(uint32_t done, uint32_t all, const char *format, ...) __attribute__((format(printf, 3, 4)));
void replay_progress_end(void);
void replay_json_figures(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct replay_figures *f);

/* The commands: exit codes. */
int replay_do_run(struct replay_ask *a);
int replay_do_regret(struct replay_ask *a);
int replay_do_capacity(struct replay_ask *a);
int replay_do_scaling(struct replay_ask *a);
int replay_do_check(struct replay_ask *a);
int replay_do_picture(struct replay_ask *a);

/* TTFT ratios of two figures: geometric mean of p50, p90, p99 and end-to-end p50. */
double replay_regret_of(const struct replay_figures *f, const struct replay_figures *oracle);
/* The largest rate with p99 TTFT below 2 s on all seeds, from cold; 0: none near the workload's rate. */
double replay_capacity_of(const struct replay_ask *a, const struct replay_workload *w, const struct replay_policy *p);
#define REPLAY_CAPACITY_LIMIT_S 2.0
#define REPLAY_CAPACITY_SEEDS 2
#endif
