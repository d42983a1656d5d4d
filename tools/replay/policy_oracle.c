/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The bound: the cost policy's score, greedily, with true caches (and what the requests ahead will
 * bring), true queues and true speeds in the place of what a router can know. */
#include <math.h>

#include "replay/must.h"
#include "replay/policy.h"

#define PENDING_BUCKETS (1u << 17)
#define NONE UINT32_MAX
#define MEAN_WEIGHT 0.02
#define MIN_UNCACHED 16.0

/* A block that a request without first token will leave in its node's cache. */
struct pending {
	uint64_t hash;
	uint32_t node, count, chain;
};

/* Work of the first k requests that were sent to a node: what waits is the difference of two. */
struct ahead {
	double *s, *tokens;
	uint32_t n, room;
};

struct oracle {
	struct node_config c;
	struct pending *pending;
	uint32_t used, room, spare;
	uint32_t bucket[PENDING_BUCKETS];
	struct ahead ahead[REPLAY_NODES_MAX];
	double output_tokens, context_tokens;
};

void replay_oracle_open(struct replay_gateway *g)
{
	struct oracle *o = must_calloc(1, sizeof(*o));

	node_config_default(&o->c);
	memset(o->bucket, 0xff, sizeof(o->bucket));
	o->spare = NONE;
	o->output_tokens = 150;
	o->context_tokens = 2000;
	g->state = o;
}

void replay_oracle_close(struct replay_gateway *g)
{
	struct oracle *o = g->state;

	for (uint32_t i = 0; i < REPLAY_NODES_MAX; i++) {
		free(o->ahead[i].s);
		free(o->ahead[i].tokens);
	}
	free(o->pending);
	free(o);
}

static uint32_t *pending_at(struct oracle *o, uint32_t node, uint64_t hash)
{
	uint32_t *at = &o->bucket[load_mix(hash, node) & (PENDING_BUCKETS - 1)];

	while (*at != NONE && (o->pending[*at].hash != hash || o->pending[*at].node != node))
		at = &o->pending[*at].chain;
	return at;
}

static void pending_add(struct oracle *o, uint32_t node, uint64_t hash)
{
	uint32_t *at = pending_at(o, node, hash), p = *at;

	if (p != NONE) {
		o->pending[p].count++;
		return;
	}
	p = o->spare;
	if (p != NONE) {
		o->spare = o->pending[p].chain;
	} else {
		if (o->used == o->room)
			o->pending = must_grow(o->pending, &o->room, sizeof(*o->pending));
		p = o->used++;
	}
	at = pending_at(o, node, hash); /* the table may have moved */
	o->pending[p] = (struct pending){ hash, node, 1, NONE };
	*at = p;
}

static void pending_remove(struct oracle *o, uint32_t node, uint64_t hash)
{
	uint32_t *at = pending_at(o, node, hash), p = *at;

	if (p == NONE || --o->pending[p].count)
		return;
	*at = o->pending[p].chain;
	o->pending[p].chain = o->spare;
	o->spare = p;
}

static uint32_t match_blocks(struct oracle *o, const struct node *n, uint32_t node, const struct replay_request *q)
{
	uint32_t i = node_match_tokens(n, q->block, q->blocks) / NODE_BLOCK_TOKENS;

	/* Leading blocks that are in the cache or on their way into it. */
	while (i < q->blocks) {
		if (*pending_at(o, node, q->block[i]) == NONE)
			break;
		i++;
		i += node_match_tokens(n, q->block + i, q->blocks - i) / NODE_BLOCK_TOKENS;
	}
	return i;
}

static double prefill_s(const struct oracle *o, double tokens, double uncached)
{
	return (o->c.b_us * 1e-6 + o->c.e_ns * 1e-9 * (tokens - uncached / 2)) * uncached;
}

struct view {
	double uncached, prefill_s, cost;
	uint32_t match;
};

