/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Inside of the prefix index: what lies in the region, and the storage layer
 * (tables, node sets, lists) that index_store.c gives to index.c.
 *
 *   header | block hash table heads | blocks | pairs | wide sets
 *
 * A block is one prefix that at least one node holds. A pair is one (block, node): a
 * member of the node's LRU list and of the block's list of copies. Links are
 * numbers; tables store number + 1, so that zeroed memory is an empty index
 * and untouched pages are never committed. */
#ifndef KVSTEER_ROUTE_INDEX_LAYOUT_H
#define KVSTEER_ROUTE_INDEX_LAYOUT_H
#include "route/index.h"

#define INDEX_MAGIC 0x6b766978u /* "kvix" */
#define INDEX_SCHEMA 1

/* 28 bytes: aligned to 4 only, so that eight-byte fields cost no padding. */
struct index_block {
	uint64_t hash;
	uint64_t set;    /* nodes: bits up to 64 nodes; else see set_load() */
	uint32_t next;   /* in its hash chain, number + 1 */
	uint32_t copies; /* first pair, number + 1 */
	uint16_t bytes;
	uint16_t holders;
} __attribute__((packed, aligned(4)));

#define PAIR_CONFIRMED 0x01u /* a request that passed over it got its first token */
#define PAIR_ANSWER 0x02u    /* stands for an unread answer behind the block */
#define PAIR_EPOCH_SHIFT 4   /* high nibble: node's epoch when it was made */

struct index_pair {
	uint32_t prev, next; /* LRU of the node, number or INDEX_NONE; free list by next */
	uint32_t block;
	uint32_t copy;       /* next pair of the block, number + 1 */
	union {
		uint32_t made;         /* stamp of the request that made it */
		uint32_t answer_bytes; /* PAIR_ANSWER */
	};
	uint16_t pending;    /* requests without first token that rely on it, while not confirmed */
	uint8_t node;
	uint8_t flags;
};

struct index_node {
	uint64_t name_hash;
	uint64_t bytes, capacity;
	uint32_t head, tail; /* freshest, oldest */
	uint32_t pairs;      /* answers included */
	uint32_t answers;
	uint8_t epoch;       /* 0..15 */
	uint8_t dirty;       /* pairs of an older epoch remain, at the tail */
	uint8_t pad[6];
};

struct index_header {
	uint32_t magic, schema;
	uint64_t identity, bytes;
	uint32_t nodes, words;
	uint32_t max_pairs, max_heads, max_wide;
	uint32_t changing;   /* 1 inside a change: whoever finds it so must not adopt */
	uint32_t used_pairs, free_pairs;   /* high water, free list (number or NONE) */
	uint32_t used_blocks, free_blocks;
	uint32_t used_wide, free_wide;
	uint32_t n_pairs, n_blocks;
	uint32_t stamp;
	uint32_t dirty_nodes;
	uint64_t evictions;
	struct index_node node[INDEX_MAX_NODES];
};

_Static_assert(sizeof(struct index_block) == 28, "index_block layout");
_Static_assert(sizeof(struct index_pair) == 24, "index_pair layout");
_Static_assert(sizeof(struct index_node) == 48, "index_node layout");

static inline uint32_t *index_head(const struct prefix_index *ix, uint64_t hash)
{
	return &ix->block_heads[((hash >> 32) * ix->hdr->max_heads) >> 32];
}

/* The block of `hash`, or INDEX_NONE. */
static inline uint32_t index_find_block(const struct prefix_index *ix, uint64_t hash)
{
	uint32_t b = *index_head(ix, hash);

	while (b && ix->blocks[b - 1].hash != hash)
		b = ix->blocks[b - 1].next;
	return b ? b - 1 : INDEX_NONE;
}

static inline bool index_pair_current(const struct prefix_index *ix, const struct index_pair *p)
{
	return p->flags >> PAIR_EPOCH_SHIFT == ix->hdr->node[p->node].epoch;
}

/* index_store.c */
void index_bind(struct prefix_index *ix, void *mem);
uint32_t index_add_block(struct prefix_index *ix, uint64_t hash, uint16_t bytes);
void index_set_load(const struct prefix_index *ix, const struct index_block *b, uint64_t out[4]);
bool index_set_has(const struct prefix_index *ix, const struct index_block *b, uint32_t node);
/* The pair of (block, node) of the kind that `answer` says, or INDEX_NONE. */
uint32_t index_find_pair(const struct prefix_index *ix, uint32_t block, uint32_t node, bool answer);
/* A new pair, in the copies list but in no LRU yet; INDEX_NONE when the region is full. */
uint32_t index_add_pair(struct prefix_index *ix, uint32_t block, uint32_t node, uint8_t flags);
/* Takes the pair out of everything; frees the block with its last copy. */
void index_remove_pair(struct prefix_index *ix, uint32_t pair);
/* Moves the segment first..last of the node's LRU (or links it, if `linked` is false) behind
 * `after`, or to the front if that is INDEX_NONE. */
void index_lru_splice(struct prefix_index *ix, uint32_t node, uint32_t first, uint32_t last, uint32_t after,
		      bool linked);
uint32_t index_pair_bytes(const struct prefix_index *ix, const struct index_pair *p);
#endif
