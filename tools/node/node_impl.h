/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of node/ share. Not for users of the model. */
#ifndef KVSTEER_TOOLS_NODE_IMPL_H
#define KVSTEER_TOOLS_NODE_IMPL_H
#include "node/kvcache.h"
#include "node/node.h"

#define SEQ_NONE UINT32_MAX

enum seq_state { SEQ_FREE, SEQ_WAITING, SEQ_RUNNING };

/* A request inside the node. */
struct node_seq {
	enum seq_state state;
	uint32_t generation;	/* of the table entry, for stale ids */
	uint32_t prev, next;	/* queue of the waiting; free entries by next */
	uint64_t cookie;
	uint64_t *hash;
	uint32_t hashes;
	uint32_t *block;	/* held blocks, in order of the tokens */
	uint32_t blocks, blocks_room;
	uint32_t prompt_tokens, output_tokens;
	uint32_t generated;
	uint32_t computed;	/* tokens whose KV is there */
	uint32_t chunk;		/* tokens of the step under way */
	uint32_t cached_tokens;
	int32_t adapter;
	bool decoding;
	bool admitted;		/* once at least */
	bool aborted;
};

struct node_adapter {
	int32_t id;
	uint32_t running;	/* requests */
	uint64_t used;		/* step of the last use */
};

struct node {
	struct node_config cfg;
	struct kvcache *kv;	/* own_kv, or another node's */
	struct kvcache own_kv;
	uint32_t watermark_blocks;
	struct node_seq *seq;
	uint32_t seqs;		/* entries of the table */
	uint32_t seq_free;
	uint32_t *running;	/* in order of admission */
	uint32_t wait_head, wait_tail;
	struct node_adapter *adapter;	/* cfg.adapter_slots */
	uint32_t adapters;
	bool stepping;
	uint32_t step_decodes;
	uint64_t step_prefill_tokens;
	struct node_event *event;	/* 2 * max_seqs */
	uint32_t events;
	uint32_t preempts;		/* the first events of the step */
	struct node_stats st;
};

/* Tokens that must be in the cache before the next one can be sampled. */
static inline uint32_t seq_tokens(const struct node_seq *s)
{
	return s->prompt_tokens + s->generated;
}

static inline uint32_t node_blocks_for(uint32_t tokens)
{
	return tokens / NODE_BLOCK_TOKENS + (tokens % NODE_BLOCK_TOKENS != 0);
}

void node_wait_add(struct node *n, uint32_t i, bool at_head);
void node_wait_del(struct node *n, uint32_t i);
/* Gives the blocks and the adapter's slot back, last block first. */
void node_seq_release(struct node *n, struct node_seq *s);
void node_seq_free(struct node *n, uint32_t i);
struct node_adapter *node_adapter_find(const struct node *n, int32_t id);
#endif
