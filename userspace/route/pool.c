/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A pool's life: creation, membership, drain, timers. */
#include "route/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "route/hrw.h"
#include "route/pool_internal.h"

#define DEFAULT_KV_TOKENS 640000ull
#define DEFAULT_INDEX_MAX_BYTES (512ull << 20)

/* ---- configuration ------------------------------------------------------------ */

void pool_config_defaults(struct route_pool_config *c)
{
	static const struct route_profile profile = { .a_s = 15e-3, .b_s = 62.5e-6, .c_s = 35e-6, .d_s = 17.8e-9,
						      .e_s = 0.7e-9, .batch_tokens = 8192, .max_seqs = 256 };
	static const struct route_profile none;
	static const struct route_weights weights = { .queue = 2, .kv_cache = 2, .prefix = 3, .lora_affinity = 1 };
	static const struct route_weights no_weights;

	/* All bytes zero is what "not given" means, of structs without padding.
	 * NOLINTBEGIN(bugprone-suspicious-memory-comparison): clang-tidy thinks of -0.0 */
	_Static_assert(sizeof(none) == 5 * sizeof(double) + 2 * sizeof(uint32_t), "no padding");
	if (!memcmp(&c->profile, &none, sizeof(none)))
		c->profile = profile;
	if (!c->profile.batch_tokens)
		c->profile.batch_tokens = profile.batch_tokens;
	if (!c->profile.max_seqs)
		c->profile.max_seqs = profile.max_seqs;
	if (!memcmp(&c->weights, &no_weights, sizeof(no_weights)))
		c->weights = weights;
	/* NOLINTEND(bugprone-suspicious-memory-comparison) */
	c->kv_tokens = c->kv_tokens ? c->kv_tokens : DEFAULT_KV_TOKENS;
	c->adapter_load_s = c->adapter_load_s > 0 ? c->adapter_load_s : 0.150;
	c->adapter_slots = c->adapter_slots ? c->adapter_slots : 8;
	c->cap = c->cap ? c->cap : 256;
	c->stale_ns = c->stale_ns ? c->stale_ns : 5000000000ull;
	c->wait_target_s = c->wait_target_s > 0 ? c->wait_target_s : 1.0;
	c->index_max_bytes = c->index_max_bytes ? c->index_max_bytes : DEFAULT_INDEX_MAX_BYTES;
}

static bool text_ok(const char *s, size_t size)
{
	return s && *s && strnlen(s, size) < size;
}

static int config_check(const struct route_pool_config *c)
{
	uint32_t i, k;

	if (!text_ok(c->name, BACKEND_POOL_BYTES) || c->n_backends > ROUTE_MAX_NODES ||
	    (c->n_backends && !c->backends) || (unsigned)c->policy > ROUTE_POLICY_WEIGHTED)
		return -EINVAL;
	for (i = 0; i < c->n_backends; i++) {
		if (!text_ok(c->backends[i].name, BACKEND_NAME_BYTES))
			return -EINVAL;
		for (k = 0; k < i; k++)
			if (!strcmp(c->backends[i].name, c->backends[k].name))
				return -EINVAL;
	}
	return 0;
}

/* ---- membership -------------------------------------------------------------------- */

static struct route_node *find_node(struct route_pool *pool, const char *name)
{
	uint32_t i;

	for (i = 0; i < pool->n_nodes; i++)
		if (pool->node[i].presence != NODE_UNUSED && !strcmp(pool->node[i].name, name))
			return &pool->node[i];
	return NULL;
}

/* A free node number; one that the index knows this name by, if it was adopted. */
static uint32_t free_number(struct route_pool *pool, uint64_t name_hash)
{
	uint32_t nodes = index_nodes(&pool->index), i, fresh = ROUTE_NO_NODE, other = ROUTE_NO_NODE;

	for (i = 0; i < nodes; i++) {
		if (pool->node[i].presence != NODE_UNUSED)
			continue;
		if (index_node_name(&pool->index, i) == name_hash)
			return i;
		if (!index_node_name(&pool->index, i))
			fresh = fresh == ROUTE_NO_NODE ? i : fresh;
		else
			other = other == ROUTE_NO_NODE ? i : other;
	}
	return fresh != ROUTE_NO_NODE ? fresh : other;
}

static void set_texts(struct route_pool *pool, struct route_node *n, const struct route_backend_config *b)
{
	struct backend_row *r = node_row(pool, n);

	memset(n->address, 0, sizeof(n->address));
	if (b->address)
		memcpy(n->address, b->address, strnlen(b->address, sizeof(n->address) - 1));
	memcpy(r->address, n->address, sizeof(r->address));
	n->unresolved = b->unresolved;
	n->cap = b->cap ? b->cap : pool->cfg.cap;
	n->extra_s = b->extra_ms / 1000;
}

