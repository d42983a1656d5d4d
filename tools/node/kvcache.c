/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "node/kvcache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Two copies of the same tokens may exist (two requests computed them at the
 * same time); both stay findable, so that the chain outlives the eviction of
 * one of them. A bucket therefore holds blocks, not hashes. */

static uint32_t bucket_of(const struct kvcache *kv, uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32) & kv->bucket_mask;
}

int kvcache_init(struct kvcache *kv, uint32_t blocks)
{
	uint32_t buckets = 16;

	memset(kv, 0, sizeof(*kv));
	while (buckets < blocks && buckets < 1u << 30)
		buckets *= 2;
	kv->block = calloc(blocks, sizeof(*kv->block));
	kv->bucket = malloc(buckets * sizeof(*kv->bucket));
	if (!kv->block || !kv->bucket) {
		kvcache_destroy(kv);
		return -ENOMEM;
	}
	kv->bucket_mask = buckets - 1;
	kv->blocks = blocks;
	kvcache_clear(kv);
	return 0;
}

void kvcache_destroy(struct kvcache *kv)
{
	free(kv->block);
	free(kv->bucket);
	memset(kv, 0, sizeof(*kv));
}

void kvcache_clear(struct kvcache *kv)
{
	memset(kv->bucket, 0xff, ((size_t)kv->bucket_mask + 1) * sizeof(*kv->bucket));
	for (uint32_t b = 0; b < kv->blocks; b++) {
		struct kvcache_block *blk = &kv->block[b];

		memset(blk, 0, sizeof(*blk));
		blk->prev = b ? b - 1 : KVCACHE_NONE;
		blk->next = b + 1 < kv->blocks ? b + 1 : KVCACHE_NONE;
		blk->chain = KVCACHE_NONE;
	}
	kv->head = 0;
	kv->tail = kv->blocks - 1;
	kv->free = kv->blocks;
	kv->cached = 0;
	kv->evicted = 0;
}

static void free_list_del(struct kvcache *kv, uint32_t b)
{
	struct kvcache_block *blk = &kv->block[b];

	if (blk->prev == KVCACHE_NONE)
		kv->head = blk->next;
	else
		kv->block[blk->prev].next = blk->next;
	if (blk->next == KVCACHE_NONE)
		kv->tail = blk->prev;
	else
		kv->block[blk->next].prev = blk->prev;
	kv->free--;
}

static void free_list_add(struct kvcache *kv, uint32_t b, bool at_head)
{
	struct kvcache_block *blk = &kv->block[b];

	blk->prev = at_head ? KVCACHE_NONE : kv->tail;
	blk->next = at_head ? kv->head : KVCACHE_NONE;
	if (blk->prev == KVCACHE_NONE)
		kv->head = b;
	else
		kv->block[blk->prev].next = b;
	if (blk->next == KVCACHE_NONE)
		kv->tail = b;
	else
		kv->block[blk->next].prev = b;
	kv->free++;
}

static void unpublish(struct kvcache *kv, uint32_t b)
{
	uint32_t *at = &kv->bucket[bucket_of(kv, kv->block[b].hash)];

	while (*at != b)
		at = &kv->block[*at].chain;
	*at = kv->block[b].chain;
	kv->block[b].chain = KVCACHE_NONE;
	kv->block[b].hashed = false;
	kv->cached--;
}

uint32_t kvcache_find(const struct kvcache *kv, uint64_t hash)
{
	uint32_t b = kv->bucket[bucket_of(kv, hash)];

	while (b != KVCACHE_NONE && kv->block[b].hash != hash)
		b = kv->block[b].chain;
	return b;
}

void kvcache_pin(struct kvcache *kv, uint32_t b)
{
	if (kv->block[b].refs++ == 0)
		free_list_del(kv, b);
}

uint32_t kvcache_alloc(struct kvcache *kv)
{
	uint32_t b = kv->head;

	if (b == KVCACHE_NONE)
		return b;
	free_list_del(kv, b);
	kv->block[b].refs = 1;
	if (kv->block[b].hashed) {
		unpublish(kv, b);
		kv->evicted++;
	}
	return b;
}

void kvcache_publish(struct kvcache *kv, uint32_t b, uint64_t hash)
{
	struct kvcache_block *blk = &kv->block[b];
	uint32_t *at = &kv->bucket[bucket_of(kv, hash)];

	if (blk->hashed)
		return;
	blk->hash = hash;
	blk->hashed = true;
	blk->chain = *at;
	*at = b;
	kv->cached++;
}

void kvcache_unpin(struct kvcache *kv, uint32_t b)
{
	if (--kv->block[b].refs == 0)
		free_list_add(kv, b, !kv->block[b].hashed);
}
