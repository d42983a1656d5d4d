/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Against figures of an independent simulator of the same model: within 10 %, p99 within 20 %, so that
 * neither the model nor a policy drifts unseen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replay/ask.h"
#include "replay/series.h"

#define SEEDS 3
#define TOLERANCE 0.10
#define TOLERANCE_P99 0.20

struct reference {
	const char *what, *workload, *policy;
	double rate;
	uint32_t clients;
	double warmup_s, measure_s;
	/* 0: none */
	double hit, p50, p90, p99, e2e, rps, itl_ms;
};

static const struct reference references[] = {
	{ "support 38/s", "support", "round_robin", 38, 0, 150, 120, .245, .318, .759, 1.25, .e2e = 14.9 },
	{ "support 38/s", "support", "cost", 38, 0, 200, 300, .981, .028, .035, .041, .e2e = 2.21 },
	{ "support 38/s", "support", "chwbl", 38, 0, 200, 300, .851, .031, .221, .415, 0, 0, 0 },
	{ "support 70 clients", "support", "round_robin", 0, 70, 200, 300, .252, .217, .225, .231, .rps = 18.1, .itl_ms = 24.9 },
	{ "support 70 clients", "support", "cost", 0, 70, 200, 300, .978, .029, .035, .043, .rps = 28.7, .itl_ms = 16.2 },
	{ "chat 80/s", "chat", "round_robin", 80, 0, 200, 200, .346, .083, .254, .543, .e2e = 6.82 },
	{ "chat 80/s", "chat", "gie_322", 80, 0, 200, 200, .811, .043, .127, .277, 0, 0, 0 },
	{ "chat 80/s", "chat", "cost", 80, 0, 200, 200, .891, .035, .053, .120, 0, 0, 0 },
	{ "long8k 10/s", "long8k", "round_robin", 10, 0, 200, 600, .241, .551, .689, .948, 0, 0, 0 },
	{ "long8k 10/s", "long8k", "cost", 10, 0, 138, 300, .986, .027, .034, .33, 0, 0, 0 },
};

static const struct {
	const char *workload, *policy;
	double rps;
} capacities[] = {
	{ "support", "round_robin", 38 }, { "support", "chwbl", 157 }, { "support", "gie_322", 180 },
	{ "support", "cost", 208 },	  { "support", "pool", 208 },  { "chat", "round_robin", 128 },
	{ "chat", "chwbl", 110 },	  { "chat", "gie_322", 160 },  { "chat", "cost", 165 },
	{ "chat", "pool", 170 },	  { "hetero", "round_robin", 0 }, { "hetero", "chwbl", 100 },
	{ "hetero", "gie_322", 104 },	  { "hetero", "cost", 159 },   { "hetero", "pool", 159 },
};

struct tally {
	struct replay_ask *a;
	yyjson_mut_val *rows;
	uint32_t checked, missed;
};

static void judge(struct tally *t, const char *what, const char *policy, const char *figure, double got, double want,
		  double low, double high)
{
	bool ok = got >= low && got <= high; /* NAN is not */
	yyjson_mut_val *row;

	t->checked++;
	t->missed += !ok;
	if (!t->a->json) {
		printf("%-20s %-12s %-9s %9.3f  reference %9.3f  %+6.1f %%%s\n", what, policy, figure, got, want,
		       want > 0 ? (got / want - 1) * 100 : 0, ok ? "" : "  MISSED");
		fflush(stdout);
		return;
	}
	row = yyjson_mut_arr_add_obj(t->a->doc, t->rows);
	yyjson_mut_obj_add_str(t->a->doc, row, "case", what);
	yyjson_mut_obj_add_str(t->a->doc, row, "policy", policy);
	yyjson_mut_obj_add_str(t->a->doc, row, "figure", figure);
	yyjson_mut_obj_add_real(t->a->doc, row, "got", got);
	yyjson_mut_obj_add_real(t->a->doc, row, "reference", want);
	yyjson_mut_obj_add_bool(t->a->doc, row, "ok", ok);
}

