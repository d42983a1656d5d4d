/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Regret: how much longer requests take than under the oracle. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replay/ask.h"
#include "replay/must.h"
#include "replay/series.h"

#define SEEDS_MAX 99

double replay_regret_of(const struct replay_figures *f, const struct replay_figures *oracle)
{
	return pow(f->ttft_p50_s / oracle->ttft_p50_s * (f->ttft_p90_s / oracle->ttft_p90_s) *
			   (f->ttft_p99_s / oracle->ttft_p99_s) * (f->e2e_p50_s / oracle->e2e_p50_s),
		   0.25);
}

static void defaults(struct replay_ask *a)
{
	static const char *const quick[] = { "round_robin", "gie_322", "cost", NULL };
	static const char *const quick_workloads[] = { "support", "chat", "hot40", "hetero", NULL };
	const char *policies[REPLAY_LIST_MAX] = { NULL }, *workloads[REPLAY_LIST_MAX] = { NULL };
	uint32_t n = 0;

	for (uint32_t i = 0; i < replay_n_policies; i++)
		if (strcmp(replay_policies[i].name, "oracle"))
			policies[n++] = replay_policies[i].name;
	for (uint32_t i = 0; i < replay_n_workloads; i++)
		workloads[i] = replay_workloads[i].name;
	replay_ask_defaults(a, a->quick ? quick : policies, a->quick ? quick_workloads : workloads);
}

static void run_seeds(const struct replay_ask *a, const struct replay_workload *w, const struct replay_policy *p,
		      uint32_t seeds, struct replay_figures *f)
{
	for (uint32_t s = 0; s < seeds; s++) {
		struct replay_run r = replay_ask_run(a, w, p);

		r.seed += s;
		if (replay_run(&r, &f[s]) < 0)
			exit(1);
	}
}

static double median_regret(const struct replay_figures *f, const struct replay_figures *oracle, uint32_t seeds)
{
	double v[SEEDS_MAX];

	for (uint32_t s = 0; s < seeds; s++)
		v[s] = replay_regret_of(&f[s], &oracle[s]);
	return replay_median(v, seeds);
}

static void add_json(struct replay_ask *a, yyjson_mut_val *rows, const struct replay_workload *w,
		     const struct replay_policy *p, double regret, const struct replay_figures *f, uint32_t seeds)
{
	yyjson_mut_val *row = yyjson_mut_arr_add_obj(a->doc, rows), *runs;

	yyjson_mut_obj_add_str(a->doc, row, "workload", w->name);
	yyjson_mut_obj_add_str(a->doc, row, "policy", p->name);
	yyjson_mut_obj_add_real(a->doc, row, "regret", regret);
	runs = yyjson_mut_obj_add_arr(a->doc, row, "seeds");
	for (uint32_t s = 0; s < seeds; s++)
		replay_json_figures(a->doc, yyjson_mut_arr_add_obj(a->doc, runs), &f[s]);
}

/* Workloads that were run with one gateway and with several: how much longer the latter take. */
static void print_over_one(struct replay_ask *a, const struct replay_figures *all, uint32_t seeds)
{
	yyjson_mut_val *rows = a->json ? yyjson_mut_obj_add_arr(a->doc, yyjson_mut_doc_get_root(a->doc), "over_one") : NULL;

	for (uint32_t w = 0; w < a->workloads; w++) {
		for (uint32_t base = 0; base < a->workloads; base++) {
			char name[32];

			if (!a->workload[w]->base || strcmp(a->workload[w]->base, a->workload[base]->name) ||
			    replay_ask_skips(a, a->workload[w]))
				continue;
			snprintf(name, sizeof(name), "%.12s / 1", a->workload[w]->name);
			if (!a->json)
				printf("%-16s", name);
			for (uint32_t p = 0; p < a->policies; p++) {
				double v = median_regret(all + ((size_t)w * a->policies + p) * seeds,
							 all + ((size_t)base * a->policies + p) * seeds, seeds);
				yyjson_mut_val *row;

				if (!a->json) {
					printf(" %11.2f", v);
					continue;
				}
				row = yyjson_mut_arr_add_obj(a->doc, rows);
				yyjson_mut_obj_add_str(a->doc, row, "workload", a->workload[w]->name);
				yyjson_mut_obj_add_str(a->doc, row, "policy", a->policy[p]->name);
				yyjson_mut_obj_add_real(a->doc, row, "over_one", v);
			}
			if (!a->json)
				printf("\n");
		}
	}
}