static void look(struct oracle *o, const struct replay_fleet *f, uint32_t i, const struct replay_request *q,
		 uint64_t now_ns, struct view *v)
{
	const struct ahead *a = &o->ahead[i];
	double r = 1 / f->speed[i], d, c = o->c.c_us * 1e-6, dd = o->c.d_ns * 1e-9, step, w, wt, slots, slot, left_s, ttft;
	struct node_stats st;
	uint32_t admitted;

	node_read_stats(f->node[i], &st);
	v->match = match_blocks(o, f->node[i], i, q);
	v->uncached = fmax(MIN_UNCACHED, q->prompt_tokens - (double)v->match * NODE_BLOCK_TOKENS);
	v->prefill_s = prefill_s(o, q->prompt_tokens, v->uncached);
	admitted = a->n > st.waiting ? a->n - st.waiting : 0;
	w = a->n ? a->s[a->n - 1] - (admitted ? a->s[admitted - 1] : 0) : 0;
	wt = a->n ? a->tokens[a->n - 1] - (admitted ? a->tokens[admitted - 1] : 0) : 0;
	w += st.prefill_after_tokens * (o->c.b_us * 1e-6 + o->c.e_ns * 1e-9 * o->context_tokens);
	wt += st.prefill_after_tokens;
	d = st.running;
	step = o->c.a_ms * 1e-3 + c * d + dd * d * o->context_tokens;
	slots = o->c.max_seqs;
	if (st.blocks_pinned > 0.9 * st.blocks_total && st.waiting > 2)
		slots = st.running;
	slot = fmax(0, st.running + st.waiting + 1.0 - slots) * o->output_tokens * step / fmax(8, fmin(d, slots));
	left_s = f->step_end_ns[i] == UINT64_MAX ? 0 : (double)(f->step_end_ns[i] - now_ns) * 1e-9;
	ttft = left_s + r * (fmax(w + step * ceil((wt + v->uncached) / o->c.batch_tokens), slot) + v->prefill_s);
	v->cost = ttft + (REPLAY_ORACLE_KAPPA + REPLAY_ORACLE_OMEGA * st.waiting) * r * v->prefill_s +
		  REPLAY_ORACLE_PHI * d * r * (v->prefill_s + o->output_tokens * (c + dd * q->prompt_tokens));
	if (q->talk->adapter != NODE_NO_ADAPTER && !node_adapter_resident(f->node[i], q->talk->adapter))
		v->cost += o->c.adapter_load_ms * 1e-3 * (1 + REPLAY_ORACLE_KAPPA + 0.3 * d);
}

static void ahead_add(struct ahead *a, double s, double tokens)
{
	if (a->n == a->room) {
		a->s = must_grow(a->s, &a->room, sizeof(*a->s));
		a->tokens = must_realloc(a->tokens, a->room * sizeof(*a->tokens));
	}
	a->s[a->n] = (a->n ? a->s[a->n - 1] : 0) + s;
	a->tokens[a->n] = (a->n ? a->tokens[a->n - 1] : 0) + tokens;
	a->n++;
}

uint32_t replay_oracle_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct oracle *o = g->state;
	struct view v[REPLAY_NODES_MAX];
	double cost[REPLAY_NODES_MAX];
	uint32_t node;

	for (uint32_t i = 0; i < g->fleet->nodes; i++) {
		if (!g->fleet->member[i])
			continue;
		look(o, g->fleet, i, q, now_ns, &v[i]);
		cost[i] = v[i].cost;
	}
	node = replay_pick_least(g, cost);
	ahead_add(&o->ahead[node], v[node].prefill_s, v[node].uncached);
	q->uncached_tokens = (uint32_t)v[node].uncached;
	q->order = v[node].match;
	for (uint32_t b = v[node].match; b < q->blocks; b++)
		pending_add(o, node, q->block[b]);
	return node;
}

void replay_oracle_first(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct oracle *o = g->state;

	for (uint32_t b = (uint32_t)q->order; b < q->blocks; b++)
		pending_remove(o, q->node, q->block[b]);
}

void replay_oracle_end(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct oracle *o = g->state;

	o->output_tokens += MEAN_WEIGHT * (q->output_tokens - o->output_tokens);
	o->context_tokens += MEAN_WEIGHT * (q->prompt_tokens + q->output_tokens / 2.0 - o->context_tokens);
}