static void within(struct tally *t, const struct reference *r, const char *figure, double *got, double want, double by)
{
	if (want > 0)
		judge(t, r->what, r->policy, figure, replay_median(got, SEEDS), want, want * (1 - by), want * (1 + by));
}

static int check_figures(struct tally *t, const struct reference *c)
{
	struct replay_workload w = *replay_workload_find(c->workload);
	double hit[SEEDS], p50[SEEDS], p90[SEEDS], p99[SEEDS], e2e[SEEDS], rps[SEEDS], itl[SEEDS];

	w.clients = c->clients;
	for (uint32_t s = 0; s < SEEDS; s++) {
		struct replay_run r = { .w = &w, .policy = replay_policy_find(c->policy), .rate = c->rate, .seed = s + 1,
					.warmup_s = c->warmup_s, .measure_s = c->measure_s };
		struct replay_figures f;

		if (replay_run(&r, &f) < 0)
			return 1;
		hit[s] = f.hit;
		p50[s] = f.ttft_p50_s;
		p90[s] = f.ttft_p90_s;
		p99[s] = f.ttft_p99_s;
		e2e[s] = f.e2e_p50_s;
		rps[s] = f.rate_rps;
		itl[s] = f.itl_p50_s * 1e3;
	}
	within(t, c, "hit", hit, c->hit, TOLERANCE);
	within(t, c, "ttft p50", p50, c->p50, TOLERANCE);
	within(t, c, "ttft p90", p90, c->p90, TOLERANCE);
	within(t, c, "ttft p99", p99, c->p99, TOLERANCE_P99);
	within(t, c, "e2e p50", e2e, c->e2e, TOLERANCE);
	within(t, c, "req/s", rps, c->rps, TOLERANCE);
	within(t, c, "itl ms", itl, c->itl_ms, TOLERANCE);
	return 0;
}

/* One hot prefix: the baseline must fail, or it is not the baseline; the policy must not. */
static int check_hot(struct tally *t)
{
	const char *const names[] = { "gie_322", "cost", "oracle" };
	struct replay_figures f[3];

	for (int i = 0; i < 3; i++) {
		struct replay_run r = { .w = replay_workload_find("hot40"), .policy = replay_policy_find(names[i]), .seed = 1 };

		if (replay_run(&r, &f[i]) < 0)
			return 1;
	}
	judge(t, "hot40 130/s", "gie_322", "ttft p90", f[0].ttft_p90_s, 50, 50, INFINITY);
	judge(t, "hot40 130/s", "cost", "of oracle", f[1].ttft_p99_s / f[2].ttft_p99_s, 1, 0, 1.1);
	return 0;
}

int replay_do_check(struct replay_ask *a)
{
	struct tally t = { .a = a };
	const uint32_t n = sizeof(references) / sizeof(references[0]), nc = sizeof(capacities) / sizeof(capacities[0]);
	uint32_t done = 0;

	if (a->json)
		t.rows = yyjson_mut_obj_add_arr(a->doc, yyjson_mut_doc_get_root(a->doc), "check");
	for (uint32_t i = 0; i < n; i++) {
		replay_progress(done++, n + nc + 1, "%s %s", references[i].what, references[i].policy);
		if (check_figures(&t, &references[i]))
			return 1;
	}
	replay_progress(done++, n + nc + 1, "hot40");
	if (check_hot(&t))
		return 1;
	for (uint32_t i = 0; i < nc && !a->quick; i++) {
		const struct replay_workload *w = replay_workload_find(capacities[i].workload);
		double want = capacities[i].rps, got;

		replay_progress(done++, n + nc + 1, "capacity %s %s", w->name, capacities[i].policy);
		got = replay_capacity_of(a, w, replay_policy_find(capacities[i].policy));
		replay_progress_end();
		judge(&t, w->name, capacities[i].policy, "capacity", got, want, want * (1 - TOLERANCE),
		      want > 0 ? want * (1 + TOLERANCE) : 20);
	}
	if (!a->json)
		printf("%u figures, %u missed\n", t.checked, t.missed);
	return t.missed > 0;
}