static void add_node(struct route_pool *pool, const struct route_backend_config *b, uint32_t row)
{
	uint64_t hash = hrw_name(b->name);
	uint32_t number = free_number(pool, hash);
	struct route_node *n = &pool->node[number];
	uint64_t known = index_node_name(&pool->index, number);

	memset(n, 0, sizeof(*n));
	n->presence = NODE_PRESENT;
	n->row = row;
	n->name_hash = hash;
	memcpy(n->name, b->name, strlen(b->name));
	if (known && known != hash)
		index_forget_node(&pool->index, number); /* a former process's node of another name */
	index_set_node_name(&pool->index, number, hash);
	if (number >= pool->n_nodes)
		pool->n_nodes = number + 1;
	node_init(pool, n);
	n->epoch = node_row(pool, n)->epoch;
	set_texts(pool, n, b);
	node_set_capacity(pool, number);
}

static void remove_node(struct route_pool *pool, uint32_t number)
{
	struct route_node *n = &pool->node[number];

	n->presence = NODE_LEAVING;
	n->drain = false;
	node_forget(pool, number, 0);
	node_publish(pool, number, 0);
	node_reap(pool, number);
}

static bool in_config(const struct route_pool_config *c, const char *name)
{
	uint32_t i;

	for (i = 0; i < c->n_backends; i++)
		if (!strcmp(c->backends[i].name, name))
			return true;
	return false;
}

/* Claims rows for the backends of `c` that are new; rows[i] < 0: not new. On error none is claimed. */
static int claim_rows(struct route_pool *pool, const struct route_pool_config *c, int *rows, uint32_t *n_new)
{
	uint32_t i, k;

	*n_new = 0;
	for (i = 0; i < c->n_backends; i++) {
		rows[i] = -1;
		if (find_node(pool, c->backends[i].name))
			continue;
		rows[i] = ledger_row_claim(pool->ledger, c->name, c->backends[i].name, c->backends[i].address);
		if (rows[i] < 0)
			goto undo;
		++*n_new;
	}
	return 0;
undo:
	for (k = 0; k < i; k++)
		if (rows[k] >= 0)
			ledger_row_free(pool->ledger, (uint32_t)rows[k]);
	return rows[i];
}

static uint32_t count_free(const struct route_pool *pool)
{
	uint32_t i, n = 0;

	for (i = 0; i < index_nodes(&pool->index); i++)
		n += pool->node[i].presence == NODE_UNUSED;
	return n;
}

/* Applies a checked configuration, whose defaults are filled in. */
static int apply(struct route_pool *pool, const struct route_pool_config *c)
{
	struct route_pool_config before = pool->cfg;
	int rows[ROUTE_MAX_NODES], rc;
	uint32_t i, n_new, gone = 0;

	rc = claim_rows(pool, c, rows, &n_new);
	if (rc < 0)
		return rc;
	pool->cfg = *c;
	pool->cfg.name = pool->name;
	for (i = 0; i < pool->n_nodes; i++)
		gone += pool->node[i].presence == NODE_PRESENT && !pool->node[i].tickets &&
			!in_config(c, pool->node[i].name) && !ledger_in_flight(pool->ledger, pool->node[i].row);
	/* Numbers of idle leavers are free once their entries are swept. */
	if (n_new > count_free(pool) + gone) {
		rc = index_nodes(&pool->index) < INDEX_MAX_NODES ? pool_index_widen(pool) : -ENOSPC;
		if (rc < 0) {
			for (i = 0; i < c->n_backends; i++)
				if (rows[i] >= 0)
					ledger_row_free(pool->ledger, (uint32_t)rows[i]);
			pool->cfg = before;
			return rc;
		}
	}
	for (i = 0; i < pool->n_nodes; i++)
		if (pool->node[i].presence == NODE_PRESENT && !in_config(c, pool->node[i].name))
			remove_node(pool, i);
	if (n_new > count_free(pool)) {
		while (index_sweep(&pool->index, UINT32_MAX))
			;
		for (i = 0; i < index_nodes(&pool->index); i++)
			node_reap(pool, i);
	}
	for (i = 0; i < c->n_backends; i++) {
		struct route_node *n = find_node(pool, c->backends[i].name);

		if (!n) {
			add_node(pool, &c->backends[i], (uint32_t)rows[i]);
			continue;
		}
		n->presence = NODE_PRESENT;
		set_texts(pool, n, &c->backends[i]);
		node_set_capacity(pool, (uint32_t)(n - pool->node));
	}
	for (i = 0; i < pool->n_nodes; i++)
		if (pool->node[i].presence == NODE_PRESENT)
			node_publish(pool, i, 0);
	pool->cfg.backends = NULL;
	return 0;
}

/* ---- public -------------------------------------------------------------------------- */

