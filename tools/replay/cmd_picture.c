/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* TTFT p50 and p99 against rate, a line for each policy. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "replay/ask.h"
#include "replay/must.h"
#include "replay/svg.h"

#define POINTS 14
#define REACH 1.8       /* of the workload's rate */
#define LOST_S 30.0     /* p99 above this: the line ends */
#define PICTURE_MAX_S 100.0

static double round_step(double span)
{
	double step = pow(10, floor(log10(span / 5)));

	return span / step > 20 ? step * 5 : span / step > 10 ? step * 2 : step;
}

static void add_point(struct svg_line *l, double x, double y)
{
	l->x[l->n] = x;
	l->y[l->n++] = y;
}

static int trace_lines(const struct replay_ask *a, const struct replay_workload *w, struct svg_panel *panel)
{
	for (uint32_t p = 0; p < a->policies && p < SVG_LINES_MAX; p++) {
		for (uint32_t i = 1; i <= POINTS; i++) {
			struct replay_run r = replay_ask_run(a, w, a->policy[p]);
			struct replay_figures f;

			r.rate = w->rate * REACH * i / POINTS;
			replay_progress(p * POINTS + i - 1, a->policies * POINTS, "%s %s %.0f/s", w->name, r.policy->name,
					r.rate);
			if (replay_run(&r, &f) < 0)
				return 1;
			add_point(&panel[0].line[p], r.rate, f.ttft_p50_s);
			add_point(&panel[1].line[p], r.rate, f.ttft_p99_s);
			if (f.ttft_p99_s > LOST_S)
				break;
		}
		panel[0].line[p].name = panel[1].line[p].name = a->policy[p]->name;
		panel[0].lines = panel[1].lines = p + 1;
	}
	replay_progress_end();
	return 0;
}

int replay_do_picture(struct replay_ask *a)
{
	static const char *const policies[] = { "round_robin", "least_request", "chwbl", "sglang_cache_aware", "gie_322",
						"cost", "pool", NULL };
	static const char *const workloads[] = { "support", NULL };
	struct svg_panel *panel = must_calloc(2, sizeof(*panel));
	const struct replay_workload *w;
	char title[128], note[200];
	FILE *f = stdout;
	int rc;

	replay_ask_defaults(a, policies, workloads);
	w = a->workload[0];
	for (int k = 0; k < 2; k++) {
		panel[k].title = k ? "TTFT p99" : "TTFT p50";
		panel[k].x_label = "requests per second, 7 nodes";
		panel[k].y_label = "seconds";
		panel[k].x_max = w->rate * REACH;
		panel[k].x_step = round_step(panel[k].x_max);
		panel[k].y_min = 0.01;
		panel[k].y_max = PICTURE_MAX_S;
	}
	rc = trace_lines(a, w, panel);
	if (!rc && a->out) {
		f = fopen(a->out, "we");
		if (!f) {
			fprintf(stderr, "kvsteer-replay: %s: %s\n", a->out, strerror(errno));
			rc = 1;
		}
	}
	if (!rc) {
		snprintf(title, sizeof(title), "Time to first token under load: workload %s", w->name);
		snprintf(note, sizeof(note), "Simulated: kvsteer-replay picture --workload %s --seed %llu; cold start, "
			 "%.0f s not measured; a line ends where p99 is above %.0f s", w->name, (unsigned long long)a->seed,
			 a->warmup > 0 ? a->warmup : w->warmup_s, LOST_S);
		replay_svg_write(f, title, note, panel, 2);
		if (f != stdout && fclose(f)) {
			fprintf(stderr, "kvsteer-replay: %s: %s\n", a->out, strerror(errno));
			rc = 1;
		}
	}
	free(panel);
	return rc;
}
