/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scheduler: what a step computes, how long it lasts, what comes out. */
#include <math.h>
#include <string.h>

#include "node/node.h"
#include "node/node_impl.h"

/* The sums of the step formula, while a step is composed. */
struct step_sum {
	uint32_t budget;
	uint64_t prefill_tokens;
	double chunk_context;
	uint32_t decodes;
	uint64_t decode_context;
	uint32_t loads;
};

static void event_add(struct node *n, const struct node_seq *s, uint32_t flags)
{
	n->event[n->events++] = (struct node_event){
		.cookie = s->cookie,
		.flags = flags,
		.generated = s->generated,
		.cached_tokens = s->cached_tokens,
	};
}

/* The youngest running request makes room and goes back to the queue's head. */
static void preempt_youngest(struct node *n)
{
	uint32_t i = n->running[--n->st.running];
	struct node_seq *s = &n->seq[i];

	node_seq_release(n, s);
	n->st.preempted++;
	if (s->aborted) {
		node_seq_free(n, i);
		return;
	}
	event_add(n, s, NODE_EV_PREEMPTED);
	node_wait_add(n, i, true);
}

/* Running requests in order of admission. Whoever is preempted stands behind
 * everybody who already has a part in the step. */
static void schedule_decodes(struct node *n, struct step_sum *sum)
{
	for (uint32_t r = 0; r < n->st.running; r++) {
		struct node_seq *s = &n->seq[n->running[r]];
		uint32_t b = KVCACHE_NONE;

		if (!s->decoding || !sum->budget)
			continue;
		if (s->computed / NODE_BLOCK_TOKENS >= s->blocks) {
			while (r < n->st.running && (b = kvcache_alloc(n->kv)) == KVCACHE_NONE)
				preempt_youngest(n);
			if (r >= n->st.running)	/* it was the youngest itself */
				break;
			s->block[s->blocks++] = b;
		}
		s->chunk = 1;
		sum->budget--;
		sum->decodes++;
		sum->decode_context += seq_tokens(s);
	}
}

static void schedule_chunk(struct node_seq *s, struct step_sum *sum)
{
	uint32_t left = seq_tokens(s) - s->computed;

	s->chunk = left < sum->budget ? left : sum->budget;
	sum->budget -= s->chunk;
	sum->prefill_tokens += s->chunk;
	sum->chunk_context += (double)s->chunk * (s->computed + s->chunk / 2.0);
}

/* Makes the adapter of a request resident. False: every slot runs another one. */
static bool adapter_take(struct node *n, int32_t id, struct step_sum *sum)
{
	struct node_adapter *a = node_adapter_find(n, id), *lru = NULL;

	if (!a && n->adapters < n->cfg.adapter_slots) {
		a = &n->adapter[n->adapters++];
	} else if (!a) {
		for (uint32_t i = 0; i < n->adapters; i++)
			if (!n->adapter[i].running && (!lru || n->adapter[i].used < lru->used))
				lru = &n->adapter[i];
		if (!lru)
			return false;
		a = lru;
	} else {
		goto use;
	}
	*a = (struct node_adapter){ .id = id };
	n->st.adapter_loads++;
	sum->loads++;
use:
	a->running++;
	a->used = n->st.steps + 1;
	return true;
}

/* True if the adapter could be taken: asked before the blocks are. */
static bool adapter_available(const struct node *n, int32_t id)
{
	if (id == NODE_NO_ADAPTER || n->adapters < n->cfg.adapter_slots || node_adapter_find(n, id))
		return true;
	for (uint32_t i = 0; i < n->adapters; i++)
		if (!n->adapter[i].running)
			return true;
	return false;
}

/* Pins what the cache holds of the prompt and takes free blocks for the rest.
 * False, with nothing changed: too few are free. */
static bool blocks_take(struct node *n, struct node_seq *s)
{
	uint32_t tokens = seq_tokens(s), need = node_blocks_for(tokens);
	/* The last token is computed always: its output is the next token. */
	uint32_t most = (tokens - 1) / NODE_BLOCK_TOKENS;
	uint32_t hit, unpinned = 0;

	if (most > s->hashes)
		most = s->hashes;
	for (hit = 0; hit < most; hit++) {
		uint32_t b = kvcache_find(n->kv, s->hash[hit]);

		if (b == KVCACHE_NONE)
			break;
		s->block[hit] = b;
		unpinned += n->kv->block[b].refs == 0;
	}
	/* Hit blocks that nobody uses stand in the free list too. */
	if ((uint64_t)unpinned + (need - hit) + n->watermark_blocks > n->kv->free)
		return false;
	for (uint32_t i = 0; i < hit; i++)
		kvcache_pin(n->kv, s->block[i]);
	for (uint32_t i = hit; i < need; i++)
		s->block[i] = kvcache_alloc(n->kv);
	s->blocks = need;
	s->computed = hit * NODE_BLOCK_TOKENS;
	return true;
}

