/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Requests of other gateways, from their events. Two gateways that do not know of each other's
 * work prefill the same cold prefixes twice and queue on the same nodes; with this, simulated
 * gateways that hear of each other 20 ms late decide nearly as one does. */
#include <errno.h>
#include <stdlib.h>

#include "route/pool_internal.h"

#define PEER_BUCKETS 1024u

struct peer_request {
	struct route_ticket t; /* of no ledger slot: slot and generation are the peer's */
	struct peer_request *next;
};

struct route_peer {
	struct route_pool *pool;
	uint32_t n, max;
	struct peer_request *bucket[PEER_BUCKETS];
};

int route_peer_open(struct route_pool *pool, struct route_peer **out, uint32_t max_requests)
{
	struct route_peer *peer = calloc(1, sizeof(*peer));

	*out = peer;
	if (!peer)
		return -ENOMEM;
	peer->pool = pool;
	peer->max = max_requests;
	return 0;
}

static struct peer_request **request_at(struct route_peer *peer, uint32_t slot)
{
	struct peer_request **at = &peer->bucket[slot % PEER_BUCKETS];

	while (*at && (*at)->t.slot.slot != slot)
		at = &(*at)->next;
	return at;
}

static void leave_node(struct route_pool *pool, struct route_ticket *t)
{
	struct route_node *n = &pool->node[t->node];

	if (t->state == ROUTE_TICKET_DECODE)
		n->own_decoding--;
	else
		node_unp_remove(n, t);
	n->tickets--;
	n->peer_in_flight--;
	node_reap(pool, t->node);
}

static void drop_request(struct route_peer *peer, struct peer_request **at)
{
	struct peer_request *r = *at;

	leave_node(peer->pool, &r->t);
	*at = r->next;
	peer->n--;
	free(r);
}

void route_peer_close(struct route_peer *peer)
{
	uint32_t i;

	pool_lock(peer->pool);
	for (i = 0; i < PEER_BUCKETS; i++)
		while (peer->bucket[i])
			drop_request(peer, &peer->bucket[i]);
	pool_unlock(peer->pool);
	free(peer);
}

static void learn_mean(double *mean, double value)
{
	*mean += ROUTE_MEAN_WEIGHT * (value - *mean);
}

/* What the node will hold. Not confirmed: the peer may take it back, until a success here confirms it. */
static uint32_t insert_chain(struct route_pool *pool, const struct route_event *ev, uint32_t node, bool confirmed)
{
	uint32_t stamp = index_next_stamp(&pool->index);
	struct index_insert_result res;

	/* The turn behind a served prompt is there in blocks now. */
	if (ev->first && ev->first < ev->count)
		index_drop_answer(&pool->index, node, ev->hash[ev->first - 1]);
	index_insert(&pool->index, node, ev->hash, ev->bytes, ev->count, stamp, confirmed, &res);
	return stamp;
}

static void on_assign(struct route_peer *peer, const struct route_event *ev, uint32_t node, uint64_t now_ns)
{
	struct route_pool *pool = peer->pool;
	struct route_node *n = &pool->node[node];
	struct peer_request **at = request_at(peer, ev->slot), *r = *at;
	uint32_t stamp = 0;

	if (r) /* tried again on this node; or its end was lost */
		drop_request(peer, at);
	if (ev->count) {
		heat_add(&pool->heat, ev->hash, ev->count, now_ns);
		stamp = insert_chain(pool, ev, node, false);
	}
	r = peer->n < peer->max ? calloc(1, sizeof(*r)) : NULL;
	if (!r)
		return;
	r->t.slot = (struct ledger_ref){ ev->slot, ev->generation };
	r->t.node = node;
	r->t.req.first_token_visible = true; /* the peer says when */
	r->t.sent_ns = now_ns;
	r->t.stamp = stamp;
	r->t.last_hash = ev->count ? ev->hash[ev->count - 1] : 0;
	r->t.tokens = ev->tokens;
	r->t.est_tokens = ev->tokens > ev->match_tokens ? ev->tokens - ev->match_tokens : 0;
	if (r->t.est_tokens < COST_MIN_UNCACHED)
		r->t.est_tokens = COST_MIN_UNCACHED;
	r->t.est_s = cost_prefill_s(&pool->cfg.profile, r->t.tokens, r->t.est_tokens);
	node_unp_add(n, &r->t);
	n->tickets++;
	n->peer_in_flight++;
	r->next = *request_at(peer, ev->slot);
	*request_at(peer, ev->slot) = r;
	peer->n++;
	learn_mean(&pool->means.prefill_s, r->t.est_s);
	learn_mean(&pool->means.uncached_tokens, r->t.est_tokens);
}

static void on_first_token(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns)
{
	struct route_node *n = &pool->node[t->node];

	if (t->state != ROUTE_TICKET_PREFILL)
		return;
	node_settle_before(n, t);
	node_start_decode(n, t);
	n->last_first_ns = now_ns;
}

static void on_end(struct route_peer *peer, const struct route_event *ev, struct peer_request **at)
{
	const struct route_ticket *t = &(*at)->t;
	struct route_pool *pool = peer->pool;

	if (ev->outcome == ROUTE_END_OK && ev->tokens) {
		learn_mean(&pool->means.output_tokens, ev->tokens);
		learn_mean(&pool->means.context_tokens, t->tokens + ev->tokens / 2.0);
	}
	/* What was generated fills the node's cache. */
	if (t->last_hash && !t->answer_known && (ev->outcome == ROUTE_END_OK || t->state == ROUTE_TICKET_DECODE))
		index_add_answer(&pool->index, t->node, t->last_hash,
				 (uint64_t)((ev->tokens ? ev->tokens : pool->means.output_tokens) *
					    pool_bytes_per_token(pool)));
	drop_request(peer, at);
}

void route_peer_apply(struct route_peer *peer, const struct route_event *ev, uint32_t node, uint64_t now_ns)
{
	struct route_pool *pool = peer->pool;
	struct peer_request **at;

	pool_lock(pool);
	at = request_at(peer, ev->slot);
	if (ev->kind != ROUTE_EVENT_ASSIGN && ev->kind != ROUTE_EVENT_FORGET && *at &&
	    (*at)->t.slot.generation != ev->generation)
		goto out; /* of a request that has passed */
	if (ev->kind == ROUTE_EVENT_END) { /* also of a node that has left */
		if (*at)
			on_end(peer, ev, at);
		goto out;
	}
	if (node >= pool->n_nodes || pool->node[node].presence != NODE_PRESENT)
		goto out;
	switch ((enum route_event_kind)ev->kind) {
	case ROUTE_EVENT_ASSIGN:
		on_assign(peer, ev, node, now_ns);
		break;
	case ROUTE_EVENT_FIRST_TOKEN:
		if (*at)
			on_first_token(pool, &(*at)->t, now_ns);
		break;
	case ROUTE_EVENT_ANSWER:
		insert_chain(pool, ev, node, true);
		if (*at)
			(*at)->t.answer_known = true;
		break;
	case ROUTE_EVENT_DROP:
		if (*at)
			index_retract(&pool->index, node, ev->hash, ev->count, 0, (*at)->t.stamp);
		break;
	case ROUTE_EVENT_FORGET:
		index_forget_node(&pool->index, node);
		pool->node[node].adapters.n = 0;
		break;
	case ROUTE_EVENT_INSERT:   /* ASSIGN carries the chain */
	case ROUTE_EVENT_SNAPSHOT: /* each gateway reads its own */
	case ROUTE_EVENT_END:
		break;
	}
out:
	pool_unlock(pool);
}
