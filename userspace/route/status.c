/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What operators see of a pool: a decision explained without being made, status, invariants. */
#include <string.h>

#include "route/pool_internal.h"

#define ADAPTER_STRANGER 0xfffeu /* a name that no node can have loaded */

static const char *fit_name(uint8_t fit)
{
	switch (fit) {
	case FIT_OK:
		return "ok";
	case FIT_DRAINING:
		return "draining";
	case FIT_AVOIDED:
		return "avoided";
	case FIT_EXCLUDED:
		return "excluded";
	case FIT_BUSY:
		return "busy";
	case FIT_AT_CAP:
		return "at_cap";
	case FIT_UNRESOLVED:
		return "unresolved";
	}
	return "absent";
}

uint32_t route_explain(struct route_pool *pool, const struct route_request *req, uint64_t now_ns,
		       struct route_explain_row *rows, uint32_t n, uint32_t *tokens)
{
	struct decision d;
	uint16_t adapter;
	uint32_t i, k = 0;

	pool_lock(pool);
	adapter = adapter_find(&pool->adapter_names, req->adapter);
	if (req->adapter && adapter == ADAPTER_NONE)
		adapter = ADAPTER_STRANGER;
	decide_scan(pool, req, NULL, now_ns, adapter, &d);
	policy_choose(pool, req, &d);
	for (i = 0; i < pool->n_nodes && k < n; i++) {
		const struct node_view *v = &d.v[i];
		struct route_explain_row *r = &rows[k];

		if (v->fit == FIT_ABSENT)
			continue;
		memset(r, 0, sizeof(*r));
		memcpy(r->name, pool->node[i].name, sizeof(r->name));
		r->node = i;
		r->row = pool->node[i].row;
		r->eligible = v->fit == FIT_OK;
		r->last_resort = r->eligible && v->last_resort;
		r->why = fit_name(v->last_resort && r->eligible ? FIT_EXCLUDED : v->fit);
		r->match_tokens = (uint32_t)(v->match + 0.5);
		r->wait_ms = v->cost.wait_s * 1e3;
		r->prefill_ms = v->in.r * v->cost.prefill_s * 1e3;
		r->ttft_ms = v->cost.ttft_s * 1e3;
		r->congestion_ms = v->cost.congestion_s * 1e3;
		r->decode_ms = v->cost.decode_s * 1e3;
		r->adapter_ms = v->cost.adapter_s * 1e3;
		r->cost_ms = v->cost.cost_s * 1e3;
		r->chosen = i == d.pick;
		k++;
	}
	if (tokens)
		*tokens = (uint32_t)(d.tokens + 0.5);
	pool_unlock(pool);
	return k;
}

static void fill_backend(struct route_pool *pool, uint32_t i, const struct node_view *v, uint64_t now_ns,
			 struct route_backend_status *s)
{
	const struct route_node *n = &pool->node[i];
	const struct backend_row *r = node_row(pool, n);
	bool dirty = index_node_dirty(&pool->index, i);

	node_publish(pool, i, now_ns);
	memset(s, 0, sizeof(*s));
	memcpy(s->name, n->name, sizeof(s->name));
	memcpy(s->address, n->address, sizeof(s->address));
	s->node = i;
	s->row = n->row;
	s->state = r->state;
	s->epoch = n->epoch;
	s->cap = n->cap;
	s->in_flight = ledger_in_flight(pool->ledger, n->row);
	s->waiting = r->waiting;
	s->running = r->running;
	s->kv_used = r->kv_permille == BACKEND_UNKNOWN ? -1 : n->snap.kv_used;
	s->stale = r->stale;
	s->speed = n->r;
	s->unp = n->n_unp;
	s->work_s = n->work_s;
	s->wait_s = v->cost.wait_s;
	s->index_blocks = r->index_blocks;
	s->index_bytes = dirty ? 0 : index_node_bytes(&pool->index, i);
	s->index_capacity_bytes = index_node_capacity(&pool->index, i);
	s->excluded_for_ns = n->health.until_ns > now_ns ? n->health.until_ns - now_ns : 0;
	s->requests = r->requests;
	s->prompt_tokens = r->prompt_tokens;
	s->hit_predicted_tokens = r->hit_predicted_tokens;
	s->hit_reported_tokens = r->hit_reported_tokens;
	s->sampled_prompt_tokens = r->sampled_prompt_tokens;
}

/* Predicted wait of a mean request on the best node over the target: what an
 * autoscaler should act on. With every serving node at its cap at least 1. */
