/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "route/cost.h"

#include <math.h>

/* Not fmax() and fmin(): their NaN rules make them calls. */
static double max_d(double a, double b)
{
	return a > b ? a : b;
}

static double min_d(double a, double b)
{
	return a < b ? a : b;
}

double cost_prefill_s(const struct route_profile *p, double tokens, double uncached)
{
	/* Linear work, and attention: each new token looks at all before it. */
	return p->b_s * uncached + p->e_s * uncached * (tokens - uncached / 2);
}

void cost_compute(const struct route_profile *p, const struct cost_node *n, const struct cost_means *means,
		  double tokens, double match, double adapter_load_s, struct cost_terms *out)
{
	double r = n->r, u, pre, credit = 0, credited_share = 0, others = 0, total, w, wt, decoding, step, slot, slots;
	double running, q, queue_s;

	if (tokens < COST_MIN_UNCACHED)
		tokens = COST_MIN_UNCACHED;
	u = max_d(COST_MIN_UNCACHED, tokens - match);
	pre = cost_prefill_s(p, tokens, u);

	/* Work ahead. The oldest of our requests has been worked on for a while; requests that
	 * wait there and are not ours came past us and count by the mean. */
	if (n->has_head && n->head_s > 0) {
		credit = min_d(n->head_s, max_d(0, n->head_running_s) / r);
		credited_share = n->head_tokens * credit / n->head_s;
	}
	total = n->in_flight;
	decoding = n->own_decoding;
	q = n->own_unp;
	slots = p->max_seqs;
	if (n->known) {
		others = max_d(0, (double)n->waiting - n->own_unp_then);
		decoding = max_d(decoding, (double)n->running + n->in_flight - n->own_in_flight_then);
		q = max_d(n->waiting, q);
		total += max_d(0, (double)n->running + n->waiting - n->own_in_flight_then);
		/* Full of KV with a queue: it admits only as others end. */
		if (n->kv_used > 0.9 && n->waiting > 2)
			slots = n->running;
	}
	w = max_d(0, n->work_s - credit) + others * means->prefill_s;
	wt = max_d(0, n->work_tokens - credited_share) + others * means->uncached_tokens;

	/* One decode step of those that decode now. */
	step = p->a_s + p->c_s * decoding + p->d_s * decoding * means->context_tokens;

	/* Waiting for a sequence slot: `total` is who runs or queues there, us last. */
	running = min_d(decoding, slots);
	slot = max_d(0, total + 1 - slots) * means->output_tokens * step / max_d(8, running);

	queue_s = max_d(w + step * ceil((wt + u) / p->batch_tokens), slot);
	out->uncached_tokens = u;
	out->prefill_s = pre;
	out->wait_s = r * queue_s + (decoding > 0 || w > 0 ? r * step / 2 : 0);
	out->ttft_s = out->wait_s + r * pre;
	out->congestion_s = (COST_KAPPA + COST_OMEGA * q) * r * pre;
	out->decode_s = COST_PHI * decoding * r * (pre + means->output_tokens * (p->c_s + p->d_s * tokens));
	out->adapter_s = n->adapter_cold ? adapter_load_s * (1 + COST_KAPPA + COST_ADAPTER_D * decoding) : 0;
	out->extra_s = n->extra_s;
	out->cost_s = out->ttft_s + out->congestion_s + out->decode_s + out->adapter_s + out->extra_s;
}

bool cost_ties(double cost, double least)
{
	return cost <= least + COST_TIE_S + COST_TIE_SHARE * fabs(least);
}
