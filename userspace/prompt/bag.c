/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "prompt/bag.h"

#include <string.h>

#include "prompt/hash.h"

void bag_reset(struct bag *b)
{
	b->n = 0;
	b->folded = 0;
	b->fold = 0;
	b->fold_bytes = 0;
}

void bag_set(struct bag *b, uint64_t parent, uint64_t key, uint64_t digest, uint64_t bytes)
{
	struct bag_entry *e = b->v;
	struct bag_entry *end = e + b->n;

	while (e < end && (e->key != key || e->parent != parent))
		e++;
	if (e == end) {
		if (b->n == BAG_MAX) {
			b->fold = hash_chain(hash_chain(b->fold, parent, key), digest, ++b->folded);
			b->fold_bytes += bytes;
			return;
		}
		b->n++;
	}
	e->key = key;
	e->parent = parent;
	e->digest = digest;
	e->bytes = bytes;
}

void bag_remove(struct bag *b, uint64_t parent, uint64_t key)
{
	uint32_t i, kept = 0;

	for (i = 0; i < b->n; i++) {
		if (b->v[i].parent == key || (b->v[i].parent == parent && b->v[i].key == key))
			continue;
		b->v[kept++] = b->v[i];
	}
	b->n = kept;
}

uint64_t bag_hash(const struct bag *b, uint64_t *bytes)
{
	const struct bag_entry *sorted[BAG_MAX];
	uint64_t h = 0;
	uint32_t i, j;

	*bytes += b->fold_bytes;
	if (!b->n && !b->folded)
		return 0;
	for (i = 0; i < b->n; i++) {
		const struct bag_entry *e = &b->v[i];

		for (j = i; j > 0 && (sorted[j - 1]->key > e->key ||
				      (sorted[j - 1]->key == e->key && sorted[j - 1]->parent > e->parent)); j--)
			sorted[j] = sorted[j - 1];
		sorted[j] = e;
	}
	for (i = 0; i < b->n; i++) {
		h = hash_chain(hash_chain(h, sorted[i]->parent, sorted[i]->key), sorted[i]->digest, i);
		*bytes += sorted[i]->bytes;
	}
	return hash_chain(h, b->fold, b->folded);
}
