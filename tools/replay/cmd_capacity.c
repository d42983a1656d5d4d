/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Capacity: the largest rate at which first tokens come in time, from a cold start. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/ask.h"

#define LEAST_SHARE 0.02 /* of the workload's rate: below that a policy has no capacity */
#define FIRST_STEP 1.3
#define MEASURE_S 100
#define QUICK_S 50
#define AHEAD 1.08       /* a policy may fail at a rate by bad luck and hold at a higher one: ... */
#define AHEADS 2         /* ... the largest counts */

static bool holds(const struct replay_ask *a, const struct replay_workload *w, const struct replay_policy *p, double rate)
{
	uint32_t seeds = a->seeds ? a->seeds : a->quick ? 1 : REPLAY_CAPACITY_SEEDS;

	for (uint32_t s = 0; s < seeds; s++) {
		struct replay_run r = replay_ask_run(a, w, p);
		struct replay_figures f;

		r.rate = rate;
		r.seed += s;
		r.limit_s = REPLAY_CAPACITY_LIMIT_S;
		if (w->content != REPLAY_TRACE) {
			r.measure_s = a->seconds > 0 ? a->seconds : a->quick ? QUICK_S : MEASURE_S;
		}
		if (replay_run(&r, &f) < 0)
			exit(1);
		if (f.gave_up || !(f.ttft_p99_s < REPLAY_CAPACITY_LIMIT_S))
			return false;
	}
	return true;
}

/* Between a rate that holds and one that does not. */
static double bisect(const struct replay_ask *a, const struct replay_workload *w, const struct replay_policy *p,
		     double good, double bad, double precision)
{
	while (bad > good * (1 + precision)) {
		double middle = sqrt(good * bad);

		if (holds(a, w, p, middle))
			good = middle;
		else
			bad = middle;
	}
	return good;
}

double replay_capacity_of(const struct replay_ask *a, const struct replay_workload *w, const struct replay_policy *p)
{
	double precision = a->quick && a->precision == 0.01 ? 0.05 : a->precision, step = FIRST_STEP;
	double good = a->rate > 0 ? a->rate : w->rate, bad, ahead;

	if (holds(a, w, p, good)) {
		for (bad = good * step; holds(a, w, p, bad); bad = good * step)
			good = bad;
	} else {
		for (bad = good, good = bad / step; !holds(a, w, p, good); step = 2, good = bad / step) {
			bad = good;
			if (good < LEAST_SHARE * w->rate)
				return 0;
		}
	}
	good = bisect(a, w, p, good, bad, precision);
	ahead = good;
	for (int i = 0; i < AHEADS && !a->quick; i++) {
		ahead *= AHEAD;
		if (!holds(a, w, p, ahead))
			continue;
		good = bisect(a, w, p, ahead, ahead * AHEAD, precision);
		ahead = good;
		i = -1;
	}
	return good;
}

static void defaults(struct replay_ask *a)
{
	static const char *const policies[] = { "round_robin", "least_request", "consistent_hash", "chwbl",
						"sglang_cache_aware", "gie_322", "dynamo_w8", "cost", "pool", NULL };
	static const char *const quick[] = { "round_robin", "gie_322", "cost", NULL };
	static const char *const workloads[] = { "support", "tight", "long8k", "chat", "hot40", "hetero", "burst",
						 "g4-support", NULL };
	static const char *const quick_workloads[] = { "support", "chat", "hot40", "hetero", NULL };

	replay_ask_defaults(a, a->quick ? quick : policies, a->quick ? quick_workloads : workloads);
}

int replay_do_capacity(struct replay_ask *a)
{
	yyjson_mut_val *rows = a->json ? yyjson_mut_obj_add_arr(a->doc, yyjson_mut_doc_get_root(a->doc), "capacity") : NULL;
	uint32_t seeds = a->seeds ? a->seeds : a->quick ? 1 : REPLAY_CAPACITY_SEEDS, done = 0;

	defaults(a);
	if (!a->json) {
		printf("Capacity: requests a second with TTFT p99 below 2 s, cold start, seeds %llu..%llu\n%-16s",
		       (unsigned long long)a->seed, (unsigned long long)a->seed + seeds - 1, "");
		for (uint32_t p = 0; p < a->policies; p++)
			printf(" %11.11s", a->policy[p]->name);
		printf("\n");
	}
	for (uint32_t w = 0; w < a->workloads; w++) {
		if (replay_ask_skips(a, a->workload[w]))
			continue;
		if (!a->json)
			printf("%-16s", a->workload[w]->name);
		for (uint32_t p = 0; p < a->policies; p++) {
			yyjson_mut_val *row;
			double c;

			replay_progress(done++, a->workloads * a->policies, "%s %s", a->workload[w]->name,
					a->policy[p]->name);
			c = replay_capacity_of(a, a->workload[w], a->policy[p]);
			if (!a->json) {
				printf(" %11.1f", c);
				fflush(stdout);
				continue;
			}
			row = yyjson_mut_arr_add_obj(a->doc, rows);
			yyjson_mut_obj_add_str(a->doc, row, "workload", a->workload[w]->name);
			yyjson_mut_obj_add_str(a->doc, row, "policy", a->policy[p]->name);
			yyjson_mut_obj_add_real(a->doc, row, "capacity_rps", c);
		}
		replay_progress_end();
		if (!a->json)
			printf("\n");
	}
	return 0;
}
