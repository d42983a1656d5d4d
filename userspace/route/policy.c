/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The policies: from the views of a decision to a pick and its alternates. None writes to the pool. */
#include <math.h>

#include "route/hrw.h"
#include "route/pool_internal.h"

const char *route_policy_name(enum route_policy policy)
{
	static const char *const names[] = {
		[ROUTE_POLICY_COST] = "cost",
		[ROUTE_POLICY_PREFIX_AWARE] = "prefix_aware",
		[ROUTE_POLICY_SESSION] = "session",
		[ROUTE_POLICY_LEAST_REQUEST] = "least_request",
		[ROUTE_POLICY_ROUND_ROBIN] = "round_robin",
		[ROUTE_POLICY_WEIGHTED] = "weighted",
	};

	return (unsigned)policy < sizeof(names) / sizeof(names[0]) ? names[policy] : "unknown";
}

static bool is_ok(const struct decision *d, uint32_t node)
{
	return d->v[node].fit == FIT_OK;
}

/* Place of the node in this round: 0 is next. */
static uint32_t turn_of(const struct route_pool *pool, uint32_t node)
{
	return (node + ROUTE_MAX_NODES - 1 - (uint32_t)(pool->cursor % ROUTE_MAX_NODES)) % ROUTE_MAX_NODES;
}

/* The eligible node of least score; equal scores take turns. */
static void pick_least(const struct route_pool *pool, struct decision *d)
{
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++) {
		if (!is_ok(d, i))
			continue;
		if (d->pick == ROUTE_NO_NODE || d->score[i] < d->score[d->pick] ||
		    (d->score[i] == d->score[d->pick] && turn_of(pool, i) < turn_of(pool, d->pick)))
			d->pick = i;
	}
}

static void score_requests(const struct route_pool *pool, struct decision *d, bool with_others)
{
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++)
		d->score[i] = d->v[i].in_flight + (with_others ? d->v[i].others : 0);
}

/* Among nodes as good as the cheapest the one that has most of the prompt, then
 * the one that the key prefers: at low load conversations stay where they are. */
static void choose_cost(const struct route_pool *pool, struct decision *d)
{
	double least = INFINITY;
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++) {
		d->score[i] = d->v[i].cost.cost_s;
		if (is_ok(d, i) && d->score[i] < least)
			least = d->score[i];
	}
	for (i = 0; i < pool->n_nodes; i++) {
		const struct node_view *v = &d->v[i], *best;

		if (!is_ok(d, i) || !cost_ties(d->score[i], least))
			continue;
		best = d->pick == ROUTE_NO_NODE ? NULL : &d->v[d->pick];
		if (!best || v->match > best->match || (v->match == best->match && v->hrw > best->hrw))
			d->pick = i;
	}
}

/* The HyperPod gateway's six signals, each from 0 to 1 in absolute form: a
 * signal that is relative to the pool's extremes flips between 0 and 1 on
 * differences of one request. Unknown figures count as the best: unknown is not bad. */
static double weighted_score(const struct route_pool *pool, const struct decision *d, uint32_t node)
{
	const struct route_weights *w = &pool->cfg.weights;
	const struct node_view *v = &d->v[node];
	double cap = pool->node[node].cap, total = v->in_flight + v->others;
	double waiting = v->in.known ? v->in.waiting : 0;
	double sum = w->queue + w->kv_cache + w->prefix + w->running_requests + w->lora_affinity +
		     w->predicted_latency;
	double s;

	if (v->in.own_unp > waiting)
		waiting = v->in.own_unp;
	s = w->queue / (1 + waiting);
	s += w->kv_cache * (v->in.kv_used >= 0 ? 1 - v->in.kv_used : 1);
	s += d->tokens > 0 ? w->prefix * fmin(1, v->match / d->tokens) : 0;
	s += w->running_requests * (1 - fmin(1, total / cap));
	s += w->lora_affinity * !v->in.adapter_cold;
	s += w->predicted_latency / (1 + v->cost.ttft_s + v->cost.adapter_s);
	return sum > 0 ? s / sum : 0;
}

