/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The prefix index: which nodes of a pool hold which blocks of which prompts,
 * by what was sent to them. Block hashes are chained, so that a block stands
 * for its whole prefix.
 *
 * One contiguous region without pointers: it can lie in shared memory and be
 * adopted by a later process. Bounded: each node has a capacity in bytes of
 * canonical prompt and an LRU of its blocks; all nodes together have a fixed
 * number of entries, evicted at insert. Under 64 bytes per (block, node).
 *
 * Invariant that lookups build on: a node that holds a block holds all blocks
 * before it in the chain. It stays true because every touch refreshes a chain
 * from its tail to its head (ancestors are always fresher than descendants),
 * and eviction takes the oldest.
 *
 * Not thread safe: the caller holds the pool's lock. */
#ifndef KVSTEER_ROUTE_INDEX_H
#define KVSTEER_ROUTE_INDEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_MAX_NODES 256
#define INDEX_NONE 0xffffffffu

struct index_header;

/* Process-local handle: offsets of the region resolved. */
struct prefix_index {
	struct index_header *hdr;
	struct index_block *blocks;
	struct index_pair *pairs;
	uint32_t *block_heads;  /* hash table of blocks: chains */
	uint64_t *wide;         /* node sets of widely held blocks, pools over 64 nodes */
	uint32_t words;         /* of a node set: 1 up to 64 nodes, else 4 */
};

/* Bytes of a region for `nodes` nodes and `pairs` (block, node) entries. */
size_t index_bytes(uint32_t nodes, uint32_t pairs);
/* Most pairs that fit into `bytes`; 0 if none. */
uint32_t index_pairs_in(uint32_t nodes, size_t bytes);

/* Lays an empty index into zeroed memory (page aligned, index_bytes() long) for node numbers
 * 0..nodes-1. `identity` names the pool (a hash of its name). Returns 0 or -EINVAL. */
int index_init(struct prefix_index *ix, void *mem, size_t bytes, uint32_t nodes, uint32_t pairs, uint64_t identity);
/* Adopts what another process left. -EPROTO: no index of this schema, identity, size; -EIO: it died inside a change. */
int index_attach(struct prefix_index *ix, void *mem, size_t bytes, uint32_t nodes, uint64_t identity);

/* Node numbers are 0 .. this - 1. */
uint32_t index_nodes(const struct prefix_index *ix);
/* Node numbers are kept by name over processes: a hash of the name, 0 free. */
uint64_t index_node_name(const struct prefix_index *ix, uint32_t node);
void index_set_node_name(struct prefix_index *ix, uint32_t node, uint64_t name_hash);

/* Capacity of a node in bytes of prompt; shrinking evicts at once. */
void index_set_capacity(struct prefix_index *ix, uint32_t node, uint64_t bytes);

/* Leading run of the chain on every node: run[node] = number of leading blocks
 * that it holds, for node < nodes of the index. O(distinct ends x log n) lookups. */
void index_match(const struct prefix_index *ix, const uint64_t *hash, uint32_t n, uint32_t *run);

/* What an insert did. */
struct index_insert_result {
	uint32_t first_pending; /* first block whose entry no success has confirmed yet; n if none */
	uint32_t first_made;    /* first block that was not there before; n if none */
	uint32_t kept;          /* blocks that the node holds now; less than n only if n exceeds its capacity */
};

/* The node will hold blocks 0..n-1: makes what is missing, refreshes the rest,
 * evicts the oldest beyond the capacity (never blocks of this chain, unless it
 * alone is larger than the node: then its tail stays out). `stamp`: the
 * request's, from index_next_stamp(); `confirmed`: known to be there, not to be taken back. */
void index_insert(struct prefix_index *ix, uint32_t node, const uint64_t *hash, const uint16_t *bytes, uint32_t n,
		  uint32_t stamp, bool confirmed, struct index_insert_result *res);
uint32_t index_next_stamp(struct prefix_index *ix);
void index_set_stamp(struct prefix_index *ix, uint32_t stamp);

/* The request succeeded: its entries from first_pending on are real. */
void index_confirm(struct prefix_index *ix, uint32_t node, const uint64_t *hash, uint32_t n, uint32_t first_pending,
		   uint32_t stamp);
/* The request failed: entries that only requests without success had made, this one
 * the last of them, are removed. Returns the number removed (the tail of the chain). */
uint32_t index_retract(struct prefix_index *ix, uint32_t node, const uint64_t *hash, uint32_t n,
		       uint32_t first_pending, uint32_t stamp);

/* An answer of `bytes` bytes that nobody read follows the prompt that ends with
 * block hash `last`: it presses on the node's LRU like blocks would, and
 * marks the prompt as served. No effect if the node does not hold `last`. */
void index_add_answer(struct prefix_index *ix, uint32_t node, uint64_t last, uint64_t bytes);
/* Bytes of the unread answer behind `last` on the node, 0 if there is none. */
uint64_t index_answer_bytes(const struct prefix_index *ix, uint32_t node, uint64_t last);
/* Its blocks are known now: the place holder goes. */
void index_drop_answer(struct prefix_index *ix, uint32_t node, uint64_t last);

/* All of the node's entries are void (gone or restarted). The node matches
 * nothing from now on; the entries go little by little by index_sweep(). */
void index_forget_node(struct prefix_index *ix, uint32_t node);
/* Removes up to `budget` void entries. Returns true while there are more. */
bool index_sweep(struct prefix_index *ix, uint32_t budget);
/* True while void entries of the node remain. */
bool index_node_dirty(const struct prefix_index *ix, uint32_t node);

uint32_t index_node_blocks(const struct prefix_index *ix, uint32_t node);
uint64_t index_node_bytes(const struct prefix_index *ix, uint32_t node);
uint64_t index_node_capacity(const struct prefix_index *ix, uint32_t node);
uint32_t index_total_blocks(const struct prefix_index *ix);
uint32_t index_total_pairs(const struct prefix_index *ix);
uint64_t index_evictions(const struct prefix_index *ix);
/* Blocks of a node from oldest to freshest, place holders left out: for moving an index. */
uint32_t index_walk_node(const struct prefix_index *ix, uint32_t node,
			 void (*fn)(void *ctx, uint64_t hash, uint16_t bytes), void *ctx);
/* Checks every structure against every other (tests). 0, or the line of the first check that failed. */
int index_verify(const struct prefix_index *ix);
#endif
