/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One backend of a pool: the work that was sent there, its speed, its health, what its engine reports. */
#include <errno.h>
#include <string.h>

#include "route/pool_internal.h"

void node_init(struct route_pool *pool, struct route_node *n)
{
	uint32_t speed = node_row(pool, n)->speed_permille;

	n->next_due_ns = UINT64_MAX;
	n->snap.kv_used = -1;
	/* What a former process learned about this backend goes on, with the weight of a start. */
	n->r = speed ? speed / 1000.0 : 1.0;
	n->r = n->r < COST_R_MIN ? COST_R_MIN : n->r > COST_R_MAX ? COST_R_MAX : n->r;
	n->r_den = 2;
	n->r_num = 2 * n->r;
	adapter_set_slots(&n->adapters, pool->cfg.adapter_slots);
}

bool node_snapshot_fresh(const struct route_pool *pool, const struct route_node *n, uint64_t now_ns)
{
	return n->snap.seen && (now_ns <= n->snap.when_ns || now_ns - n->snap.when_ns <= pool->cfg.stale_ns);
}

/* ---- own requests without first token ------------------------------------------ */

void node_unp_add(struct route_node *n, struct route_ticket *t)
{
	t->prev = n->unp_tail;
	t->next = NULL;
	if (n->unp_tail)
		n->unp_tail->next = t;
	else
		n->unp_head = t;
	n->unp_tail = t;
	n->n_unp++;
	n->work_s += t->est_s;
	n->work_tokens += t->est_tokens;
	t->state = ROUTE_TICKET_PREFILL;
	if (!t->req.first_token_visible && t->due_ns < n->next_due_ns)
		n->next_due_ns = t->due_ns;
}

void node_unp_remove(struct route_node *n, struct route_ticket *t)
{
	if (t->state != ROUTE_TICKET_PREFILL)
		return;
	if (t->prev)
		t->prev->next = t->next;
	else
		n->unp_head = t->next;
	if (t->next)
		t->next->prev = t->prev;
	else
		n->unp_tail = t->prev;
	t->prev = t->next = NULL;
	n->work_s -= t->est_s;
	n->work_tokens -= t->est_tokens;
	/* Sums of doubles drift; the empty queue is exact. */
	if (!--n->n_unp)
		n->work_s = n->work_tokens = 0;
}

void node_start_decode(struct route_node *n, struct route_ticket *t)
{
	node_unp_remove(n, t);
	t->state = ROUTE_TICKET_DECODE;
	n->own_decoding++;
}

void node_settle(struct route_node *n, uint64_t now_ns)
{
	struct route_ticket *t, *next;

	if (now_ns < n->next_due_ns)
		return;
	n->next_due_ns = UINT64_MAX;
	for (t = n->unp_head; t; t = next) {
		next = t->next;
		if (t->req.first_token_visible)
			continue;
		if (t->due_ns <= now_ns) {
			/* The engine began with the next one about then. */
			if (t->due_ns > n->last_first_ns)
				n->last_first_ns = t->due_ns;
			node_start_decode(n, t);
		} else if (t->due_ns < n->next_due_ns) {
			n->next_due_ns = t->due_ns;
		}
	}
}

void node_settle_before(struct route_node *n, const struct route_ticket *t)
{
	struct route_ticket *u, *next;

	for (u = n->unp_head; u && u != t; u = next) {
		next = u->next;
		if (!u->req.first_token_visible)
			node_start_decode(n, u);
	}
}

void node_learn_speed(struct route_pool *pool, struct route_node *n, double observed_s, double predicted_base_s)
{
	n->r_num = ROUTE_R_DECAY * n->r_num + observed_s;
	n->r_den = ROUTE_R_DECAY * n->r_den + predicted_base_s;
	n->r = n->r_num / n->r_den;
	n->r = n->r < COST_R_MIN ? COST_R_MIN : n->r > COST_R_MAX ? COST_R_MAX : n->r;
	node_row(pool, n)->speed_permille = (uint32_t)(n->r * 1000 + 0.5);
}

/* ---- cache ------------------------------------------------------------------------ */

void node_set_capacity(struct route_pool *pool, uint32_t node)
{
	struct route_node *n = &pool->node[node];
	uint64_t tokens = n->kv_tokens ? n->kv_tokens : pool->cfg.kv_tokens;

	index_set_capacity(&pool->index, node, (uint64_t)((double)tokens * pool_bytes_per_token(pool)));
}

void node_forget(struct route_pool *pool, uint32_t node, uint64_t now_ns)
{
	struct route_node *n = &pool->node[node];
	struct route_event ev = { .kind = ROUTE_EVENT_FORGET, .node = node, .now_ns = now_ns };

	index_forget_node(&pool->index, node);
	n->adapters.n = 0;
	n->epoch = ++node_row(pool, n)->epoch;
	pool_emit(pool, &ev);
}

