/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The prefix index: how much of a chain each node holds, for all nodes at once. */
#include <string.h>

#include "route/index_layout.h"

struct matcher {
	const struct prefix_index *ix;
	const uint64_t *hash;
	uint32_t *run;
	uint32_t words;
};

struct node_set {
	uint64_t w[4];
};

/* Nodes of `in` that hold the first `n` blocks. */
static struct node_set holders(const struct matcher *m, uint32_t n, const struct node_set *in)
{
	struct node_set s = { { 0 } };
	uint32_t b = index_find_block(m->ix, m->hash[n - 1]), i;

	if (b != INDEX_NONE)
		index_set_load(m->ix, &m->ix->blocks[b], s.w);
	for (i = 0; i < m->words; i++)
		s.w[i] &= in->w[i];
	return s;
}

static bool set_equal(const struct matcher *m, const struct node_set *a, const struct node_set *b)
{
	uint64_t diff = 0;
	uint32_t i;

	for (i = 0; i < m->words; i++)
		diff |= a->w[i] ^ b->w[i];
	return !diff;
}

/* Nodes in `slo` hold lo blocks, those in `shi` (a subset) hi blocks: the runs of
 * the difference end in between. Equal sets need no look at all, so that the
 * work is the number of distinct ends times the logarithm of the chain. */
static void match_between(const struct matcher *m, uint32_t lo, const struct node_set *slo, uint32_t hi,
			  const struct node_set *shi)
{
	struct node_set sm;
	uint32_t mid, i;

	if (set_equal(m, slo, shi))
		return;
	if (hi - lo == 1) {
		for (i = 0; i < m->words; i++) {
			uint64_t ends = slo->w[i] & ~shi->w[i];

			for (; ends; ends &= ends - 1)
				m->run[i * 64 + (uint32_t)__builtin_ctzll(ends)] = lo;
		}
		return;
	}
	mid = lo + (hi - lo) / 2;
	sm = holders(m, mid, slo);
	match_between(m, lo, slo, mid, &sm);
	match_between(m, mid, &sm, hi, shi);
}

void index_match(const struct prefix_index *ix, const uint64_t *hash, uint32_t n, uint32_t *run)
{
	const struct index_header *h = ix->hdr;
	struct matcher m = { ix, hash, run, ix->words };
	struct node_set all = { { 0 } }, cur, full;
	uint32_t i, lo = 0, step = 1;

	memset(run, 0, h->nodes * sizeof(*run));
	for (i = 0; i < h->nodes; i++)
		if (h->node[i].pairs && !h->node[i].dirty)
			all.w[i / 64] |= 1ull << (i % 64);
	if (!n)
		return;
	/* Gallop: most chains are known to their end by one node, or end early for all. */
	full = holders(&m, n, &all);
	for (i = 0; i < m.words; i++) {
		uint64_t w = full.w[i];

		for (; w; w &= w - 1)
			run[i * 64 + (uint32_t)__builtin_ctzll(w)] = n;
	}
	cur = all;
	while (!set_equal(&m, &cur, &full)) {
		uint32_t hi = n - lo > step ? lo + step : n;
		struct node_set s = hi == n ? full : holders(&m, hi, &cur);

		match_between(&m, lo, &cur, hi, &s);
		lo = hi;
		cur = s;
		step *= 2;
	}
}
