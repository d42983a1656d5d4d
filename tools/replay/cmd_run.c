/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Single replays and what each of them shows. */
#include <stdio.h>
#include <stdlib.h>

#include "replay/ask.h"

void replay_json_figures(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct replay_figures *f)
{
	yyjson_mut_obj_add_real(doc, obj, "hit_rate", f->hit);
	yyjson_mut_obj_add_real(doc, obj, "ttft_p50_s", f->ttft_p50_s);
	yyjson_mut_obj_add_real(doc, obj, "ttft_p90_s", f->ttft_p90_s);
	yyjson_mut_obj_add_real(doc, obj, "ttft_p99_s", f->ttft_p99_s);
	yyjson_mut_obj_add_real(doc, obj, "e2e_p50_s", f->e2e_p50_s);
	yyjson_mut_obj_add_real(doc, obj, "itl_p50_s", f->itl_p50_s);
	yyjson_mut_obj_add_real(doc, obj, "rate_rps", f->rate_rps);
	yyjson_mut_obj_add_real(doc, obj, "busy_max_over_mean", f->busy_max_over_mean);
	yyjson_mut_obj_add_uint(doc, obj, "requests", f->requests);
	yyjson_mut_obj_add_uint(doc, obj, "unfinished", f->unfinished);
	yyjson_mut_obj_add_uint(doc, obj, "preempted", f->preempted);
	yyjson_mut_obj_add_uint(doc, obj, "adapter_loads", f->adapter_loads);
}

static void one(struct replay_ask *a, const struct replay_run *r, yyjson_mut_val *rows)
{
	struct replay_figures f;
	yyjson_mut_val *row;

	if (replay_run(r, &f) < 0)
		exit(1);
	if (!a->json) {
		printf("%-16s %-18s %6.1f %4llu  %5.3f  %7.3f %7.3f %7.3f  %7.3f %6.1f %7.1f %5.2f %7llu\n", r->w->name,
		       r->policy->name, r->rate > 0 ? r->rate : r->w->rate, (unsigned long long)r->seed, f.hit,
		       f.ttft_p50_s, f.ttft_p90_s, f.ttft_p99_s, f.e2e_p50_s, f.itl_p50_s * 1e3, f.rate_rps,
		       f.busy_max_over_mean, (unsigned long long)f.unfinished);
		fflush(stdout);
		return;
	}
	row = yyjson_mut_arr_add_obj(a->doc, rows);
	yyjson_mut_obj_add_str(a->doc, row, "workload", r->w->name);
	yyjson_mut_obj_add_str(a->doc, row, "policy", r->policy->name);
	yyjson_mut_obj_add_real(a->doc, row, "rate", r->rate > 0 ? r->rate : r->w->rate);
	yyjson_mut_obj_add_uint(a->doc, row, "seed", r->seed);
	replay_json_figures(a->doc, row, &f);
}

int replay_do_run(struct replay_ask *a)
{
	yyjson_mut_val *rows = a->json ? yyjson_mut_obj_add_arr(a->doc, yyjson_mut_doc_get_root(a->doc), "runs") : NULL;
	uint32_t seeds = a->seeds ? a->seeds : 1, done = 0;

	if (!a->workloads)
		a->workload[a->workloads++] = replay_workload_find("support");
	if (!a->policies)
		a->policy[a->policies++] = replay_policy_find("cost");
	if (!a->json)
		printf("%-16s %-18s %6s %4s  %5s  %7s %7s %7s  %7s %6s %7s %5s %7s\n", "workload", "policy", "rate",
		       "seed", "hit", "ttft50", "90", "99 s", "e2e50 s", "itl ms", "done/s", "busy", "left");
	for (uint32_t w = 0; w < a->workloads; w++) {
		if (replay_ask_skips(a, a->workload[w]))
			continue;
		for (uint32_t p = 0; p < a->policies; p++) {
			for (uint32_t s = 0; s < seeds; s++) {
				struct replay_run r = replay_ask_run(a, a->workload[w], a->policy[p]);

				r.seed += s;
				replay_progress(done++, a->workloads * a->policies * seeds, "%s %s", r.w->name,
						r.policy->name);
				one(a, &r, rows);
			}
		}
	}
	replay_progress_end();
	return 0;
}
