/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Figures of the prefix index, the walk for moving one, and the check of all of its structures. */
#include "route/index_layout.h"

uint32_t index_node_blocks(const struct prefix_index *ix, uint32_t node)
{
	return ix->hdr->node[node].pairs - ix->hdr->node[node].answers;
}

uint64_t index_node_bytes(const struct prefix_index *ix, uint32_t node)
{
	return ix->hdr->node[node].bytes;
}

uint64_t index_node_capacity(const struct prefix_index *ix, uint32_t node)
{
	return ix->hdr->node[node].capacity;
}

uint32_t index_total_blocks(const struct prefix_index *ix)
{
	return ix->hdr->n_blocks;
}

uint32_t index_total_pairs(const struct prefix_index *ix)
{
	return ix->hdr->n_pairs;
}

uint64_t index_evictions(const struct prefix_index *ix)
{
	return ix->hdr->evictions;
}

uint32_t index_walk_node(const struct prefix_index *ix, uint32_t node,
			 void (*fn)(void *ctx, uint64_t hash, uint16_t bytes), void *ctx)
{
	uint32_t p, n = 0;

	for (p = ix->hdr->node[node].tail; p != INDEX_NONE; p = ix->pairs[p].prev) {
		const struct index_pair *pr = &ix->pairs[p];

		if (pr->flags & PAIR_ANSWER || !index_pair_current(ix, pr))
			continue;
		fn(ctx, ix->blocks[pr->block].hash, ix->blocks[pr->block].bytes);
		n++;
	}
	return n;
}

/* The node's LRU: links, counts, bytes, void pairs only at the old end. */
static int verify_node(const struct prefix_index *ix, uint32_t node)
{
	const struct index_node *nd = &ix->hdr->node[node];
	uint32_t p, prev = INDEX_NONE, pairs = 0, answers = 0;
	uint64_t bytes = 0;
	bool seen_void = false;

	for (p = nd->head; p != INDEX_NONE; prev = p, p = ix->pairs[p].next) {
		const struct index_pair *pr = &ix->pairs[p];

		if (pr->prev != prev || pr->node != node || ++pairs > nd->pairs)
			return __LINE__;
		answers += !!(pr->flags & PAIR_ANSWER);
		bytes += index_pair_bytes(ix, pr);
		if (!index_pair_current(ix, pr))
			seen_void = true;
		else if (seen_void)
			return __LINE__;
		if (index_find_block(ix, ix->blocks[pr->block].hash) != pr->block)
			return __LINE__;
		if (index_find_pair(ix, pr->block, node, pr->flags & PAIR_ANSWER) != p)
			return __LINE__;
		if (!(pr->flags & PAIR_ANSWER) && !index_set_has(ix, &ix->blocks[pr->block], node))
			return __LINE__;
	}
	if (nd->tail != prev || pairs != nd->pairs || answers != nd->answers || bytes != nd->bytes)
		return __LINE__;
	if (seen_void && !nd->dirty)
		return __LINE__;
	return nd->bytes > nd->capacity ? __LINE__ : 0;
}

int index_verify(const struct prefix_index *ix)
{
	const struct index_header *h = ix->hdr;
	uint32_t i, b, n, c, pairs = 0, blocks = 0, dirty = 0;
	int rc;

	for (i = 0; i < h->nodes; i++) {
		rc = verify_node(ix, i);
		if (rc)
			return rc;
		pairs += h->node[i].pairs;
		dirty += h->node[i].dirty;
	}
	if (pairs != h->n_pairs || dirty != h->dirty_nodes || h->changing)
		return __LINE__;
	for (i = 0; i < h->max_heads; i++) {
		for (b = ix->block_heads[i]; b; b = ix->blocks[b - 1].next) {
			const struct index_block *bl = &ix->blocks[b - 1];
			uint64_t w[4];
			uint32_t k, bits = 0;

			if (++blocks > h->n_blocks)
				return __LINE__;
			index_set_load(ix, bl, w);
			for (k = 0; k < ix->words; k++)
				bits += (uint32_t)__builtin_popcountll(w[k]);
			for (n = 0, c = bl->copies; c; c = ix->pairs[c - 1].copy)
				n += !(ix->pairs[c - 1].flags & PAIR_ANSWER);
			if (bits != bl->holders || n != bl->holders || !bl->copies)
				return __LINE__;
		}
	}
	return blocks == h->n_blocks ? 0 : __LINE__;
}
