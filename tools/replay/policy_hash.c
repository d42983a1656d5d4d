/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Consistent hashing, and the same with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016; as KubeAI
 * does it: clockwise from the key to the first node whose requests, this one included, stay
 * within the factor of the mean). */
#include <stdlib.h>

#include "replay/must.h"
#include "replay/policy.h"

struct point {
	uint64_t at;
	uint32_t node;
};

struct ring {
	uint32_t n;
	struct point point[REPLAY_NODES_MAX * REPLAY_CHWBL_NODES];
};

static int by_place(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Points of all node numbers: those that are no members are passed over, which is the same ring. */
void replay_hash_open(struct replay_gateway *g)
{
	uint32_t each = g->policy->variant ? REPLAY_CHWBL_NODES : REPLAY_RING_NODES;
	struct ring *r = must_calloc(1, sizeof(*r));

	for (uint32_t node = 0; node < REPLAY_NODES_MAX; node++)
		for (uint32_t k = 0; k < each; k++)
			r->point[r->n++] = (struct point){ load_mix(load_mix(0x72696e67, node), k), node };
	qsort(r->point, r->n, sizeof(r->point[0]), by_place);
	g->state = r;
}

void replay_hash_close(struct replay_gateway *g)
{
	free(g->state);
}

static bool within_bound(const struct replay_gateway *g, uint32_t node)
{
	uint64_t total = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->fleet->nodes; i++) {
		if (!g->fleet->member[i])
			continue;
		total += g->in_flight[i];
		n++;
	}
	return !total || g->in_flight[node] + 1 <= (double)(total + 1) / n * REPLAY_CHWBL_FACTOR;
}

uint32_t replay_hash_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	const struct ring *r = g->state;
	uint32_t key_blocks = REPLAY_KEY_TOKENS / NODE_BLOCK_TOKENS, lo = 0, hi = r->n, home = UINT32_MAX;
	uint64_t key = !q->blocks ? 0 : q->block[q->blocks < key_blocks ? q->blocks - 1 : key_blocks - 1];

	key = load_mix(key, 1);
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (r->point[mid].at < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t node = r->point[(lo + i) % r->n].node;

		if (node >= g->fleet->nodes || !g->fleet->member[node])
			continue;
		if (!g->policy->variant || within_bound(g, node))
			return node;
		if (home == UINT32_MAX)
			home = node;
	}
	return home;
}
