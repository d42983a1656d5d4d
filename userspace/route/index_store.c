/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Storage layer of the prefix index: region, block table, node sets, copies, LRU links. */
#include "route/index_layout.h"

#include <errno.h>
#include <string.h>

/* A chained table at this load: 1.25 heads a block. */
static uint32_t heads_for(uint32_t pairs)
{
	return pairs + pairs / 4 + 1;
}

/* In pools over 64 nodes a block with up to 7 holders lists them in its own
 * eight bytes; wider ones, of which there are at most pairs / 8, take a bit set. */
#define SET_INLINE_MAX 7u
#define SET_WIDE 0xffu

static uint32_t wide_for(uint32_t nodes, uint32_t pairs)
{
	return nodes > 64 ? pairs / (SET_INLINE_MAX + 1) + 1 : 0;
}

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

struct regions {
	size_t heads, blocks, pairs, wide, end;
};

static struct regions regions_of(uint32_t nodes, uint32_t pairs)
{
	struct regions r;

	r.heads = round_up(sizeof(struct index_header), 64);
	r.blocks = round_up(r.heads + (size_t)heads_for(pairs) * 4, 64);
	r.pairs = round_up(r.blocks + (size_t)pairs * sizeof(struct index_block), 64);
	r.wide = round_up(r.pairs + (size_t)pairs * sizeof(struct index_pair), 64);
	r.end = round_up(r.wide + (size_t)wide_for(nodes, pairs) * 32, 4096);
	return r;
}

size_t index_bytes(uint32_t nodes, uint32_t pairs)
{
	return regions_of(nodes, pairs).end;
}

uint32_t index_pairs_in(uint32_t nodes, size_t bytes)
{
	uint32_t lo = 0, hi = 0x7fffffff;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo + 1) / 2;

		if (index_bytes(nodes, mid) <= bytes)
			lo = mid;
		else
			hi = mid - 1;
	}
	return lo;
}

void index_bind(struct prefix_index *ix, void *mem)
{
	struct index_header *h = mem;
	struct regions r = regions_of(h->nodes, h->max_pairs);

	ix->hdr = h;
	ix->block_heads = (uint32_t *)((char *)mem + r.heads);
	ix->blocks = (struct index_block *)((char *)mem + r.blocks);
	ix->pairs = (struct index_pair *)((char *)mem + r.pairs);
	ix->wide = (uint64_t *)((char *)mem + r.wide);
	ix->words = h->words;
}

