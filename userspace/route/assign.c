/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Assigning a request: decision, admission and commit under one hold of the pool's lock; and taking it
 * back for a retry. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "route/pool_internal.h"
#include "route/ticket.h"

static double approach(double mean, double value)
{
	return mean + ROUTE_MEAN_WEIGHT * (value - mean);
}

/* The last block that the next turn's chain will repeat. */
static uint32_t last_block_of(const struct route_chain *c)
{
	uint32_t last = c->nblocks - 1;

	while (last && c->flags && c->flags[last] & ROUTE_BLOCK_TRAILER)
		last--;
	return last;
}

static void commit_index(struct route_pool *pool, struct route_ticket *t, const struct node_view *v,
			 uint64_t now_ns)
{
	const struct route_chain *c = &t->req.chain;
	struct route_event ev = { .kind = ROUTE_EVENT_INSERT, .node = t->node, .now_ns = now_ns,
				  .slot = t->slot.slot, .generation = t->slot.generation };
	struct index_insert_result res;

	if (!c->nblocks)
		return;
	t->stamp = index_next_stamp(&pool->index);
	if (v->proven > v->run) {
		/* The turn is there already: real whatever becomes of this request. */
		index_drop_answer(&pool->index, t->node, c->hash[v->run - 1]);
		index_insert(&pool->index, t->node, c->hash, c->bytes, v->proven, t->stamp, true, &res);
		ev.first = v->run;
		ev.count = res.kept > v->run ? res.kept - v->run : 0;
		ev.hash = c->hash + ev.first;
		pool_emit(pool, &ev);
	}
	index_insert(&pool->index, t->node, c->hash, c->bytes, c->nblocks, t->stamp, false, &res);
	t->first_pending = res.first_pending;
	t->kept = res.kept;
	t->last_block = last_block_of(c);
	t->last_hash = c->hash[t->last_block];
	if (res.first_made < res.kept) {
		ev.first = res.first_made;
		ev.count = res.kept - res.first_made;
		ev.hash = c->hash + ev.first;
		pool_emit(pool, &ev);
	}
}

static void commit(struct route_pool *pool, struct route_ticket *t, const struct decision *d, uint16_t adapter)
{
	const struct node_view *v = &d->v[d->pick];
	struct route_node *n = &pool->node[d->pick];
	struct route_event ev = { .kind = ROUTE_EVENT_ASSIGN, .node = d->pick, .now_ns = d->now_ns,
				  .slot = t->slot.slot, .generation = t->slot.generation };

	t->node = d->pick;
	t->row = n->row;
	t->sent_ns = d->now_ns;
	t->speed = n->r;
	/* The far cluster's extra_ms is a price, not the engine's time; an adapter load is time. */
	t->predicted_s = v->cost.ttft_s + (v->in.adapter_cold ? pool->cfg.adapter_load_s : 0);
	t->due_ns = d->now_ns + (uint64_t)(t->predicted_s * 1e9);
	t->est_s = v->cost.prefill_s;
	t->est_tokens = v->cost.uncached_tokens;
	t->tokens = d->tokens;
	t->match0_tokens = v->match0;
	t->match_tokens = (uint32_t)(v->match + 0.5);
	t->prompt_tokens = (uint32_t)(d->tokens + 0.5);
	t->picked_top = d->pick == d->top;
	t->probe = v->probe;
	t->adapter = adapter;
	t->confirmed = t->pi_learned = t->usage_seen = t->answer_known = false;
	t->reported_cached_tokens = ROUTE_TOKENS_UNKNOWN;
	route_nodeset_add(&t->tried, d->pick);

	commit_index(pool, t, v, d->now_ns);
	node_unp_add(n, t);
	n->tickets++;
	adapter_touch(&n->adapters, adapter);
	if (v->probe)
		health_probe_begin(&n->health, d->now_ns);
	pool->means.prefill_s = approach(pool->means.prefill_s, t->est_s);
	pool->means.uncached_tokens = approach(pool->means.uncached_tokens, t->est_tokens);
	pool->cursor = d->pick;
	pool->picks++;
	pool->assigned++;
	node_row(pool, n)->requests++;
	ev.tokens = t->prompt_tokens;
	ev.match_tokens = t->match_tokens;
	if (t->req.chain.nblocks) {
		ev.hash = t->req.chain.hash;
		ev.bytes = t->req.chain.bytes;
		ev.count = t->last_block + 1;
		ev.first = v->run < ev.count ? v->run : ev.count;
	}
	pool_emit(pool, &ev);
}

static void fill_plan(const struct route_pool *pool, const struct decision *d, const struct route_ticket *t,
		      struct route_plan *plan)
{
	const struct node_view *v = &d->v[d->pick];
	uint32_t i;

	memset(plan, 0, sizeof(*plan));
	plan->node = d->pick;
	plan->row = t->row;
	plan->epoch = pool->node[d->pick].epoch;
	plan->name = pool->node[d->pick].name;
	plan->match_tokens = t->match_tokens;
	plan->prompt_tokens = t->prompt_tokens;
	plan->wait_ms = v->cost.wait_s * 1e3;
	plan->prefill_ms = v->in.r * v->cost.prefill_s * 1e3;
	plan->ttft_ms = v->cost.ttft_s * 1e3;
	plan->cost_ms = v->cost.cost_s * 1e3;
	plan->overflow = d->overflow;
	plan->probe = v->probe;
	plan->n_alternates = d->n_alternates;
	for (i = 0; i < d->n_alternates; i++) {
		plan->alternates[i] = d->alternates[i];
		plan->alternate_rows[i] = pool->node[d->alternates[i]].row;
	}
}