static double saturation_of(const struct route_pool *pool, const struct decision *d)
{
	double least = -1, s;
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++) {
		const struct node_view *v = &d->v[i];

		if (v->fit != FIT_OK && v->fit != FIT_AT_CAP)
			continue;
		if (d->n_eligible && v->fit != FIT_OK)
			continue;
		/* The step under way is no queue: an idle node's wait is one step. */
		s = v->cost.wait_s - v->in.r * 1.5 * pool->cfg.profile.a_s;
		if (least < 0 || s < least)
			least = s > 0 ? s : 0;
	}
	if (least < 0)
		return 0;
	s = least / pool->cfg.wait_target_s;
	return d->n_eligible || s > 1 ? s : 1;
}

uint32_t route_pool_status(struct route_pool *pool, uint64_t now_ns, struct route_pool_status *ps,
			   struct route_backend_status *rows, uint32_t n)
{
	struct route_request mean = { .class_id = 0 };
	struct decision d;
	uint32_t i, k = 0;

	pool_lock(pool);
	for (i = 0; i < pool->n_nodes; i++)
		if (pool->node[i].presence != NODE_UNUSED)
			node_settle(&pool->node[i], now_ns);
	mean.chain.total_bytes = (uint64_t)(pool->means.uncached_tokens * pool_bytes_per_token(pool));
	decide_scan(pool, &mean, NULL, now_ns, ADAPTER_NONE, &d);
	for (i = 0; i < pool->n_nodes && k < n; i++)
		if (pool->node[i].presence != NODE_UNUSED)
			fill_backend(pool, i, &d.v[i], now_ns, &rows[k++]);
	if (ps) {
		memset(ps, 0, sizeof(*ps));
		ps->policy = pool->cfg.policy;
		for (i = 0; i < pool->n_nodes; i++)
			ps->n_backends += pool->node[i].presence == NODE_PRESENT;
		ps->n_eligible = d.last_resort ? 0 : d.n_eligible;
		ps->last_resort = d.last_resort;
		ps->saturation = saturation_of(pool, &d);
		ps->bytes_per_token = pool_bytes_per_token(pool);
		ps->pi[0] = pool->pi[0];
		ps->pi[1] = pool->pi[1];
		ps->mean_prefill_s = pool->means.prefill_s;
		ps->mean_uncached_tokens = pool->means.uncached_tokens;
		ps->mean_output_tokens = pool->means.output_tokens;
		ps->mean_context_tokens = pool->means.context_tokens;
		ps->index_blocks = index_total_blocks(&pool->index);
		ps->index_pairs = index_total_pairs(&pool->index);
		ps->index_memory_bytes = pool->index_lent ? 0 : pool->index_mem_bytes;
		ps->index_evictions = index_evictions(&pool->index);
		ps->assigned = pool->assigned;
		ps->refused_at_cap = pool->refused_at_cap;
		ps->refused_no_node = pool->refused_no_node;
		ps->retries = pool->retries;
	}
	pool_unlock(pool);
	return k;
}

uint32_t route_pool_health(struct route_pool *pool, uint64_t now_ns, struct route_health_row *rows, uint32_t n)
{
	uint32_t i, k = 0;

	pool_lock(pool);
	for (i = 0; i < pool->n_nodes && k < n; i++) {
		const struct route_node *node = &pool->node[i];
		struct route_health_row *r = &rows[k];

		if (node->presence != NODE_PRESENT)
			continue;
		memcpy(r->name, node->name, sizeof(r->name));
		r->row = node->row;
		r->state = node_state(node, now_ns);
		r->stale = node->snap.seen && !node_snapshot_fresh(pool, node, now_ns);
		r->excluded_until_ns = node->health.until_ns;
		r->excluded_ns = node->health.excluded_ns;
		r->why = route_result_name(node->health.why);
		k++;
	}
	pool_unlock(pool);
	return k;
}

uint32_t route_check_invariants(struct route_pool *pool)
{
	uint32_t live[BACKENDS_MAX_ROWS] = { 0 }, i, bad = 0;

	pool_lock(pool);
	ledger_count_rows(pool->ledger, live);
	for (i = 0; i < pool->n_nodes; i++) {
		const struct route_node *n = &pool->node[i];

		if (n->presence != NODE_UNUSED && live[n->row] != ledger_in_flight(pool->ledger, n->row))
			bad++;
	}
	pool_unlock(pool);
	return bad;
}
