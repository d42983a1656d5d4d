/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The prefix index: inserting, taking back, forgetting. See index.h
 * for the invariant (a node's blocks are closed towards the chain's start). */
#include "route/index_layout.h"

#include <string.h>

#define PREFETCH_AHEAD 8

/* A process that dies inside a change leaves lists half linked: the mark keeps
 * the next one from adopting them. */
static void change_begin(struct prefix_index *ix)
{
	__atomic_store_n(&ix->hdr->changing, 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void change_end(struct prefix_index *ix)
{
	__atomic_store_n(&ix->hdr->changing, 0, __ATOMIC_RELEASE);
}

/* Stamps wrap; a pending request is never 2^31 stamps old. */
static bool stamp_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

uint32_t index_next_stamp(struct prefix_index *ix)
{
	return ++ix->hdr->stamp;
}

void index_set_stamp(struct prefix_index *ix, uint32_t stamp)
{
	ix->hdr->stamp = stamp;
}

/* ---- finding a chain's pairs -------------------------------------------------- */

/* The current pair of (hash, node). `guess`, a neighbour in the LRU, mostly is
 * it already: chains lie there in order. */
static uint32_t pair_of(const struct prefix_index *ix, uint32_t node, uint64_t hash, uint32_t guess)
{
	uint32_t b, p;

	if (guess != INDEX_NONE && !(ix->pairs[guess].flags & PAIR_ANSWER) &&
	    ix->blocks[ix->pairs[guess].block].hash == hash)
		return index_pair_current(ix, &ix->pairs[guess]) ? guess : INDEX_NONE;
	b = index_find_block(ix, hash);
	if (b == INDEX_NONE || !index_set_has(ix, &ix->blocks[b], node))
		return INDEX_NONE;
	p = index_find_pair(ix, b, node, false);
	return p != INDEX_NONE && index_pair_current(ix, &ix->pairs[p]) ? p : INDEX_NONE;
}

/* ---- eviction ------------------------------------------------------------------ */

/* Takes the node's oldest pair, unless it is `keep`. */
static bool evict_oldest(struct prefix_index *ix, uint32_t node, uint32_t keep)
{
	uint32_t tail = ix->hdr->node[node].tail;

	if (tail == INDEX_NONE || tail == keep)
		return false;
	index_remove_pair(ix, tail);
	ix->hdr->evictions++;
	return true;
}

#define EVICT_BATCH 8

/* Evicts down to the capacity, but never `keep`. What an entry hangs on lies all over the region:
 * in batches, so that the cache misses of eight entries overlap. */
static void evict_to_capacity(struct prefix_index *ix, uint32_t node, uint32_t keep)
{
	struct index_node *nd = &ix->hdr->node[node];
	uint32_t batch[EVICT_BATCH], n, i, p;

	while (nd->bytes > nd->capacity) {
		for (n = 0, p = nd->tail; n < EVICT_BATCH && p != INDEX_NONE; p = ix->pairs[p].prev) {
			batch[n++] = p;
			__builtin_prefetch(&ix->blocks[ix->pairs[p].block]);
		}
		for (i = 0; i < n; i++)
			__builtin_prefetch(index_head(ix, ix->blocks[ix->pairs[batch[i]].block].hash));
		for (i = 0; i < n && nd->bytes > nd->capacity; i++) {
			/* Removing one may have removed its answer too: look at the list again. */
			if (nd->tail != batch[i])
				break;
			if (!evict_oldest(ix, node, keep))
				return;
		}
		if (!n)
			return;
	}
}

/* The region is full: the node's own oldest goes, or that of the largest node. */
static bool make_room(struct prefix_index *ix, uint32_t node, uint32_t keep)
{
	uint32_t i, largest = node;

	if (evict_oldest(ix, node, keep))
		return true;
	for (i = 0; i < ix->hdr->nodes; i++)
		if (i != node && (largest == node || ix->hdr->node[i].pairs > ix->hdr->node[largest].pairs))
			largest = i;
	return largest != node && evict_oldest(ix, largest, INDEX_NONE);
}

static void prefetch_block(const struct prefix_index *ix, const uint64_t *hash, uint32_t i, uint32_t n)
{
	uint32_t b;

	if (i + PREFETCH_AHEAD < n)
		__builtin_prefetch(index_head(ix, hash[i + PREFETCH_AHEAD]));
	if (i + PREFETCH_AHEAD / 2 < n) {
		b = *index_head(ix, hash[i + PREFETCH_AHEAD / 2]);
		if (b)
			__builtin_prefetch(&ix->blocks[b - 1]);
	}
}

/* ---- inserting ------------------------------------------------------------------ */

/* A void pair of an older epoch counts again, as if made now. */
static void pair_renew(struct prefix_index *ix, struct index_pair *p, uint32_t stamp, bool confirmed)
{
	p->flags = (uint8_t)((confirmed ? PAIR_CONFIRMED : 0) | ix->hdr->node[p->node].epoch << PAIR_EPOCH_SHIFT);
	p->made = stamp;
	p->pending = confirmed ? 0 : 1;
}

/* One more request passes over the pair. */
static void pair_touch(struct index_pair *p, bool confirmed)
{
	if (confirmed)
		p->flags |= PAIR_CONFIRMED;
	else if (!(p->flags & PAIR_CONFIRMED) && p->pending < UINT16_MAX)
		p->pending++;
}

/* Makes the pair of block i of the chain behind `after`. INDEX_NONE if the region has no room, or
 * if the node has the block already: then two blocks of one chain have the same hash, which a
 * client can make on purpose (XXH3 is no cryptographic hash), and the chain ends here. */
static uint32_t insert_new(struct prefix_index *ix, uint32_t node, uint64_t hash, uint16_t bytes, uint32_t stamp,
			   bool confirmed, uint32_t after)
{
	uint32_t b, p, void_pair;

	for (;;) {
		b = index_find_block(ix, hash);
		if (b != INDEX_NONE && index_set_has(ix, &ix->blocks[b], node)) {
			void_pair = index_find_pair(ix, b, node, false);
			if (index_pair_current(ix, &ix->pairs[void_pair]))
				return INDEX_NONE;
			pair_renew(ix, &ix->pairs[void_pair], stamp, confirmed);
			index_lru_splice(ix, node, void_pair, void_pair, after, true);
			return void_pair;
		}
		/* Room is looked for before the block is made: evicting may free blocks. */
		if (ix->hdr->n_pairs < ix->hdr->max_pairs)
			break;
		if (!make_room(ix, node, after))
			return INDEX_NONE;
	}
	if (b == INDEX_NONE)
		b = index_add_block(ix, hash, bytes);
	p = index_add_pair(ix, b, node, confirmed ? PAIR_CONFIRMED : 0);
	ix->pairs[p].made = stamp;
	ix->pairs[p].pending = confirmed ? 0 : 1;
	ix->hdr->node[node].bytes += ix->blocks[b].bytes;
	index_lru_splice(ix, node, p, p, after, false);
	return p;
}

void index_insert(struct prefix_index *ix, uint32_t node, const uint64_t *hash, const uint16_t *bytes, uint32_t n,
		  uint32_t stamp, bool confirmed, struct index_insert_result *res)
{
	struct index_node *nd = &ix->hdr->node[node];
	uint32_t i = 0, last = INDEX_NONE, first, p, guess;
	struct index_insert_result r = { n, n, n };
	uint64_t made_bytes = 0;

	change_begin(ix);
	/* What the node holds: whole segments of its LRU move to the front, in order. */
	while (i < n) {
		guess = last == INDEX_NONE ? nd->head : ix->pairs[last].next;
		p = first = pair_of(ix, node, hash[i], guess);
		if (p == INDEX_NONE || p == last) /* `last` again: colliding hashes, see insert_new() */
			break;
		for (;;) {
			if (!(ix->pairs[p].flags & PAIR_CONFIRMED) && r.first_pending == n)
				r.first_pending = i;
			pair_touch(&ix->pairs[p], confirmed);
			i++;
			guess = ix->pairs[p].next;
			if (i == n || guess == INDEX_NONE || guess == last || ix->pairs[guess].flags & PAIR_ANSWER ||
			    ix->blocks[ix->pairs[guess].block].hash != hash[i] ||
			    !index_pair_current(ix, &ix->pairs[guess]))
				break;
			p = guess;
		}
		index_lru_splice(ix, node, first, p, last, true);
		last = p;
	}
	/* The rest is new: none of it can be there, since the node's blocks are closed. */
	if (i < n) {
		r.first_made = i;
		if (r.first_pending == n)
			r.first_pending = i;
	}
	for (; i < n; i++) {
		/* A chain larger than the node keeps its start. */
		made_bytes += bytes[i];
		if (made_bytes > nd->capacity)
			break;
		prefetch_block(ix, hash, i, n);
		p = insert_new(ix, node, hash[i], bytes[i], stamp, confirmed, last);
		if (p == INDEX_NONE)
			break;
		last = p;
	}
	r.kept = i;
	evict_to_capacity(ix, node, last);
	/* Only this chain is left, and it is too large: its tail stays out. */
	while (nd->bytes > nd->capacity && r.kept && nd->tail != INDEX_NONE) {
		evict_oldest(ix, node, INDEX_NONE);
		r.kept--;
	}
	change_end(ix);
	*res = r;
}

/* ---- success and failure ---------------------------------------------------------- */

void index_confirm(struct prefix_index *ix, uint32_t node, const uint64_t *hash, uint32_t n, uint32_t first_pending,
		   uint32_t stamp)
{
	uint32_t i, p = INDEX_NONE;

	for (i = first_pending; i < n; i++) {
		p = pair_of(ix, node, hash[i], p == INDEX_NONE ? p : ix->pairs[p].next);
		if (p == INDEX_NONE)
			break;
		if (!stamp_after(ix->pairs[p].made, stamp))
			ix->pairs[p].flags |= PAIR_CONFIRMED;
	}
}

uint32_t index_retract(struct prefix_index *ix, uint32_t node, const uint64_t *hash, uint32_t n,
		       uint32_t first_pending, uint32_t stamp)
{
	uint32_t i, p, guess = INDEX_NONE, removed = 0;

	change_begin(ix);
	for (i = n; i-- > first_pending;) {
		struct index_pair *pr;

		p = pair_of(ix, node, hash[i], guess);
		guess = INDEX_NONE;
		if (p == INDEX_NONE)
			continue;
		pr = &ix->pairs[p];
		guess = pr->prev;
		if (pr->flags & PAIR_CONFIRMED || stamp_after(pr->made, stamp) || !pr->pending || --pr->pending)
			continue;
		index_remove_pair(ix, p);
		removed++;
	}
	change_end(ix);
	return removed;
}

/* ---- unread answers ------------------------------------------------------------------ */

static uint32_t answer_of(const struct prefix_index *ix, uint32_t node, uint64_t last)
{
	uint32_t b, p;

	if (!ix->hdr->node[node].answers || ix->hdr->node[node].dirty)
		return INDEX_NONE;
	b = index_find_block(ix, last);
	if (b == INDEX_NONE)
		return INDEX_NONE;
	p = index_find_pair(ix, b, node, true);
	return p != INDEX_NONE && index_pair_current(ix, &ix->pairs[p]) ? p : INDEX_NONE;
}

void index_add_answer(struct prefix_index *ix, uint32_t node, uint64_t last, uint64_t bytes)
{
	struct index_node *nd = &ix->hdr->node[node];
	uint32_t at = pair_of(ix, node, last, INDEX_NONE), a, block;

	if (at == INDEX_NONE)
		return;
	block = ix->pairs[at].block;
	change_begin(ix);
	a = index_find_pair(ix, block, node, true);
	if (a != INDEX_NONE)
		index_remove_pair(ix, a);
	if (ix->hdr->n_pairs < ix->hdr->max_pairs) {
		a = index_add_pair(ix, block, node, PAIR_ANSWER | PAIR_CONFIRMED);
		ix->pairs[a].answer_bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
		nd->bytes += ix->pairs[a].answer_bytes;
		/* Behind its prompt's last block: a descendant, so it is evicted first. */
		index_lru_splice(ix, node, a, a, at, false);
		evict_to_capacity(ix, node, INDEX_NONE);
	}
	change_end(ix);
}

uint64_t index_answer_bytes(const struct prefix_index *ix, uint32_t node, uint64_t last)
{
	uint32_t a = answer_of(ix, node, last);

	return a == INDEX_NONE ? 0 : ix->pairs[a].answer_bytes;
}

void index_drop_answer(struct prefix_index *ix, uint32_t node, uint64_t last)
{
	uint32_t a = answer_of(ix, node, last);

	if (a == INDEX_NONE)
		return;
	change_begin(ix);
	index_remove_pair(ix, a);
	change_end(ix);
}

/* ---- nodes --------------------------------------------------------------------------- */

uint32_t index_nodes(const struct prefix_index *ix)
{
	return ix->hdr->nodes;
}

uint64_t index_node_name(const struct prefix_index *ix, uint32_t node)
{
	return ix->hdr->node[node].name_hash;
}

void index_set_node_name(struct prefix_index *ix, uint32_t node, uint64_t name_hash)
{
	ix->hdr->node[node].name_hash = name_hash;
}

void index_set_capacity(struct prefix_index *ix, uint32_t node, uint64_t bytes)
{
	struct index_node *nd = &ix->hdr->node[node];

	nd->capacity = bytes;
	if (nd->bytes <= bytes)
		return;
	change_begin(ix);
	evict_to_capacity(ix, node, INDEX_NONE);
	change_end(ix);
}

static bool sweep_node(struct prefix_index *ix, uint32_t node, uint32_t *budget)
{
	struct index_node *nd = &ix->hdr->node[node];

	while (nd->tail != INDEX_NONE && !index_pair_current(ix, &ix->pairs[nd->tail])) {
		if (!*budget)
			return false;
		--*budget;
		index_remove_pair(ix, nd->tail);
	}
	nd->dirty = 0;
	ix->hdr->dirty_nodes--;
	return true;
}

void index_forget_node(struct prefix_index *ix, uint32_t node)
{
	struct index_node *nd = &ix->hdr->node[node];
	uint32_t all = UINT32_MAX;

	change_begin(ix);
	/* Epochs have four bits and two generations at a time: finish the former one first. */
	if (nd->dirty)
		sweep_node(ix, node, &all);
	if (nd->pairs) {
		nd->epoch = (nd->epoch + 1) & 15;
		nd->dirty = 1;
		ix->hdr->dirty_nodes++;
	}
	change_end(ix);
}

bool index_sweep(struct prefix_index *ix, uint32_t budget)
{
	uint32_t i;

	if (!ix->hdr->dirty_nodes)
		return false;
	change_begin(ix);
	for (i = 0; i < ix->hdr->nodes && budget; i++)
		if (ix->hdr->node[i].dirty)
			sweep_node(ix, i, &budget);
	change_end(ix);
	return ix->hdr->dirty_nodes != 0;
}

bool index_node_dirty(const struct prefix_index *ix, uint32_t node)
{
	return ix->hdr->node[node].dirty;
}