int index_init(struct prefix_index *ix, void *mem, size_t bytes, uint32_t nodes, uint32_t pairs, uint64_t identity)
{
	struct index_header *h = mem;
	uint32_t i;

	if (!nodes || nodes > INDEX_MAX_NODES || !pairs || pairs > 0x7fffffff || index_bytes(nodes, pairs) > bytes)
		return -EINVAL;
	memset(h, 0, sizeof(*h));
	h->schema = INDEX_SCHEMA;
	h->identity = identity;
	h->bytes = bytes;
	h->nodes = nodes;
	h->words = nodes > 64 ? 4 : 1;
	h->max_pairs = pairs;
	h->max_heads = heads_for(pairs);
	h->max_wide = wide_for(nodes, pairs);
	h->free_pairs = h->free_blocks = h->free_wide = INDEX_NONE;
	for (i = 0; i < INDEX_MAX_NODES; i++)
		h->node[i].head = h->node[i].tail = INDEX_NONE;
	index_bind(ix, mem);
	__atomic_store_n(&h->magic, INDEX_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

int index_attach(struct prefix_index *ix, void *mem, size_t bytes, uint32_t nodes, uint64_t identity)
{
	const struct index_header *h = mem;

	if (bytes < sizeof(*h) || h->magic != INDEX_MAGIC || h->schema != INDEX_SCHEMA || h->identity != identity ||
	    h->nodes != nodes || h->bytes > bytes || index_bytes(h->nodes, h->max_pairs) > bytes)
		return -EPROTO;
	if (h->changing)
		return -EIO;
	index_bind(ix, mem);
	return 0;
}

/* ---- node sets -------------------------------------------------------------- */

struct inline_set {
	uint8_t n; /* 0..7, or SET_WIDE */
	uint8_t node[7];
};


static uint64_t set_from_inline(struct inline_set s)
{
	uint64_t v;

	memcpy(&v, &s, 8);
	return v;
}

static struct inline_set set_to_inline(uint64_t v)
{
	struct inline_set s;

	memcpy(&s, &v, 8);
	return s;
}

/* The mark of a wide set: SET_WIDE in the byte that holds an inline set's
 * count, the set's number in the last four. */
static uint64_t set_from_wide(uint32_t number)
{
	struct inline_set s = { .n = SET_WIDE };

	memcpy(&s.node[3], &number, 4);
	return set_from_inline(s);
}

static bool set_is_wide(uint64_t set, uint32_t *number)
{
	struct inline_set s = set_to_inline(set);

	memcpy(number, &s.node[3], 4);
	return s.n == SET_WIDE;
}

void index_set_load(const struct prefix_index *ix, const struct index_block *b, uint64_t out[4])
{
	struct inline_set s;
	uint32_t number, i;

	if (ix->words == 1) {
		out[0] = b->set;
		return;
	}
	if (set_is_wide(b->set, &number)) {
		memcpy(out, &ix->wide[(size_t)number * 4], 32);
		return;
	}
	s = set_to_inline(b->set);
	memset(out, 0, 32);
	for (i = 0; i < s.n; i++)
		out[s.node[i] / 64] |= 1ull << (s.node[i] % 64);
}

bool index_set_has(const struct prefix_index *ix, const struct index_block *b, uint32_t node)
{
	uint64_t w[4];

	index_set_load(ix, b, w);
	return w[node / 64] >> (node % 64) & 1;
}

static uint32_t wide_alloc(struct prefix_index *ix)
{
	struct index_header *h = ix->hdr;
	uint32_t n = h->free_wide;

	if (n != INDEX_NONE) {
		h->free_wide = (uint32_t)ix->wide[(size_t)n * 4];
		return n;
	}
	return h->used_wide < h->max_wide ? h->used_wide++ : INDEX_NONE;
}

/* False only if no wide set is free, which their number rules out. */
static bool set_add(struct prefix_index *ix, struct index_block *b, uint32_t node)
{
	struct inline_set s;
	uint64_t w[4], *wide;
	uint32_t number;

	if (ix->words == 1) {
		b->set |= 1ull << node;
	} else if (set_is_wide(b->set, &number)) {
		ix->wide[(size_t)number * 4 + node / 64] |= 1ull << (node % 64);
	} else {
		s = set_to_inline(b->set);
		if (s.n < SET_INLINE_MAX) {
			s.node[s.n++] = (uint8_t)node;
			b->set = set_from_inline(s);
		} else {
			index_set_load(ix, b, w);
			number = wide_alloc(ix);
			if (number == INDEX_NONE)
				return false;
			wide = &ix->wide[(size_t)number * 4];
			memcpy(wide, w, 32);
			wide[node / 64] |= 1ull << (node % 64);
			b->set = set_from_wide(number);
		}
	}
	b->holders++;
	return true;
}

static void set_del(struct prefix_index *ix, struct index_block *b, uint32_t node)
{
	struct inline_set s;
	uint32_t number, i;

	b->holders--;
	if (ix->words == 1) {
		b->set &= ~(1ull << node);
		return;
	}
	if (set_is_wide(b->set, &number)) {
		uint64_t *w = &ix->wide[(size_t)number * 4];

		w[node / 64] &= ~(1ull << (node % 64));
		if (b->holders > SET_INLINE_MAX)
			return;
		memset(&s, 0, sizeof(s));
		for (i = 0; i < INDEX_MAX_NODES; i++)
			if (w[i / 64] >> (i % 64) & 1)
				s.node[s.n++] = (uint8_t)i;
		b->set = set_from_inline(s);
		w[0] = ix->hdr->free_wide;
		ix->hdr->free_wide = number;
		return;
	}
	s = set_to_inline(b->set);
	for (i = 0; i < s.n; i++) {
		if (s.node[i] == node) {
			s.node[i] = s.node[--s.n];
			break;
		}
	}
	b->set = set_from_inline(s);
}

/* ---- blocks and pairs ------------------------------------------------------ */

uint32_t index_add_block(struct prefix_index *ix, uint64_t hash, uint16_t bytes)
{
	struct index_header *h = ix->hdr;
	uint32_t n = h->free_blocks, *head = index_head(ix, hash);
	struct index_block *b;

	if (n != INDEX_NONE)
		h->free_blocks = ix->blocks[n].next;
	else if (h->used_blocks < h->max_pairs)
		n = h->used_blocks++;
	else
		return INDEX_NONE;
	b = &ix->blocks[n];
	b->hash = hash;
	b->set = 0;
	b->copies = 0;
	b->bytes = bytes;
	b->holders = 0;
	b->next = *head;
	*head = n + 1;
	h->n_blocks++;
	return n;
}

static void free_block(struct prefix_index *ix, uint32_t n)
{
	struct index_block *b = &ix->blocks[n];
	uint32_t *link = index_head(ix, b->hash);

	if (*link == n + 1) {
		*link = b->next;
	} else {
		struct index_block *p = &ix->blocks[*link - 1];

		while (p->next != n + 1)
			p = &ix->blocks[p->next - 1];
		p->next = b->next;
	}
	b->next = ix->hdr->free_blocks;
	ix->hdr->free_blocks = n;
	ix->hdr->n_blocks--;
}

uint32_t index_find_pair(const struct prefix_index *ix, uint32_t block, uint32_t node, bool answer)
{
	uint32_t p;

	for (p = ix->blocks[block].copies; p; p = ix->pairs[p - 1].copy) {
		const struct index_pair *pr = &ix->pairs[p - 1];

		if (pr->node == node && !!(pr->flags & PAIR_ANSWER) == answer)
			return p - 1;
	}
	return INDEX_NONE;
}

uint32_t index_pair_bytes(const struct prefix_index *ix, const struct index_pair *p)
{
	return p->flags & PAIR_ANSWER ? p->answer_bytes : ix->blocks[p->block].bytes;
}

uint32_t index_add_pair(struct prefix_index *ix, uint32_t block, uint32_t node, uint8_t flags)
{
	struct index_header *h = ix->hdr;
	struct index_block *b = &ix->blocks[block];
	uint32_t n = h->free_pairs;
	struct index_pair *p;

	if (n == INDEX_NONE && h->used_pairs == h->max_pairs)
		return INDEX_NONE;
	if (!(flags & PAIR_ANSWER) && !set_add(ix, b, node))
		return INDEX_NONE;
	if (n != INDEX_NONE)
		h->free_pairs = ix->pairs[n].next;
	else
		n = h->used_pairs++;
	p = &ix->pairs[n];
	p->prev = p->next = INDEX_NONE;
	p->block = block;
	p->made = 0;
	p->pending = 0;
	p->node = (uint8_t)node;
	p->flags = (uint8_t)(flags | h->node[node].epoch << PAIR_EPOCH_SHIFT);
	p->copy = b->copies;
	b->copies = n + 1;
	h->n_pairs++;
	h->node[node].pairs++;
	h->node[node].answers += !!(flags & PAIR_ANSWER);
	return n;
}

static void lru_unlink(struct prefix_index *ix, uint32_t node, uint32_t first, uint32_t last)
{
	struct index_node *nd = &ix->hdr->node[node];
	uint32_t before = ix->pairs[first].prev, behind = ix->pairs[last].next;

	if (before != INDEX_NONE)
		ix->pairs[before].next = behind;
	else
		nd->head = behind;
	if (behind != INDEX_NONE)
		ix->pairs[behind].prev = before;
	else
		nd->tail = before;
}

void index_lru_splice(struct prefix_index *ix, uint32_t node, uint32_t first, uint32_t last, uint32_t after,
		      bool linked)
{
	struct index_node *nd = &ix->hdr->node[node];
	uint32_t behind;

	if (linked) {
		if (ix->pairs[first].prev == after)
			return; /* in place already */
		lru_unlink(ix, node, first, last);
	}
	behind = after == INDEX_NONE ? nd->head : ix->pairs[after].next;
	ix->pairs[first].prev = after;
	ix->pairs[last].next = behind;
	if (after == INDEX_NONE)
		nd->head = first;
	else
		ix->pairs[after].next = first;
	if (behind == INDEX_NONE)
		nd->tail = last;
	else
		ix->pairs[behind].prev = last;
}

static void remove_one(struct prefix_index *ix, uint32_t n)
{
	struct index_pair *p = &ix->pairs[n];
	struct index_block *b = &ix->blocks[p->block];
	struct index_node *nd = &ix->hdr->node[p->node];
	uint32_t c;

	nd->bytes -= index_pair_bytes(ix, p);
	nd->pairs--;
	nd->answers -= !!(p->flags & PAIR_ANSWER);
	lru_unlink(ix, p->node, n, n);
	if (b->copies == n + 1) {
		b->copies = p->copy;
	} else {
		for (c = b->copies; ix->pairs[c - 1].copy != n + 1; c = ix->pairs[c - 1].copy)
			;
		ix->pairs[c - 1].copy = p->copy;
	}
	if (!(p->flags & PAIR_ANSWER))
		set_del(ix, b, p->node);
	if (!b->copies)
		free_block(ix, p->block);
	p->next = ix->hdr->free_pairs;
	ix->hdr->free_pairs = n;
	ix->hdr->n_pairs--;
}

void index_remove_pair(struct prefix_index *ix, uint32_t n)
{
	const struct index_pair *p = &ix->pairs[n];

	/* An answer means nothing without the prompt it follows. */
	if (!(p->flags & PAIR_ANSWER) && ix->hdr->node[p->node].answers) {
		uint32_t a = index_find_pair(ix, p->block, p->node, true);

		if (a != INDEX_NONE)
			remove_one(ix, a);
	}
	remove_one(ix, n);
}