static void schedule_admissions(struct node *n, struct step_sum *sum)
{
	uint32_t i = n->wait_head, next;

	n->st.waiting_deferred = 0;
	for (; i != SEQ_NONE && sum->budget && n->st.running < n->cfg.max_seqs; i = next) {
		struct node_seq *s = &n->seq[i];

		next = s->next;
		if (!adapter_available(n, s->adapter)) {
			n->st.waiting_deferred++;
			continue;
		}
		if (!blocks_take(n, s))
			break;
		node_wait_del(n, i);
		if (s->adapter != NODE_NO_ADAPTER)
			adapter_take(n, s->adapter, sum);
		s->state = SEQ_RUNNING;
		n->running[n->st.running++] = i;
		if (!s->admitted) {
			s->admitted = true;
			s->cached_tokens = s->computed;
			n->st.query_tokens += s->prompt_tokens;
			n->st.hit_tokens += s->computed;
		}
		schedule_chunk(s, sum);
	}
}

static uint64_t step_duration_ns(const struct node_config *c, const struct step_sum *sum)
{
	double ns = c->a_ms * 1e6 + c->b_us * 1e3 * (double)sum->prefill_tokens + c->e_ns * sum->chunk_context +
		    c->c_us * 1e3 * sum->decodes + c->d_ns * (double)sum->decode_context;

	return (uint64_t)llround(ns / c->speed + sum->loads * c->adapter_load_ms * 1e6);
}

bool node_step_begin(struct node *n, uint64_t now_ns, uint64_t *end_ns)
{
	struct step_sum sum = { .budget = n->cfg.batch_tokens };
	uint64_t duration_ns;

	if (n->stepping || (!n->st.running && !n->st.waiting))
		return false;
	n->events = 0;
	schedule_decodes(n, &sum);
	for (uint32_t r = 0; r < n->st.running && sum.budget; r++) {
		struct node_seq *s = &n->seq[n->running[r]];

		if (!s->decoding)
			schedule_chunk(s, &sum);
	}
	/* What preemption has just freed must not be given to a newcomer, or to the victim itself. */
	if (!n->events)
		schedule_admissions(n, &sum);
	if (!sum.decodes && !sum.prefill_tokens && !n->events)
		return false;
	n->st.prefill_after_tokens = 0;
	for (uint32_t r = 0; r < n->st.running; r++) {
		const struct node_seq *s = &n->seq[n->running[r]];

		if (!s->decoding)
			n->st.prefill_after_tokens += seq_tokens(s) - s->computed - s->chunk;
	}
	n->preempts = n->events;
	n->step_decodes = sum.decodes;
	n->step_prefill_tokens = sum.prefill_tokens;
	duration_ns = step_duration_ns(&n->cfg, &sum);
	n->st.steps++;
	n->st.busy_ns += duration_ns;
	n->stepping = true;
	*end_ns = now_ns + duration_ns;
	return true;
}

bool node_stepping(const struct node *n)
{
	return n->stepping;
}

/* The blocks that this step filled can be hit from now on. */
static void publish_chunk(struct node *n, struct node_seq *s)
{
	uint32_t first = s->computed / NODE_BLOCK_TOKENS, end;

	s->computed += s->chunk;
	end = s->computed / NODE_BLOCK_TOKENS;
	if (end > s->hashes)
		end = s->hashes;
	for (uint32_t b = first; b < end; b++)
		kvcache_publish(n->kv, s->block[b], s->hash[b]);
	s->chunk = 0;
}

/* Returns whether the request stays on the node. */
static bool seq_advance(struct node *n, uint32_t i)
{
	struct node_seq *s = &n->seq[i];
	uint32_t flags = NODE_EV_TOKEN;
	bool worked = s->chunk > 0;

	publish_chunk(n, s);
	if (s->aborted) {
		node_seq_release(n, s);
		node_seq_free(n, i);
		return false;
	}
	if (!worked || s->computed < seq_tokens(s)) {
		n->st.prefill_left_tokens += seq_tokens(s) - s->computed;
		return true;
	}
	s->decoding = true;
	s->generated++;
	n->st.generated_tokens++;
	if (s->generated == 1)
		flags |= NODE_EV_FIRST;
	if (s->generated < s->output_tokens) {
		event_add(n, s, flags);
		return true;
	}
	event_add(n, s, flags | NODE_EV_FINISHED);
	n->st.finished++;
	node_seq_release(n, s);
	node_seq_free(n, i);
	return false;
}

size_t node_step_end(struct node *n, const struct node_event **events)
{
	uint32_t kept = 0;

	*events = n->event;
	if (!n->stepping)
		return 0;
	n->stepping = false;
	n->st.decode_tokens += n->step_decodes;
	n->st.prefill_tokens += n->step_prefill_tokens;
	n->st.prefill_left_tokens = 0;
	for (uint32_t r = 0; r < n->st.running; r++) {
		uint32_t i = n->running[r];

		if (seq_advance(n, i))
			n->running[kept++] = i;
	}
	n->st.running = kept;
	return n->events;
}
