/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The block pool of one node: reference counts, hash lookup, and the list of
 * free blocks in the order in which they will be evicted. Internal to node/. */
#ifndef KVSTEER_TOOLS_NODE_KVCACHE_H
#define KVSTEER_TOOLS_NODE_KVCACHE_H
#include <stdbool.h>
#include <stdint.h>

#define KVCACHE_NONE UINT32_MAX

struct kvcache_block {
	uint64_t hash;
	uint32_t refs;
	uint32_t prev, next;	/* list of free blocks, while refs == 0 */
	uint32_t chain;		/* next block of the same hash bucket */
	bool hashed;		/* findable */
};

struct kvcache {
	struct kvcache_block *block;
	uint32_t *bucket;
	uint32_t bucket_mask;
	uint32_t blocks;
	uint32_t free;		/* refs == 0: empty or cached, can be taken */
	uint32_t cached;	/* findable blocks, in use or not */
	uint32_t head, tail;	/* free list: the head is taken next */
	uint64_t evicted;
};

/* Returns 0 or -ENOMEM. */
int kvcache_init(struct kvcache *kv, uint32_t blocks);
void kvcache_destroy(struct kvcache *kv);
/* Forgets everything; blocks in use become free. */
void kvcache_clear(struct kvcache *kv);
/* A findable block of that hash, or KVCACHE_NONE. */
uint32_t kvcache_find(const struct kvcache *kv, uint64_t hash);
/* One more user of a found block. */
void kvcache_pin(struct kvcache *kv, uint32_t b);
/* Takes the first free block, evicting what it holds. KVCACHE_NONE when none is free. */
uint32_t kvcache_alloc(struct kvcache *kv);
/* Makes a block in use findable. */
void kvcache_publish(struct kvcache *kv, uint32_t b, uint64_t hash);
/* One user less. The last one puts the block at the end of the free list, or,
 * when its content can't be found anyway, at the head. */
void kvcache_unpin(struct kvcache *kv, uint32_t b);
#endif
