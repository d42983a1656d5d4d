/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a decision looks at: eligibility, matches and predicted cost of every node for one request. */
#include <string.h>

#include "route/hrw.h"
#include "route/pool_internal.h"

/* Bytes of leading runs. Runs have few distinct values: the last sum is kept. */
struct run_bytes {
	const struct route_chain *chain;
	uint32_t run;
	uint64_t bytes;
};

static uint64_t bytes_of_run(struct run_bytes *rb, uint32_t run)
{
	uint64_t sum = 0;
	uint32_t i;

	if (run < rb->run) {
		rb->run = 0;
		rb->bytes = 0;
	}
	for (i = rb->run; i < run; i++)
		sum += rb->chain->bytes[i];
	rb->bytes += sum;
	rb->run = run;
	return rb->bytes;
}

/* The first block hash that lies deeper than 64 tokens and is not shared by a large part of
 * the traffic, else the last one: skips a system prompt that everybody has. */
static uint64_t placement_key(const struct route_pool *pool, const struct route_request *req, uint64_t now_ns)
{
	const struct route_chain *c = &req->chain;
	double deep = ROUTE_KEY_MIN_TOKENS * pool_bytes_per_token(pool);
	uint64_t bytes = 0;
	uint32_t i;

	if (req->placement_key)
		return req->placement_key;
	if (!c->nblocks) /* nothing to be affine to: equal nodes take turns */
		return pool->picks * 0x9e3779b97f4a7c15ull;
	for (i = 0; i < c->nblocks; i++) {
		bytes += c->bytes[i];
		if ((double)bytes <= deep)
			continue;
		if (i >= HEAT_BLOCKS || heat_share(&pool->heat, c->hash[i], now_ns) < HEAT_HOT_SHARE)
			return c->hash[i];
	}
	return c->hash[c->nblocks - 1];
}

/* Where an answer's bytes were not read, the next prompt of the conversation proves them: the
 * node served exactly the prompt that ends before block `run`, and an assistant turn follows.
 * Returns the end of that turn, or `run`. */
static uint32_t proven_turn(const struct route_pool *pool, uint32_t node, const struct route_chain *c, uint32_t run)
{
	uint32_t end = run;

	if (!run || run >= c->nblocks || !c->flags || !(c->flags[run] & ROUTE_BLOCK_ASSISTANT))
		return run;
	if (!index_answer_bytes(&pool->index, node, c->hash[run - 1]))
		return run;
	do
		end++;
	while (end < c->nblocks && c->flags[end] & ROUTE_BLOCK_ASSISTANT &&
	       !(c->flags[end] & ROUTE_BLOCK_MESSAGE_START));
	return end;
}

static enum node_fit fit_of(const struct route_pool *pool, uint32_t node, const struct route_nodeset *avoid,
			    const struct route_nodeset *avoid2, enum health_verdict health, uint64_t now_ns)
{
	const struct route_node *n = &pool->node[node];

	if (n->presence != NODE_PRESENT)
		return FIT_ABSENT;
	if (n->drain)
		return FIT_DRAINING;
	if (n->unresolved)
		return FIT_UNRESOLVED;
	if (route_nodeset_has(avoid, node) || (avoid2 && route_nodeset_has(avoid2, node)))
		return FIT_AVOIDED;
	if (health == HEALTH_EXCLUDED)
		return FIT_EXCLUDED;
	return health_busy(&n->health, now_ns) ? FIT_BUSY : FIT_OK;
}

/* Below its cap; what passes by this gateway counts while the snapshot is fresh. */
static bool below_cap(const struct route_node *n, const struct node_view *v)
{
	return (uint64_t)v->in_flight + v->others < n->cap;
}

