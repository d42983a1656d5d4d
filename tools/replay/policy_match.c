/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Baselines with an index of their own: SGLang's router, the Gateway API Inference Extension's scorers, Dynamo's cost. */
#include "replay/lruset.h"
#include "replay/must.h"
#include "replay/policy.h"

#define DYNAMO_PAIRS (1u << 20) /* the TTL binds before: 120 s of any workload's blocks */
#define ADAPTERS_RECENT 8       /* slots of a node */

/* LoRA names that were last sent to a node: what its metrics would show as loaded. */
struct recent {
	int32_t id[ADAPTERS_RECENT];
	uint32_t n;
};

struct matcher {
	struct lruset *index;
	struct recent adapter[REPLAY_NODES_MAX];
	/* Dynamo: of requests in flight. */
	double prefill_blocks[REPLAY_NODES_MAX], decode_blocks[REPLAY_NODES_MAX];
};

static void open_with(struct replay_gateway *g, struct lruset *index)
{
	struct matcher *m = must_calloc(1, sizeof(*m));

	m->index = index;
	g->state = m;
}

void replay_match_close(struct replay_gateway *g)
{
	struct matcher *m = g->state;

	lruset_free(m->index);
	free(m);
}

/* ---- SGLang ------------------------------------------------------------------- */

void replay_sglang_open(struct replay_gateway *g)
{
	open_with(g, lruset_new(1, REPLAY_SGLANG_TOKENS / NODE_BLOCK_TOKENS));
}

static bool imbalanced(const struct replay_gateway *g)
{
	uint32_t least = UINT32_MAX, most = 0;

	for (uint32_t i = 0; i < g->fleet->nodes; i++) {
		if (!g->fleet->member[i])
			continue;
		if (g->in_flight[i] < least)
			least = g->in_flight[i];
		if (g->in_flight[i] > most)
			most = g->in_flight[i];
	}
	return most - least > REPLAY_SGLANG_ABSOLUTE && most > REPLAY_SGLANG_RELATIVE * least;
}

uint32_t replay_sglang_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct matcher *m = g->state;
	double busy[REPLAY_NODES_MAX], unmatched[REPLAY_NODES_MAX];
	uint32_t i, run, longest = 0, node;

	for (i = 0; i < g->fleet->nodes; i++) {
		busy[i] = g->in_flight[i];
		run = g->fleet->member[i] ? lruset_match(m->index, i, q->block, q->blocks, 1, 0) : 0;
		unmatched[i] = q->blocks - run;
		longest = run > longest ? run : longest;
	}
	if (!imbalanced(g) && longest * (double)NODE_BLOCK_TOKENS > REPLAY_SGLANG_MATCH * q->prompt_tokens)
		node = replay_pick_least(g, unmatched);
	else
		node = replay_pick_least(g, busy);
	lruset_touch(m->index, node, q->block, q->blocks, 1, now_ns);
	return node;
}

/* ---- Gateway API Inference Extension --------------------------------------------- */

#define GIE_STRIDE (REPLAY_GIE_BLOCK_TOKENS / NODE_BLOCK_TOKENS)

void replay_gie_open(struct replay_gateway *g)
{
	open_with(g, lruset_new(REPLAY_NODES_MAX, REPLAY_GIE_BLOCKS));
}

static bool recently(struct recent *r, int32_t id, bool touch)
{
	uint32_t i;

	for (i = 0; i < r->n && r->id[i] != id; i++)
		;
	if (!touch)
		return i < r->n;
	if (i == r->n && r->n < ADAPTERS_RECENT)
		r->n++;
	for (i = i < r->n ? i : r->n - 1; i > 0; i--)
		r->id[i] = r->id[i - 1];
	r->id[0] = id;
	return true;
}

uint32_t replay_gie_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct matcher *m = g->state;
	uint32_t least = UINT32_MAX, most = 0, i, node, total = q->blocks / GIE_STRIDE;
	double cost[REPLAY_NODES_MAX];

	for (i = 0; i < g->fleet->nodes; i++) {
		if (!g->fleet->member[i])
			continue;
		least = g->waiting[i] < least ? g->waiting[i] : least;
		most = g->waiting[i] > most ? g->waiting[i] : most;
	}
	for (i = 0; i < g->fleet->nodes; i++) {
		double score = 0;

		if (!g->fleet->member[i])
			continue;
		if (total)
			score += REPLAY_GIE_PREFIX *
				 (double)lruset_match(m->index, i, q->block, q->blocks, GIE_STRIDE, 0) / total;
		score += REPLAY_GIE_QUEUE *
			 (most > least ? (double)(most - g->waiting[i]) / (most - least) : 1);
		score += REPLAY_GIE_KV * (1 - g->kv_used[i]);
		if (q->talk->adapter != NODE_NO_ADAPTER && recently(&m->adapter[i], q->talk->adapter, false))
			score += REPLAY_GIE_ADAPTER;
		cost[i] = -score;
	}
	node = replay_pick_least(g, cost);
	lruset_touch(m->index, node, q->block, q->blocks, GIE_STRIDE, now_ns);
	if (q->talk->adapter != NODE_NO_ADAPTER)
		recently(&m->adapter[node], q->talk->adapter, true);
	return node;
}

/* ---- Dynamo --------------------------------------------------------------------------- */

void replay_dynamo_open(struct replay_gateway *g)
{
	open_with(g, lruset_new(1, DYNAMO_PAIRS));
}

static double blocks_of(uint32_t tokens)
{
	return (double)tokens / NODE_BLOCK_TOKENS;
}

uint32_t replay_dynamo_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	const uint64_t ttl_ns = REPLAY_DYNAMO_TTL_S * 1000000000ull;
	struct matcher *m = g->state;
	double cost[REPLAY_NODES_MAX];
	uint32_t uncached[REPLAY_NODES_MAX], i, node;

	for (i = 0; i < g->fleet->nodes; i++) {
		if (!g->fleet->member[i])
			continue;
		uncached[i] = q->prompt_tokens - NODE_BLOCK_TOKENS * lruset_match(m->index, i, q->block, q->blocks, 1,
										  now_ns > ttl_ns ? now_ns - ttl_ns : 0);
		cost[i] = g->policy->variant * (m->prefill_blocks[i] + blocks_of(uncached[i])) + m->decode_blocks[i];
	}
	node = replay_pick_least(g, cost);
	lruset_touch(m->index, node, q->block, q->blocks, 1, now_ns);
	q->uncached_tokens = uncached[node];
	m->prefill_blocks[node] += blocks_of(q->uncached_tokens);
	m->decode_blocks[node] += blocks_of(q->prompt_tokens);
	return node;
}

void replay_dynamo_first(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct matcher *m = g->state;

	m->prefill_blocks[q->node] -= blocks_of(q->uncached_tokens);
}

void replay_dynamo_end(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	struct matcher *m = g->state;

	m->decode_blocks[q->node] -= blocks_of(q->prompt_tokens);
}