int replay_do_regret(struct replay_ask *a)
{
	const struct replay_policy *oracle = replay_policy_find("oracle");
	uint32_t seeds = a->seeds ? a->seeds : a->quick ? 1 : 3, done = 0, counted[2][REPLAY_LIST_MAX] = { 0 };
	double sum[2][REPLAY_LIST_MAX] = { 0 }, worst[2][REPLAY_LIST_MAX] = { 0 };
	const struct replay_workload *worst_at[2][REPLAY_LIST_MAX] = { 0 };
	struct replay_figures best[SEEDS_MAX], *all, *f;
	yyjson_mut_val *rows = a->json ? yyjson_mut_obj_add_arr(a->doc, yyjson_mut_doc_get_root(a->doc), "regret") : NULL;

	defaults(a);
	all = must_calloc((size_t)a->workloads * a->policies * seeds, sizeof(*all));
	if (!a->json) {
		printf("Regret: geometric mean of the ratios to the oracle in TTFT p50, p90, p99 and end-to-end p50; "
		       "median of seeds %llu..%llu\n%-16s", (unsigned long long)a->seed,
		       (unsigned long long)a->seed + seeds - 1, "");
		for (uint32_t p = 0; p < a->policies; p++)
			printf(" %11.11s", a->policy[p]->name);
		printf("   oracle p50/p99 s\n");
	}
	for (uint32_t w = 0; w < a->workloads; w++) {
		bool several = a->workload[w]->gateways > 1;

		if (replay_ask_skips(a, a->workload[w]))
			continue;
		replay_progress(done++, a->workloads * (a->policies + 1), "%s oracle", a->workload[w]->name);
		run_seeds(a, a->workload[w], oracle, seeds, best);
		if (!a->json)
			printf("%-16s", a->workload[w]->name);
		for (uint32_t p = 0; p < a->policies; p++) {
			double regret;

			replay_progress(done++, a->workloads * (a->policies + 1), "%s %s", a->workload[w]->name,
					a->policy[p]->name);
			f = all + ((size_t)w * a->policies + p) * seeds;
			run_seeds(a, a->workload[w], a->policy[p], seeds, f);
			regret = median_regret(f, best, seeds);
			sum[several][p] += log(regret);
			counted[several][p]++;
			if (regret > worst[several][p]) {
				worst[several][p] = regret;
				worst_at[several][p] = a->workload[w];
			}
			if (a->json)
				add_json(a, rows, a->workload[w], a->policy[p], regret, f, seeds);
			else
				printf(" %11.2f", regret);
		}
		replay_progress_end();
		if (!a->json) {
			printf("   %.3f / %.3f\n", best[0].ttft_p50_s, best[0].ttft_p99_s);
			fflush(stdout);
		}
	}
	print_over_one(a, all, seeds);
	free(all);
	if (a->json)
		return 0;
	for (int several = 0; several < 2; several++) {
		if (!counted[several][0])
			continue;
		printf("\n%s\n", several ? "through four gateways" : "one gateway");
		for (uint32_t p = 0; p < a->policies; p++)
			printf("  %-20s average %9.2f   worst %9.2f (%s)\n", a->policy[p]->name,
			       exp(sum[several][p] / counted[several][p]), worst[several][p],
			       worst_at[several][p]->name);
	}
	return 0;
}
