/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From the first token to the end: what is learned, and that everything is given back exactly once. */
#include "route/ticket.h"

#include <assert.h>
#include <string.h>

static bool is_live(const struct route_ticket *t)
{
	return t->state == ROUTE_TICKET_PREFILL || t->state == ROUTE_TICKET_DECODE;
}

/* How much of what the index did not know the key's own node held: other
 * gateways put it there. Learned from picks of that node only. */
static void learn_pi(struct route_pool *pool, struct route_ticket *t, uint32_t cached_tokens)
{
	double unknown = t->tokens - t->match0_tokens, x, *pi = &pool->pi[t->req.class_id & 1];

	if (t->pi_learned || cached_tokens == ROUTE_TOKENS_UNKNOWN || !t->picked_top ||
	    unknown <= ROUTE_PI_MIN_TOKENS)
		return;
	t->pi_learned = true;
	x = (cached_tokens - t->match0_tokens) / unknown;
	x = x < 0 ? 0 : x > 1 ? 1 : x;
	*pi += (x > *pi ? ROUTE_PI_UP : ROUTE_PI_DOWN) * (x - *pi);
}

void route_first_token(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, uint32_t cached_tokens)
{
	struct route_event ev = { .kind = ROUTE_EVENT_FIRST_TOKEN, .now_ns = now_ns, .tokens = cached_tokens };
	struct route_node *n;

	pool_lock(pool);
	/* Not visible: what the caller saw was the head of a whole answer, long after the first token. */
	if (!is_live(t) || t->confirmed || !t->req.first_token_visible) {
		pool_unlock(pool);
		return;
	}
	n = &pool->node[t->node];
	if (t->state == ROUTE_TICKET_PREFILL) {
		node_settle_before(n, t);
		node_start_decode(n, t);
		n->last_first_ns = now_ns;
		if (now_ns > t->sent_ns && t->predicted_s > 0)
			node_learn_speed(pool, n, (double)(now_ns - t->sent_ns) * 1e-9, t->predicted_s / t->speed);
	}
	if (t->req.chain.nblocks)
		index_confirm(&pool->index, t->node, t->req.chain.hash, t->kept, t->first_pending, t->stamp);
	t->confirmed = true;
	health_result(&n->health, ROUTE_RESULT_OK, now_ns);
	learn_pi(pool, t, cached_tokens);
	ev.node = t->node;
	ev.slot = t->slot.slot;
	ev.generation = t->slot.generation;
	pool_emit(pool, &ev);
	pool_unlock(pool);
}

void route_usage(struct route_pool *pool, struct route_ticket *t, uint32_t prompt_tokens, uint32_t cached_tokens)
{
	double ratio;

	pool_lock(pool);
	if (!is_live(t) || t->usage_seen) {
		pool_unlock(pool);
		return;
	}
	t->usage_seen = true;
	if (prompt_tokens != ROUTE_TOKENS_UNKNOWN && prompt_tokens) {
		/* Media and templates make single prompts odd; absurd ratios teach nothing. */
		ratio = (double)t->req.chain.total_bytes / prompt_tokens;
		if (ratio >= ROUTE_BPT_MIN && ratio <= ROUTE_BPT_MAX) {
			pool->bpt_num = ROUTE_R_DECAY * pool->bpt_num + (double)t->req.chain.total_bytes;
			pool->bpt_den = ROUTE_R_DECAY * pool->bpt_den + prompt_tokens;
		}
		t->prompt_tokens = prompt_tokens;
	}
	if (cached_tokens != ROUTE_TOKENS_UNKNOWN) {
		t->reported_cached_tokens = cached_tokens;
		node_row(pool, &pool->node[t->node])->hit_reported_tokens += cached_tokens;
		node_row(pool, &pool->node[t->node])->sampled_prompt_tokens += t->prompt_tokens;
		learn_pi(pool, t, cached_tokens);
	}
	pool_unlock(pool);
}

void route_answer(struct route_pool *pool, struct route_ticket *t, const struct route_chain *full)
{
	struct route_event ev = { .kind = ROUTE_EVENT_ANSWER, .now_ns = t->sent_ns };
	struct index_insert_result res;

	pool_lock(pool);
	if (is_live(t) && t->req.chain.nblocks && full->nblocks > t->last_block &&
	    full->hash[t->last_block] == t->last_hash) {
		index_insert(&pool->index, t->node, full->hash, full->bytes, full->nblocks, t->stamp, true, &res);
		t->answer_known = true;
		ev.node = t->node;
		ev.slot = t->slot.slot;
		ev.generation = t->slot.generation;
		ev.hash = full->hash;
		ev.bytes = full->bytes;
		ev.first = t->last_block + 1;
		ev.count = full->nblocks;
		pool_emit(pool, &ev);
	}
	pool_unlock(pool);
}

static void end_ok(struct route_pool *pool, struct route_ticket *t, uint32_t output_tokens)
{
	struct backend_row *r = node_row(pool, &pool->node[t->node]);
	double context = t->tokens + output_tokens / 2.0;

	r->prompt_tokens += t->prompt_tokens;
	r->hit_predicted_tokens += t->match_tokens < t->prompt_tokens ? t->match_tokens : t->prompt_tokens;
	if (!output_tokens)
		return;
	pool->means.output_tokens += ROUTE_MEAN_WEIGHT * (output_tokens - pool->means.output_tokens);
	pool->means.context_tokens += ROUTE_MEAN_WEIGHT * (context - pool->means.context_tokens);
}

void route_end(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, enum route_outcome outcome,
	       uint32_t output_tokens)
{
	struct route_event ev = { .kind = ROUTE_EVENT_END, .now_ns = now_ns, .tokens = output_tokens,
				  .outcome = outcome };
	double answer_tokens = output_tokens;
	uint32_t node;

	pool_lock(pool);
	assert(is_live(t));
	node = t->node;
	node_settle(&pool->node[node], now_ns);
	ticket_leave_node(pool, t, now_ns, outcome == ROUTE_END_OK);
	if (outcome == ROUTE_END_OK) {
		end_ok(pool, t, output_tokens);
		if (!output_tokens)
			answer_tokens = pool->means.output_tokens;
		t->confirmed = true;
	}
	/* What was generated fills the node's cache, also if the client left before its end. */
	if (t->confirmed && !t->answer_known && t->req.chain.nblocks && answer_tokens > 0 &&
	    t->last_block < t->kept)
		index_add_answer(&pool->index, node, t->last_hash,
				 (uint64_t)(answer_tokens * pool_bytes_per_token(pool)));
	ev.node = node;
	ev.slot = t->slot.slot;
	ev.generation = t->slot.generation;
	pool_emit(pool, &ev);
	ledger_release(pool->ledger, t->slot);
	t->state = ROUTE_TICKET_ENDED;
	t->node = ROUTE_NO_NODE;
	t->slot = LEDGER_REF_NONE;
	node_reap(pool, node);
	pool_unlock(pool);
}