/* Chooses and gets the slot: by a take, or for a retry by moving the one there is. */
static int admit(struct route_pool *pool, struct route_ticket *t, struct decision *d, bool move)
{
	const struct route_node *n;
	struct node_view *v;
	uint32_t limit, elsewhere;
	int rc;

	for (;;) {
		policy_choose(pool, &t->req, d);
		if (d->pick == ROUTE_NO_NODE)
			return d->n_serving ? -EAGAIN : -EHOSTUNREACH;
		n = &pool->node[d->pick];
		v = &d->v[d->pick];
		elsewhere = v->others + n->peer_in_flight;
		limit = n->cap > elsewhere ? n->cap - elsewhere : 0;
		rc = move ? ledger_move(pool->ledger, t->slot, n->row, limit) :
			    ledger_take(pool->ledger, t->req.worker, n->row, limit, d->now_ns, &t->slot);
		if (rc != -EAGAIN)
			return rc;
		/* Taken by somebody beside this lock (a program in the kernel): another node. */
		v->fit = FIT_AT_CAP;
		d->n_eligible--;
	}
}

static void count_refusal(struct route_pool *pool, int rc)
{
	if (rc == -EAGAIN)
		pool->refused_at_cap++;
	else
		pool->refused_no_node++;
}

static void settle_all(struct route_pool *pool, uint64_t now_ns)
{
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++)
		if (pool->node[i].presence != NODE_UNUSED)
			node_settle(&pool->node[i], now_ns);
	index_sweep(&pool->index, ROUTE_SWEEP_BUDGET);
}

int route_assign(struct route_pool *pool, const struct route_request *req, uint64_t now_ns,
		 struct route_ticket *t, struct route_plan *plan)
{
	struct decision d;
	uint16_t adapter;
	int rc;

	assert(t->state == ROUTE_TICKET_NONE || t->state == ROUTE_TICKET_ENDED);
	memset(t, 0, sizeof(*t));
	t->req = *req;
	t->node = ROUTE_NO_NODE;
	t->slot = LEDGER_REF_NONE;
	pool_lock(pool);
	settle_all(pool, now_ns);
	adapter = adapter_id(&pool->adapter_names, req->adapter);
	decide_scan(pool, &t->req, NULL, now_ns, adapter, &d);
	rc = admit(pool, t, &d, false);
	if (rc < 0) {
		count_refusal(pool, rc);
		pool_unlock(pool);
		return rc;
	}
	heat_add(&pool->heat, req->chain.hash, req->chain.nblocks, now_ns);
	commit(pool, t, &d, adapter);
	fill_plan(pool, &d, t, plan);
	t->req.adapter = NULL; /* the caller's string need not outlive the call; the number is kept */
	pool_unlock(pool);
	return 0;
}

void ticket_leave_node(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, bool keep_index)
{
	struct route_event ev = { .kind = ROUTE_EVENT_DROP, .node = t->node, .now_ns = now_ns,
				  .slot = t->slot.slot, .generation = t->slot.generation };
	struct route_node *n = &pool->node[t->node];
	const struct route_chain *c = &t->req.chain;

	if (t->state == ROUTE_TICKET_DECODE)
		n->own_decoding--;
	else
		node_unp_remove(n, t);
	n->tickets--;
	if (t->probe)
		health_probe_end(&n->health);
	if (!c->nblocks || t->confirmed)
		return;
	if (keep_index) {
		index_confirm(&pool->index, t->node, c->hash, t->kept, t->first_pending, t->stamp);
		return;
	}
	ev.count = index_retract(&pool->index, t->node, c->hash, t->kept, t->first_pending, t->stamp);
	if (ev.count) {
		ev.first = t->kept - ev.count;
		ev.hash = c->hash + ev.first;
		pool_emit(pool, &ev);
	}
}

int route_retry(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, struct route_plan *plan)
{
	struct decision d;
	uint32_t old;
	int rc;

	/* Under the lock: a later request's first token may have moved the ticket on. */
	pool_lock(pool);
	assert(t->state == ROUTE_TICKET_PREFILL || t->state == ROUTE_TICKET_DECODE);
	old = t->node;
	settle_all(pool, now_ns);
	ticket_leave_node(pool, t, now_ns, false);
	t->state = ROUTE_TICKET_NONE;
	decide_scan(pool, &t->req, &t->tried, now_ns, t->adapter, &d);
	rc = admit(pool, t, &d, true);
	if (rc < 0) {
		count_refusal(pool, rc);
		ledger_release(pool->ledger, t->slot);
		t->state = ROUTE_TICKET_ENDED;
		t->node = ROUTE_NO_NODE;
	} else {
		t->retries++;
		pool->retries++;
		commit(pool, t, &d, t->adapter);
		fill_plan(pool, &d, t, plan);
	}
	node_reap(pool, old);
	pool_unlock(pool);
	return rc;
}