static void scan_eligible(struct route_pool *pool, const struct route_request *req,
			  const struct route_nodeset *avoid, struct decision *d)
{
	bool any_ok = false, any_busy = false;
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++) {
		const struct route_node *n = &pool->node[i];
		enum health_verdict health = health_check(&n->health, d->now_ns);
		struct node_view *v = &d->v[i];
		bool fresh = node_snapshot_fresh(pool, n, d->now_ns) && n->snap.load_known;
		int64_t others = 0;

		v->fit = fit_of(pool, i, &req->avoid, avoid, health, d->now_ns);
		if (v->fit == FIT_ABSENT)
			continue;
		v->probe = v->fit == FIT_OK && health == HEALTH_PROBE;
		v->in_flight = ledger_in_flight(pool->ledger, n->row) + n->peer_in_flight;
		if (fresh)
			others = (int64_t)n->snap.running + n->snap.waiting - n->snap.own_in_flight;
		v->others = others > 0 ? (uint32_t)others : 0;
		v->in.known = fresh;
		any_ok |= v->fit == FIT_OK;
		any_busy |= v->fit == FIT_BUSY;
	}
	for (i = 0; i < pool->n_nodes; i++) {
		struct node_view *v = &d->v[i];

		/* Nothing of this empties a pool: a node that may have room beats none, and then one that may work. */
		if (!any_ok && v->fit == (any_busy ? FIT_BUSY : FIT_EXCLUDED)) {
			v->last_resort = v->fit == FIT_EXCLUDED;
			d->last_resort |= v->last_resort;
			v->fit = FIT_OK;
		}
		if (v->fit != FIT_OK)
			continue;
		d->n_serving++;
		if (below_cap(&pool->node[i], v))
			d->n_eligible++;
		else
			v->fit = FIT_AT_CAP;
	}
}

static void view_cost(const struct route_pool *pool, uint32_t node, uint16_t adapter, struct decision *d)
{
	const struct route_node *n = &pool->node[node];
	struct node_view *v = &d->v[node];
	struct cost_node *in = &v->in;
	uint64_t since;

	in->r = n->r;
	in->work_s = n->work_s;
	in->work_tokens = n->work_tokens;
	in->own_unp = n->n_unp;
	in->own_decoding = n->own_decoding;
	in->in_flight = v->in_flight;
	in->has_head = n->unp_head != NULL;
	if (in->has_head) {
		since = n->unp_head->sent_ns > n->last_first_ns ? n->unp_head->sent_ns : n->last_first_ns;
		in->head_s = n->unp_head->est_s;
		in->head_tokens = n->unp_head->est_tokens;
		in->head_running_s = d->now_ns > since ? (double)(d->now_ns - since) * 1e-9 : 0;
	}
	in->waiting = n->snap.waiting;
	in->running = n->snap.running;
	in->kv_used = in->known ? n->snap.kv_used : -1;
	in->own_in_flight_then = n->snap.own_in_flight;
	in->own_unp_then = n->snap.own_unp;
	in->extra_s = n->extra_s;
	in->adapter_cold = !adapter_resident(&n->adapters, adapter);
	cost_compute(&pool->cfg.profile, in, &pool->means, d->tokens, v->match, pool->cfg.adapter_load_s, &v->cost);
}

void decide_scan(struct route_pool *pool, const struct route_request *req, const struct route_nodeset *avoid,
		 uint64_t now_ns, uint16_t adapter, struct decision *d)
{
	double per_byte = 1 / pool_bytes_per_token(pool);
	struct run_bytes rb = { &req->chain, 0, 0 };
	uint32_t run[INDEX_MAX_NODES], i;

	memset(d, 0, offsetof(struct decision, score));
	memset(d->v, 0, pool->n_nodes * sizeof(d->v[0]));
	d->now_ns = now_ns;
	d->top = d->pick = ROUTE_NO_NODE;
	d->tokens = (double)req->chain.total_bytes * per_byte;
	d->key = placement_key(pool, req, now_ns);
	scan_eligible(pool, req, avoid, d);
	index_match(&pool->index, req->chain.hash, req->chain.nblocks, run);
	for (i = 0; i < pool->n_nodes; i++) {
		struct node_view *v = &d->v[i];

		if (v->fit == FIT_ABSENT)
			continue;
		v->run = run[i];
		v->proven = proven_turn(pool, i, &req->chain, run[i]);
		v->match0 = v->match = v->proven ? (double)bytes_of_run(&rb, v->proven) * per_byte : 0;
		v->hrw = hrw_weight(d->key, pool->node[i].name_hash);
		/* Places of the key are the serving nodes, also those at their cap just now. */
		if ((v->fit == FIT_OK || v->fit == FIT_AT_CAP) &&
		    (d->top == ROUTE_NO_NODE || v->hrw > d->v[d->top].hrw))
			d->top = i;
	}
	/* What other gateways and former times put there and this index does not know. */
	if (d->top != ROUTE_NO_NODE && req->chain.nblocks) {
		struct node_view *v = &d->v[d->top];

		v->match += pool->pi[req->class_id & 1] * (d->tokens - v->match0);
	}
	for (i = 0; i < pool->n_nodes; i++)
		if (d->v[i].fit != FIT_ABSENT)
			view_cost(pool, i, adapter, d);
}