/* ---- what others read ----------------------------------------------------------------- */

uint32_t node_state(const struct route_node *n, uint64_t now_ns)
{
	if (n->presence == NODE_LEAVING)
		return BACKEND_GONE;
	if (n->drain)
		return BACKEND_DRAINING;
	if (n->unresolved)
		return BACKEND_UNRESOLVED;
	if (!n->health.until_ns)
		return BACKEND_READY;
	/* by time, not by traffic: without requests nothing else would end what is said here */
	return now_ns < n->health.until_ns ? BACKEND_EXCLUDED : BACKEND_PROBING;
}

void node_publish(struct route_pool *pool, uint32_t node, uint64_t now_ns)
{
	struct route_node *n = &pool->node[node];
	struct backend_row *r = node_row(pool, n);
	bool fresh = node_snapshot_fresh(pool, n, now_ns);

	r->state = node_state(n, now_ns);
	r->cap = n->cap;
	r->stale = n->snap.seen && !fresh;
	r->waiting = fresh && n->snap.load_known ? n->snap.waiting : BACKEND_UNKNOWN;
	r->running = fresh && n->snap.load_known ? n->snap.running : BACKEND_UNKNOWN;
	r->kv_permille = fresh && n->snap.kv_used >= 0 ? (uint32_t)(n->snap.kv_used * 1000 + 0.5) : BACKEND_UNKNOWN;
	r->snapshot_ns = n->snap.seen ? n->snap.when_ns : 0;
	r->excluded_until_ns = n->health.until_ns;
	r->index_blocks = index_node_dirty(&pool->index, node) ? 0 : index_node_blocks(&pool->index, node);
}

bool node_reap(struct route_pool *pool, uint32_t node)
{
	struct route_node *n = &pool->node[node];

	if (n->presence != NODE_LEAVING || n->tickets || index_node_dirty(&pool->index, node) ||
	    ledger_row_free(pool->ledger, n->row) < 0)
		return false;
	index_set_node_name(&pool->index, node, 0);
	memset(n, 0, sizeof(*n));
	while (pool->n_nodes && pool->node[pool->n_nodes - 1].presence == NODE_UNUSED)
		pool->n_nodes--;
	return true;
}

/* ---- public: results and snapshots --------------------------------------------------- */

void route_node_result(struct route_pool *pool, uint32_t node, enum route_result result, uint64_t now_ns)
{
	pool_lock(pool);
	if (node < pool->n_nodes && pool->node[node].presence == NODE_PRESENT) {
		health_result(&pool->node[node].health, result, now_ns);
		node_publish(pool, node, now_ns);
	}
	pool_unlock(pool);
}

int route_snapshot(struct route_pool *pool, uint32_t node, const struct route_snapshot_in *in, uint64_t now_ns)
{
	struct route_event ev = { .kind = ROUTE_EVENT_SNAPSHOT, .node = node, .now_ns = now_ns,
				  .waiting = in->waiting, .running = in->running, .kv_used = in->kv_used };
	uint64_t kv_tokens = in->kv_capacity_tokens;
	struct route_node *n;
	uint32_t i;

	pool_lock(pool);
	if (node >= pool->n_nodes || pool->node[node].presence != NODE_PRESENT) {
		pool_unlock(pool);
		return -ENOENT;
	}
	n = &pool->node[node];
	node_settle(n, now_ns);
	if (in->restarted)
		node_forget(pool, node, now_ns);
	n->snap = (struct node_snapshot){
		.seen = true,
		.load_known = in->waiting != BACKEND_UNKNOWN && in->running != BACKEND_UNKNOWN,
		.when_ns = now_ns,
		.waiting = in->waiting,
		.running = in->running,
		.kv_used = in->kv_used > 1 ? 1 : in->kv_used,
		.own_in_flight = ledger_in_flight(pool->ledger, n->row) + n->peer_in_flight,
		.own_unp = n->n_unp,
	};
	if (in->kv_capacity_bound && kv_tokens > pool->cfg.kv_tokens)
		kv_tokens = pool->cfg.kv_tokens;
	if (kv_tokens && kv_tokens != n->kv_tokens) {
		n->kv_tokens = kv_tokens;
		node_set_capacity(pool, node);
	}
	if (in->max_adapters)
		adapter_set_slots(&n->adapters, in->max_adapters);
	for (i = 0; i < in->n_adapters; i++)
		adapter_touch(&n->adapters, adapter_id(&pool->adapter_names, in->adapters[i]));
	node_publish(pool, node, now_ns);
	pool_emit(pool, &ev);
	pool_unlock(pool);
	return 0;
}
