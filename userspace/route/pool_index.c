/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where a pool's prefix index lies: its own mapping or lent memory, its size, adoption, widening. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "route/hrw.h"
#include "route/pool_internal.h"

#define INDEX_BLOCK_BYTES_GUESS 64 /* a quarter of a full block */
#define INDEX_MIN_PAIRS 4096u
#define INDEX_NARROW_NODES 64u

static uint32_t index_nodes_for(uint32_t n)
{
	return n > INDEX_NARROW_NODES ? INDEX_MAX_NODES : INDEX_NARROW_NODES;
}

/* Room for four times what the nodes hold at full blocks: messages are cut at their
 * borders, and some nodes turn out larger than configured. Memory is
 * committed as blocks come. */
static size_t index_want_bytes(const struct route_pool_config *c, uint32_t nodes)
{
	uint32_t n = c->n_backends ? c->n_backends : 1;
	uint64_t pairs = (uint64_t)n * c->kv_tokens * (uint64_t)ROUTE_BPT_START / INDEX_BLOCK_BYTES_GUESS;
	uint32_t most = index_pairs_in(nodes, c->index_max_bytes);

	if (pairs < INDEX_MIN_PAIRS)
		pairs = INDEX_MIN_PAIRS;
	if (pairs > most)
		pairs = most > 1 ? most : 1;
	return index_bytes(nodes, (uint32_t)pairs);
}

size_t route_pool_index_bytes(const struct route_pool_config *cfg)
{
	struct route_pool_config c = *cfg;

	pool_config_defaults(&c);
	return index_want_bytes(&c, index_nodes_for(c.n_backends));
}

static int index_lay(struct prefix_index *ix, void *mem, size_t bytes, uint32_t nodes, const char *name)
{
	uint32_t pairs = index_pairs_in(nodes, bytes);

	return pairs ? index_init(ix, mem, bytes, nodes, pairs, hrw_name(name)) : -EINVAL;
}

static int index_map(struct route_pool *pool, uint32_t nodes, struct prefix_index *ix, void **mem, size_t *bytes)
{
	int rc;

	*bytes = index_want_bytes(&pool->cfg, nodes);
	*mem = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*mem == MAP_FAILED)
		return -ENOMEM;
	/* Lookups jump all over tens of megabytes: with small pages the TLB misses were a third of
	 * a decision (8k tokens x 64 backends: p50 9.4 -> 6.2 us, p99 49 -> 19). Advice only. */
	madvise(*mem, *bytes, MADV_HUGEPAGE);
	rc = index_lay(ix, *mem, *bytes, nodes, pool->name);
	if (rc < 0)
		munmap(*mem, *bytes);
	return rc;
}

int pool_index_open(struct route_pool *pool, void *mem, size_t bytes)
{
	uint32_t nodes = index_nodes_for(pool->cfg.n_backends);

	if (!mem)
		return index_map(pool, nodes, &pool->index, &pool->index_mem, &pool->index_mem_bytes);
	pool->index_lent = true;
	if (!index_attach(&pool->index, mem, bytes, nodes, hrw_name(pool->name)))
		return 0;
	memset(mem, 0, bytes);
	return index_lay(&pool->index, mem, bytes, nodes, pool->name);
}

struct mover {
	struct prefix_index *to;
	uint32_t node;
};

static void move_block(void *ctx, uint64_t hash, uint16_t bytes)
{
	struct mover *m = ctx;
	struct index_insert_result res;

	/* Oldest first: the order of freshness is kept. */
	index_insert(m->to, m->node, &hash, &bytes, 1, 0, true, &res);
}

int pool_index_widen(struct route_pool *pool)
{
	struct prefix_index wide;
	size_t bytes;
	void *mem;
	uint32_t i;
	int rc;

	if (pool->index_lent)
		return -ENOSPC;
	rc = index_map(pool, INDEX_MAX_NODES, &wide, &mem, &bytes);
	if (rc < 0)
		return rc;
	for (i = 0; i < pool->n_nodes; i++) {
		struct mover m = { &wide, i };

		index_set_node_name(&wide, i, index_node_name(&pool->index, i));
		index_set_capacity(&wide, i, index_node_capacity(&pool->index, i));
		index_walk_node(&pool->index, i, move_block, &m);
	}
	index_set_stamp(&wide, index_next_stamp(&pool->index)); /* live tickets carry older ones */
	munmap(pool->index_mem, pool->index_mem_bytes);
	pool->index = wide;
	pool->index_mem = mem;
	pool->index_mem_bytes = bytes;
	return 0;
}

void pool_index_close(struct route_pool *pool)
{
	if (pool->index_mem)
		munmap(pool->index_mem, pool->index_mem_bytes);
	pool->index_mem = NULL;
}