static void choose_weighted(const struct route_pool *pool, struct decision *d)
{
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++) {
		if (!is_ok(d, i))
			continue;
		d->score[i] = -weighted_score(pool, d, i);
		if (d->pick == ROUTE_NO_NODE || d->score[i] < d->score[d->pick] - 1e-9 ||
		    (d->score[i] < d->score[d->pick] + 1e-9 && d->v[i].hrw > d->v[d->pick].hrw))
			d->pick = i;
	}
}

/* The serving node that rendezvous hashing gives the key to, also if it is at its cap. */
static uint32_t owner_of(const struct route_pool *pool, const struct decision *d, uint64_t key)
{
	uint32_t i, owner = ROUTE_NO_NODE;
	uint64_t w, most = 0;

	for (i = 0; i < pool->n_nodes; i++) {
		if (d->v[i].fit != FIT_OK && d->v[i].fit != FIT_AT_CAP)
			continue;
		w = hrw_weight(key, pool->node[i].name_hash);
		if (owner == ROUTE_NO_NODE || w > most) {
			owner = i;
			most = w;
		}
	}
	return owner;
}

/* SageMaker's PREFIX_AWARE: the key's own node up to its concurrency threshold, beyond that the least busy. */
static void choose_prefix_aware(const struct route_pool *pool, const struct route_request *req, struct decision *d)
{
	uint32_t owner = req->prefix_key ? owner_of(pool, d, req->prefix_key) : ROUTE_NO_NODE;

	score_requests(pool, d, true);
	if (owner != ROUTE_NO_NODE && is_ok(d, owner)) {
		d->pick = owner;
		return;
	}
	pick_least(pool, d);
	d->overflow = owner != ROUTE_NO_NODE && d->pick != ROUTE_NO_NODE;
}

/* The session's own node; while that is full, the next in the session's own order. */
static void choose_session(const struct route_pool *pool, const struct route_request *req, struct decision *d)
{
	uint32_t owner, i;

	if (!req->placement_key) {
		score_requests(pool, d, false);
		pick_least(pool, d);
		return;
	}
	owner = owner_of(pool, d, req->placement_key);
	for (i = 0; i < pool->n_nodes; i++)
		d->score[i] = -(double)hrw_weight(req->placement_key, pool->node[i].name_hash);
	pick_least(pool, d);
	d->overflow = d->pick != ROUTE_NO_NODE && d->pick != owner;
}

static void choose_round_robin(const struct route_pool *pool, struct decision *d)
{
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++)
		d->score[i] = turn_of(pool, i);
	pick_least(pool, d);
}

/* The next best eligible nodes after the pick, in order of score. */
static void fill_alternates(const struct route_pool *pool, struct decision *d)
{
	uint32_t i, k, n = 0;

	for (i = 0; i < pool->n_nodes; i++) {
		if (!is_ok(d, i) || i == d->pick)
			continue;
		for (k = n; k > 0 && d->score[i] < d->score[d->alternates[k - 1]]; k--)
			if (k < ROUTE_MAX_ALTERNATES)
				d->alternates[k] = d->alternates[k - 1];
		if (k < ROUTE_MAX_ALTERNATES) {
			d->alternates[k] = i;
			if (n < ROUTE_MAX_ALTERNATES)
				n++;
		}
	}
	d->n_alternates = n;
}

void policy_choose(const struct route_pool *pool, const struct route_request *req, struct decision *d)
{
	d->pick = ROUTE_NO_NODE;
	d->overflow = false;
	switch (pool->cfg.policy) {
	case ROUTE_POLICY_COST:
		choose_cost(pool, d);
		break;
	case ROUTE_POLICY_PREFIX_AWARE:
		choose_prefix_aware(pool, req, d);
		break;
	case ROUTE_POLICY_SESSION:
		choose_session(pool, req, d);
		break;
	case ROUTE_POLICY_LEAST_REQUEST:
		score_requests(pool, d, false);
		pick_least(pool, d);
		break;
	case ROUTE_POLICY_ROUND_ROBIN:
		choose_round_robin(pool, d);
		break;
	case ROUTE_POLICY_WEIGHTED:
		choose_weighted(pool, d);
		break;
	}
	fill_alternates(pool, d);
}
