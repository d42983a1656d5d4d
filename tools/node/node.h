/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One GPU node as a discrete model of a continuous-batching engine (vLLM's
 * scheduler and prefix cache): what it holds, what it computes next, how long
 * that takes. Pure: no I/O, no clock, no globals, no threads; time comes in as
 * nanoseconds of the caller's own clock. A real-time server and an offline
 * replay drive the same model:
 *
 *	node_submit(n, &req, now, &id);
 *	if (!node_stepping(n) && node_step_begin(n, now, &end))
 *		wake me at `end`;
 *	... at `end`:
 *	count = node_step_end(n, &events);	the tokens of this step
 *	node_step_begin(n, end, &end);		the next one, without a gap
 *
 * The model
 *  - KV cache in blocks of 16 tokens, found by chained hash. A running request
 *    pins its blocks; what it releases goes to the end of an LRU list, its last
 *    block first, so that the tail of the least recently used chain is evicted
 *    first. Answers and questions are cached like any other tokens.
 *  - A block can be hit as soon as the step that computed it has ended. A
 *    request that misses a block that another one is still computing computes
 *    its own copy. The last token of a prompt is always computed.
 *  - A step takes one token of every decoding request, then chunks of prefills
 *    under way in order of admission, then admits from the queue in order of
 *    arrival, up to `batch_tokens` together, `max_seqs` running requests and as
 *    long as the free blocks hold the whole prompt and `watermark` remains.
 *  - A decode that finds no free block preempts the youngest running request,
 *    which goes back to the head of the queue and is computed again (what is
 *    still cached then is hit).
 *  - The first token appears at the end of the step that completes the prefill.
 *  - An adapter that is in no slot stalls the node for `adapter_load_ms`; the
 *    slot that went unused longest is taken, never one that runs a request.
 *    A request that finds every slot in use waits and lets others pass.
 *  - A step lasts (a + b*prefill_tokens + e*sum(chunk*context)
 *    + c*decode_sequences + d*decode_context_tokens) / speed, where the context
 *    of a chunk is the mean over its tokens: start + chunk/2. */
#ifndef KVSTEER_TOOLS_NODE_H
#define KVSTEER_TOOLS_NODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODE_BLOCK_TOKENS 16
#define NODE_NO_ADAPTER (-1)

struct node_config {
	double a_ms;			/* step overhead: weights over HBM, launch */
	double b_us;			/* a prefill token */
	double c_us;			/* a decoding sequence */
	double d_ns;			/* a context token of a decoding sequence */
	double e_ns;			/* a prefill token x a context token */
	double speed;			/* divides all of the above; 1 is the reference GPU */
	uint32_t batch_tokens;		/* tokens a step */
	uint32_t max_seqs;		/* running requests */
	uint32_t kv_tokens;		/* size of the KV cache */
	double watermark;		/* share of the blocks that admission leaves free */
	uint32_t adapter_slots;
	double adapter_load_ms;		/* not divided by speed: it is a copy from the host */
	uint32_t max_requests;		/* running + waiting; more are refused */
};

struct node_request {
	const uint64_t *hash;		/* chained hashes of the full blocks of prompt + answer; copied */
	uint32_t hashes;		/* (prompt_tokens + output_tokens) / 16; fewer: the rest is never hit */
	uint32_t prompt_tokens;		/* >= 1 */
	uint32_t output_tokens;		/* >= 1: exactly so many are generated */
	int32_t adapter;		/* any id, or NODE_NO_ADAPTER */
	uint64_t cookie;		/* the caller's, given back in every event */
};

#define NODE_EV_TOKEN 1u		/* one more token was generated */
#define NODE_EV_FIRST 2u		/* it is the first one */
#define NODE_EV_FINISHED 4u		/* it is the last one: the request is gone, its id invalid */
#define NODE_EV_PREEMPTED 8u		/* no token: pushed back to the queue */

struct node_event {
	uint64_t cookie;
	uint32_t flags;			/* NODE_EV_* */
	uint32_t generated;		/* tokens so far, this one included */
	uint32_t cached_tokens;		/* prompt tokens that the cache spared, at its first admission */
};

struct node_stats {
	uint32_t running, waiting;	/* requests, now */
	uint32_t waiting_deferred;	/* of the waiting: for want of an adapter slot, at the last step */
	uint32_t blocks_total, blocks_pinned, blocks_cached;	/* cached: findable, pinned or not */
	uint64_t prefill_left_tokens;	/* of running requests, at the last step boundary */
	uint64_t prefill_after_tokens;	/* of running requests, when the step under way will have ended */
	uint64_t waiting_tokens;	/* prompt tokens of the waiting, before any hit */
	/* counters since node_new() or node_reset() */
	uint64_t steps;
	uint64_t busy_ns;		/* sum of the steps' durations */
	uint64_t query_tokens, hit_tokens;	/* at first admission only */
	uint64_t prefill_tokens;	/* computed, recomputing included */
	uint64_t decode_tokens;
	uint64_t generated_tokens;
	uint64_t finished, aborted, preempted, refused;
	uint64_t evicted_blocks;
	uint64_t adapter_loads;
};

struct node;

/* The reference profile: Llama-3.1-70B BF16, TP8 on 8 H100. */
void node_config_default(struct node_config *cfg);

/* Returns a node with an empty cache that the caller frees with node_free(),
 * or NULL with errno EINVAL (a figure that makes no sense) or ENOMEM. */
struct node *node_new(const struct node_config *cfg);
/* The same, but blocks and what they hold are those of `with`, which must be freed
 * last: nodes whose caches are one (a bound that only free KV transfer could
 * reach). cfg->kv_tokens does not count then. */
struct node *node_new_sharing(const struct node_config *cfg, struct node *with);
void node_free(struct node *n);

/* Queues a request; it takes part from the next node_step_begin() on. *id (may
 * be NULL) names it for node_abort(). Returns 0, -EINVAL (no tokens), -E2BIG
 * (can never fit in this node's cache), -EBUSY (max_requests) or -ENOMEM. */
int node_submit(struct node *n, const struct node_request *req, uint64_t now_ns, uint64_t *id);

/* Drops a request: at once if it waits, at the end of the step under way if it
 * runs; no event of it follows. Returns 0 or -ENOENT (finished, unknown). */
int node_abort(struct node *n, uint64_t id);

/* Composes the next step and starts it at now_ns. Returns true and the time of
 * its end, or false when there is nothing to do. Not while node_stepping(). */
bool node_step_begin(struct node *n, uint64_t now_ns, uint64_t *end_ns);
bool node_stepping(const struct node *n);

/* Ends the step under way. Returns the number of its events; *events is the
 * node's own memory, valid until the next call that changes the node. */
size_t node_step_end(struct node *n, const struct node_event **events);

/* Prompt tokens that a request with these hashes would hit now. No effect on
 * the LRU order. Not capped at prompt - 1. */
uint32_t node_match_tokens(const struct node *n, const uint64_t *hash, uint32_t hashes);

bool node_adapter_resident(const struct node *n, int32_t adapter);

/* Ids of the adapters of running (or waiting) requests, each once, ascending, at most
 * `max` of them. Returns how many. */
size_t node_adapters(const struct node *n, bool of_running, int32_t *ids, size_t max);

/* As after a restart of the process: requests gone without events, cache,
 * adapters and counters empty. Also during a step. */
void node_reset(struct node *n);

void node_read_stats(const struct node *n, struct node_stats *out);
#endif
