/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The daemon's own policies: its pool, driven as its gateway drives it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "replay/must.h"
#include "replay/policy.h"

#define LEDGER_SLOTS (1u << 17)
#define CAP (1u << 16)          /* no cap: an overloaded policy shows its queue, not refusals */
#define PREFIX_AWARE_CAP 64
#define PREFIX_AWARE_BYTES 1024

struct router {
	struct ledger ledger;
	struct route_pool *pool;
	struct route_backend_config backend[REPLAY_NODES_MAX];
	char name[REPLAY_NODES_MAX][16];
	uint32_t node_of[REPLAY_NODES_MAX], fleet_of[ROUTE_MAX_NODES]; /* fleet's number <-> pool's */
	struct replay_gateway *gateway;
	struct route_peer *peer[REPLAY_GATEWAYS_MAX];
};

static void die(const char *what, int rc)
{
	fprintf(stderr, "kvsteer-replay: %s: %s\n", what, strerror(-rc));
	exit(1);
}

static void configure(struct replay_gateway *g, struct route_pool_config *c)
{
	struct router *r = g->state;

	*c = (struct route_pool_config){ .name = "fleet", .policy = g->policy->variant, .cap = CAP,
					 .kv_tokens = g->fleet->kv_tokens, .backends = r->backend };
	if (c->policy == ROUTE_POLICY_PREFIX_AWARE)
		c->cap = PREFIX_AWARE_CAP;
	if (g->gateways > 1)
		c->pi_start = g->policy->exchange ? 0.5 : 0.9;
	for (uint32_t i = 0; i < g->fleet->nodes; i++) {
		if (!g->fleet->member[i])
			continue;
		r->backend[c->n_backends++] = (struct route_backend_config){ .name = r->name[i], .address = "-" };
	}
}

static void number_nodes(struct replay_gateway *g)
{
	struct router *r = g->state;

	for (uint32_t i = 0; i < g->fleet->nodes; i++) {
		r->node_of[i] = route_node_by_name(r->pool, r->name[i]);
		if (r->node_of[i] != ROUTE_NO_NODE)
			r->fleet_of[r->node_of[i]] = i;
	}
}

static void on_event(void *ctx, const struct route_event *ev)
{
	struct router *r = ctx;

	r->gateway->event(r->gateway->event_ctx, r->gateway->number, ev);
}

void replay_route_open(struct replay_gateway *g)
{
	struct router *r = must_calloc(1, sizeof(*r));
	struct route_pool_config c;
	int rc;

	g->state = r;
	r->gateway = g;
	for (uint32_t i = 0; i < REPLAY_NODES_MAX; i++)
		snprintf(r->name[i], sizeof(r->name[i]), "node-%u", i);
	configure(g, &c);
	rc = ledger_create(&r->ledger, LEDGER_SLOTS, 1);
	if (!rc)
		rc = route_pool_create(&r->pool, &c, &r->ledger);
	if (rc < 0)
		die("making the pool", rc);
	number_nodes(g);
	if (g->gateways == 1 || !g->policy->exchange)
		return;
	route_pool_set_event_fn(r->pool, on_event, r);
	for (uint32_t i = 0; i < g->gateways; i++) {
		rc = i == g->number ? 0 : route_peer_open(r->pool, &r->peer[i], LEDGER_SLOTS);
		if (rc < 0)
			die("making a peer", rc);
	}
}

void replay_route_close(struct replay_gateway *g)
{
	struct router *r = g->state;

	for (uint32_t i = 0; i < REPLAY_GATEWAYS_MAX; i++)
		if (r->peer[i])
			route_peer_close(r->peer[i]);
	route_pool_free(r->pool);
	ledger_destroy(&r->ledger);
	free(r);
}

void replay_route_members(struct replay_gateway *g, uint64_t now_ns)
{
	struct router *r = g->state;
	struct route_pool_config c;
	int rc;

	configure(g, &c);
	rc = route_pool_update(r->pool, &c);
	if (rc < 0)
		die("changing the pool", rc);
	number_nodes(g);
}

uint32_t replay_route_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	const struct replay_talk *t = q->talk;
	struct router *r = g->state;
	char adapter[16];
	struct route_request req = {
		.chain = { t->text.hash, t->text.bytes, t->text.flags, t->prompt_links,
			   (uint64_t)q->prompt_tokens * REPLAY_TOKEN_BYTES },
		.class_id = t->turn > 1, .first_token_visible = true,
	};
	struct route_plan plan;
	uint32_t k = PREFIX_AWARE_BYTES / (REPLAY_TOKEN_BYTES * REPLAY_CHAIN_TOKENS) - 1;
	int rc;

	req.prefix_key = t->text.hash[t->prompt_links > k ? k : t->prompt_links - 1];
	if (t->adapter != NODE_NO_ADAPTER) {
		snprintf(adapter, sizeof(adapter), "adapter-%d", t->adapter);
		req.adapter = adapter;
	}
	rc = route_assign(r->pool, &req, now_ns, &q->ticket, &plan);
	if (rc == -EAGAIN)
		return UINT32_MAX;
	if (rc < 0)
		die("routing", rc);
	return r->fleet_of[plan.node];
}

void replay_route_first(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct router *r = g->state;

	route_first_token(r->pool, &q->ticket, now_ns, ROUTE_TOKENS_UNKNOWN);
}

void replay_route_end(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct router *r = g->state;

	if (q->first)
		route_usage(r->pool, &q->ticket, q->prompt_tokens, q->cached_tokens);
	route_end(r->pool, &q->ticket, now_ns, q->first ? ROUTE_END_OK : ROUTE_END_CLIENT_GONE, q->output_tokens);
}

void replay_route_snapshot(struct replay_gateway *g, uint32_t node, const struct node_stats *st, uint64_t now_ns)
{
	struct router *r = g->state;
	struct route_snapshot_in in = {
		.waiting = st->waiting, .running = st->running,
		.kv_used = (double)st->blocks_pinned / st->blocks_total,
		.kv_capacity_tokens = g->fleet->kv_tokens,
	};

	if (r->node_of[node] != ROUTE_NO_NODE)
		route_snapshot(r->pool, r->node_of[node], &in, now_ns);
	if (node == 0)
		route_tick(r->pool, now_ns);
}

void replay_route_apply(struct replay_gateway *g, uint32_t from, const struct route_event *ev, uint64_t now_ns)
{
	struct router *r = g->state;

	/* All gateways configure the same nodes in the same order: numbers mean the same everywhere. */
	route_peer_apply(r->peer[from], ev, ev->node, now_ns);
}