int route_pool_create_in(struct route_pool **out, const struct route_pool_config *cfg, struct ledger *ledger,
			 void *index_mem, size_t index_mem_bytes)
{
	struct route_pool_config c = *cfg;
	struct route_pool *pool;
	uint32_t i;
	int rc = config_check(cfg);

	*out = NULL;
	if (rc < 0)
		return rc;
	pool_config_defaults(&c);
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pool->ledger = ledger;
	memcpy(pool->name, c.name, strlen(c.name));
	pool->cfg = c;
	pool->bpt_num = 2000 * ROUTE_BPT_START;
	pool->bpt_den = 2000;
	pool->pi[0] = pool->pi[1] = c.pi_start;
	pool->means = (struct cost_means){ .prefill_s = 0.2, .uncached_tokens = 1000, .output_tokens = 150,
					   .context_tokens = 2000 };
	pool->cursor = ROUTE_MAX_NODES - 1; /* the first turn is node 0's */
	rc = pool_index_open(pool, index_mem, index_mem_bytes);
	if (!rc)
		rc = apply(pool, &c);
	if (rc < 0) {
		pool_index_close(pool);
		pthread_mutex_destroy(&pool->lock);
		free(pool);
		return rc;
	}
	/* Entries of backends that an adopted index knows and the configuration does not. */
	for (i = 0; i < index_nodes(&pool->index); i++) {
		if (pool->node[i].presence == NODE_UNUSED && index_node_name(&pool->index, i)) {
			index_forget_node(&pool->index, i);
			index_set_node_name(&pool->index, i, 0);
		}
	}
	*out = pool;
	return 0;
}

int route_pool_create(struct route_pool **out, const struct route_pool_config *cfg, struct ledger *ledger)
{
	return route_pool_create_in(out, cfg, ledger, NULL, 0);
}

int route_pool_update(struct route_pool *pool, const struct route_pool_config *cfg)
{
	struct route_pool_config c = *cfg;
	int rc = config_check(cfg);

	if (rc < 0 || strcmp(cfg->name, pool->name))
		return -EINVAL;
	pool_config_defaults(&c);
	pool_lock(pool);
	rc = apply(pool, &c);
	pool_unlock(pool);
	return rc;
}

void route_pool_free(struct route_pool *pool)
{
	uint32_t i;

	if (!pool)
		return;
	for (i = 0; i < pool->n_nodes; i++) {
		assert(!pool->node[i].tickets);
		if (pool->node[i].presence != NODE_UNUSED)
			ledger_row_free(pool->ledger, pool->node[i].row);
	}
	pool_index_close(pool);
	adapter_names_free(&pool->adapter_names);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

int route_set_drain(struct route_pool *pool, const char *name, bool drain)
{
	struct route_node *n;
	int rc = -ENOENT;

	pool_lock(pool);
	n = find_node(pool, name);
	if (n && n->presence == NODE_PRESENT) {
		n->drain = drain;
		/* The row's other fields wait for the next tick or snapshot, which have the time. */
		node_row(pool, n)->state = node_state(n, 0);
		rc = 0;
	}
	pool_unlock(pool);
	return rc;
}

void route_tick(struct route_pool *pool, uint64_t now_ns)
{
	uint32_t i;

	pool_lock(pool);
	index_sweep(&pool->index, ROUTE_SWEEP_TICK);
	for (i = 0; i < pool->n_nodes; i++) {
		if (pool->node[i].presence == NODE_UNUSED || node_reap(pool, i))
			continue;
		node_settle(&pool->node[i], now_ns);
		if (pool->node[i].presence == NODE_PRESENT)
			node_set_capacity(pool, i); /* bytes per token moves */
		node_publish(pool, i, now_ns);
	}
	pool_unlock(pool);
}

uint32_t route_node_by_name(struct route_pool *pool, const char *name)
{
	struct route_node *n;
	uint32_t number;

	pool_lock(pool);
	n = find_node(pool, name);
	number = n && n->presence == NODE_PRESENT ? (uint32_t)(n - pool->node) : ROUTE_NO_NODE;
	pool_unlock(pool);
	return number;
}

uint32_t route_node_row(struct route_pool *pool, uint32_t node)
{
	uint32_t row = BACKEND_UNKNOWN;

	pool_lock(pool);
	if (node < pool->n_nodes && pool->node[node].presence != NODE_UNUSED)
		row = pool->node[node].row;
	pool_unlock(pool);
	return row;
}

void route_pool_set_event_fn(struct route_pool *pool, void (*fn)(void *ctx, const struct route_event *ev),
			     void *ctx)
{
	pool_lock(pool);
	pool->event_fn = fn;
	pool->event_ctx = ctx;
	pool_unlock(pool);
}

void pool_emit(struct route_pool *pool, struct route_event *ev)
{
	ev->seq = ++pool->event_seq;
	if (pool->event_fn)
		pool->event_fn(pool->event_ctx, ev);
}
