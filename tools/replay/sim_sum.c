/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <math.h>

#include "replay/sim_impl.h"

/* Requests without first token or end count with the time that they have waited at least. */
static void count_unfinished(struct sim *s, uint64_t now)
{
	for (uint32_t i = 0; i < s->reqs; i++) {
		const struct replay_request *q = s->req[i];
		double waited = (double)(now - q->at_ns) * 1e-9;

		if (!q->talk || !q->measured)
			continue;
		replay_series_add(&s->e2e, waited);
		if (!q->first) {
			replay_series_add(&s->ttft, waited);
			s->late += s->r->limit_s > 0 && waited > s->r->limit_s;
		}
	}
}

void sim_sum_up(struct sim *s, uint64_t now, struct replay_figures *out)
{
	double busy, most = 0, sum = 0;

	count_unfinished(s, now);
	out->requests = s->measured;
	out->unfinished = s->measured - s->ended;
	out->hit = s->prompt_tokens ? (double)s->cached_tokens / (double)s->prompt_tokens : NAN;
	out->ttft_p50_s = replay_series_quantile(&s->ttft, .5);
	out->ttft_p90_s = replay_series_quantile(&s->ttft, .9);
	out->ttft_p99_s = replay_series_quantile(&s->ttft, .99);
	out->e2e_p50_s = replay_series_quantile(&s->e2e, .5);
	out->itl_p50_s = replay_series_quantile(&s->itl, .5);
	out->rate_rps = (double)s->done_in_window / ((double)(s->end_ns - s->measure_ns) * 1e-9);
	out->late = s->measured ? (double)s->late / (double)s->measured : NAN;
	for (uint32_t i = 0; i < s->f.nodes; i++) {
		struct node_stats st;

		node_read_stats(s->f.node[i], &st);
		busy = (double)(st.busy_ns - s->busy_ns[i]);
		sum += busy;
		most = busy > most ? busy : most;
		out->preempted += st.preempted;
		out->adapter_loads += st.adapter_loads;
	}
	out->busy_max_over_mean = sum > 0 ? most * s->f.nodes / sum : NAN;
}
