/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The prefix index against a naive model that keeps every list as an array, over random chains,
 * nodes, failures, answers and restarts; its bounds; adoption. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "route/index.h"

#define MAX_CHAIN 64
#define MODEL_MAX 512

static uint64_t rng_state = 88172645463325252ull;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;

	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 32;
}

struct region {
	struct prefix_index ix;
	void *mem;
	size_t bytes;
};

static void region_open(struct region *r, uint32_t nodes, uint32_t pairs, uint64_t capacity)
{
	uint32_t i;

	r->bytes = index_bytes(nodes, pairs);
	r->mem = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(r->mem, MAP_FAILED);
	assert_int_equal(index_init(&r->ix, r->mem, r->bytes, nodes, pairs, 42), 0);
	for (i = 0; i < nodes; i++)
		index_set_capacity(&r->ix, i, capacity);
}

static void region_close(struct region *r)
{
	munmap(r->mem, r->bytes);
}

/* ---- the model ---------------------------------------------------------------- */

struct model_block {
	uint64_t hash;
	uint16_t bytes;
	bool answer, confirmed;
	uint32_t pending, made, answer_bytes;
};

struct model_node {
	struct model_block b[MODEL_MAX]; /* freshest first */
	uint32_t n;
	uint64_t capacity;
};

static uint32_t model_size(const struct model_block *b)
{
	return b->answer ? b->answer_bytes : b->bytes;
}

static int model_find(const struct model_node *m, uint64_t hash, bool answer)
{
	uint32_t i;

	for (i = 0; i < m->n; i++)
		if (m->b[i].hash == hash && m->b[i].answer == answer)
			return (int)i;
	return -1;
}

static void model_delete(struct model_node *m, int i)
{
	struct model_block gone = m->b[i];

	memmove(&m->b[i], &m->b[i + 1], (m->n - (uint32_t)i - 1) * sizeof(m->b[0]));
	m->n--;
	if (!gone.answer) {
		i = model_find(m, gone.hash, true);
		if (i >= 0)
			model_delete(m, i);
	}
}

static void model_put(struct model_node *m, uint32_t at, struct model_block b)
{
	assert_true(m->n < MODEL_MAX);
	memmove(&m->b[at + 1], &m->b[at], (m->n - at) * sizeof(m->b[0]));
	m->b[at] = b;
	m->n++;
}

static uint64_t model_bytes(const struct model_node *m)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < m->n; i++)
		sum += model_size(&m->b[i]);
	return sum;
}

static void model_evict(struct model_node *m)
{
	while (model_bytes(m) > m->capacity)
		model_delete(m, (int)m->n - 1);
}

static uint32_t model_run(const struct model_node *m, const uint64_t *hash, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && model_find(m, hash[i], false) >= 0; i++)
		;
	return i;
}

/* Tail first, each block to the front: the definition. */
static void model_insert(struct model_node *m, const uint64_t *hash, const uint16_t *bytes, uint32_t n,
			 uint32_t stamp, bool confirmed)
{
	uint32_t i;

	for (i = n; i-- > 0;) {
		int at = model_find(m, hash[i], false);
		struct model_block b = { .hash = hash[i], .bytes = bytes[i], .made = stamp };

		if (at >= 0) {
			b = m->b[at];
			memmove(&m->b[at], &m->b[at + 1], (m->n - (uint32_t)at - 1) * sizeof(m->b[0]));
			m->n--;
		}
		if (confirmed)
			b.confirmed = true;
		else if (!b.confirmed)
			b.pending++;
		model_put(m, 0, b);
	}
	model_evict(m);
}

static void model_end(struct model_node *m, const uint64_t *hash, uint32_t n, uint32_t stamp, bool ok)
{
	uint32_t i;

	for (i = n; i-- > 0;) {
		int at = model_find(m, hash[i], false);

		if (at < 0 || m->b[at].made > stamp || m->b[at].confirmed)
			continue;
		if (ok)
			m->b[at].confirmed = true;
		else if (m->b[at].pending && !--m->b[at].pending)
			model_delete(m, at);
	}
}

/* ---- the comparison --------------------------------------------------------------- */

struct live {
	uint64_t hash[MAX_CHAIN];
	uint32_t n, node, stamp, first_pending, kept;
	bool used;
};

/* Chains that share prefixes: a tree of fan-out 3 with cuts anywhere. */
static uint32_t random_chain(uint64_t *hash, uint16_t *bytes)
{
	uint32_t n = 1 + (uint32_t)(rng() % 24), i;
	uint64_t h = 7;

	for (i = 0; i < n; i++) {
		h = mix(h, i < 2 ? rng() % 2 : i < 6 ? rng() % 3 == 0 : rng() % 40 == 0);
		hash[i] = h;
		bytes[i] = (uint16_t)(1 + h % 256);
	}
	return n;
}

static void compare_node(struct region *r, const struct model_node *m, uint32_t node)
{
	uint32_t i, blocks = 0;

	for (i = 0; i < m->n; i++)
		blocks += !m->b[i].answer;
	assert_int_equal(index_node_blocks(&r->ix, node), blocks);
	assert_int_equal(index_node_bytes(&r->ix, node), model_bytes(m));
}

struct walk {
	const struct model_node *m;
	int at;
};

static void check_order(void *ctx, uint64_t hash, uint16_t bytes)
{
	struct walk *w = ctx;

	while (w->at >= 0 && w->m->b[w->at].answer)
		w->at--;
	assert_true(w->at >= 0);
	assert_int_equal(w->m->b[w->at].hash, hash);
	assert_int_equal(w->m->b[w->at].bytes, bytes);
	w->at--;
}

static void run_model(uint32_t nodes, uint32_t used_nodes, uint32_t steps)
{
	struct model_node *model = calloc(nodes, sizeof(*model));
	struct live *live = calloc(32, sizeof(*live));
	struct region r;
	uint32_t step, i, run[INDEX_MAX_NODES];

	region_open(&r, nodes, 60000, 9000);
	for (i = 0; i < nodes; i++)
		model[i].capacity = 9000;
	for (step = 0; step < steps; step++) {
		/* High node numbers too, so that every word of a set is used. */
		uint32_t node = (uint32_t)(rng() % used_nodes) * (nodes / used_nodes), n, k;
		struct model_node *m = &model[node];
		uint64_t hash[MAX_CHAIN];
		uint16_t bytes[MAX_CHAIN];
		struct index_insert_result res;
		struct live *l = &live[rng() % 32];

		n = random_chain(hash, bytes);
		index_match(&r.ix, hash, n, run);
		for (i = 0; i < nodes; i++)
			assert_int_equal(run[i], model_run(&model[i], hash, n));

		if (l->used) {
			bool ok = rng() % 3 != 0;

			m = &model[l->node];
			if (ok)
				index_confirm(&r.ix, l->node, l->hash, l->kept, l->first_pending, l->stamp);
			else
				index_retract(&r.ix, l->node, l->hash, l->kept, l->first_pending, l->stamp);
			model_end(m, l->hash, l->kept, l->stamp, ok);
			if (ok && l->kept == l->n && rng() % 2) {
				uint64_t last = l->hash[l->n - 1];
				int at = model_find(m, last, false);
				struct model_block a = { .hash = last, .answer = true, .confirmed = true,
							 .answer_bytes = (uint32_t)(rng() % 900) };

				index_add_answer(&r.ix, l->node, last, a.answer_bytes);
				if (at >= 0) {
					int old = model_find(m, last, true);

					if (old >= 0)
						model_delete(m, old);
					at = model_find(m, last, false);
					model_put(m, (uint32_t)at + 1, a);
					model_evict(m);
				}
			}
			compare_node(&r, m, l->node);
			l->used = false;
			continue;
		}
		k = (uint32_t)(rng() % 100);
		if (k == 0) {
			index_forget_node(&r.ix, node);
			m->n = 0;
			while (index_sweep(&r.ix, 5))
				;
		} else if (k < 4) {
			m->capacity = 4000 + rng() % 9000;
			index_set_capacity(&r.ix, node, m->capacity);
			model_evict(m);
		} else if (k < 12) {
			int at = model_find(m, hash[n - 1], true);

			assert_int_equal(index_answer_bytes(&r.ix, node, hash[n - 1]),
					 at >= 0 ? m->b[at].answer_bytes : 0);
			index_drop_answer(&r.ix, node, hash[n - 1]);
			if (at >= 0)
				model_delete(m, at);
		} else {
			l->used = true;
			l->n = n;
			l->node = node;
			l->stamp = index_next_stamp(&r.ix);
			memcpy(l->hash, hash, sizeof(hash));
			index_insert(&r.ix, node, hash, bytes, n, l->stamp, false, &res);
			model_insert(m, hash, bytes, n, l->stamp, false);
			l->first_pending = res.first_pending;
			l->kept = res.kept;
			assert_int_equal(res.kept, model_run(m, hash, n));
		}
		compare_node(&r, m, node);
		if (step % 64 == 0)
			assert_int_equal(index_verify(&r.ix), 0);
	}
	for (i = 0; i < nodes; i++) {
		struct walk w = { &model[i], (int)model[i].n - 1 };

		index_walk_node(&r.ix, i, check_order, &w);
	}
	assert_int_equal(index_verify(&r.ix), 0);
	free(model);
	free(live);
	region_close(&r);
}

static void model_7_nodes(void **state)
{
	run_model(7, 7, 40000);
}

static void model_64_nodes(void **state)
{
	run_model(64, 16, 20000);
}

static void model_256_nodes(void **state)
{
	/* More than 7 holders of a block: inline sets become wide ones and back. */
	run_model(256, 32, 20000);
}

/* ---- bounds ------------------------------------------------------------------------ */

static void fill_chain(uint64_t seed, uint32_t n, uint64_t *hash, uint16_t *bytes)
{
	uint32_t i;
	uint64_t h = seed;

	for (i = 0; i < n; i++) {
		h = mix(h, i);
		hash[i] = h;
		bytes[i] = 256;
	}
}

/* A tree that grew between periodic evictions ran a router out of memory: here the cap holds at every insert. */
static void hard_cap_at_insert(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t i;

	region_open(&r, 4, 1000, UINT64_MAX / 2); /* no node limit: only the region's */
	for (i = 0; i < 2000; i++) {
		fill_chain(i, 50, hash, bytes);
		index_insert(&r.ix, i % 4, hash, bytes, 50, index_next_stamp(&r.ix), false, &res);
		assert_int_equal(res.kept, 50);
		assert_true(index_total_pairs(&r.ix) <= 1000);
		if (i % 100 == 0)
			assert_int_equal(index_verify(&r.ix), 0);
	}
	assert_true(index_total_pairs(&r.ix) > 900);
	assert_true(index_evictions(&r.ix) > 90000);
	region_close(&r);
}

static void under_64_bytes_a_pair(void **state)
{
	static const uint32_t nodes[] = { 8, 64, 256 };
	uint32_t i;

	for (i = 0; i < 3; i++)
		assert_true(index_bytes(nodes[i], 1000000) < 64ull * 1000000);
}

static void chain_larger_than_node_keeps_its_start(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t run[INDEX_MAX_NODES];

	region_open(&r, 2, 1000, 10 * 256);
	fill_chain(1, 30, hash, bytes);
	index_insert(&r.ix, 0, hash, bytes, 30, index_next_stamp(&r.ix), false, &res);
	assert_int_equal(res.kept, 10);
	index_match(&r.ix, hash, 30, run);
	assert_int_equal(run[0], 10);
	assert_int_equal(run[1], 0);
	assert_int_equal(index_retract(&r.ix, 0, hash, res.kept, res.first_pending, 1), 10);
	assert_int_equal(index_verify(&r.ix), 0);
	region_close(&r);
}

/* A client can make block hashes of one chain collide; the index must survive that. */
static void colliding_hashes_are_harmless(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t i, k, n;

	region_open(&r, 3, 1000, 8000);
	for (i = 0; i < 20000; i++) {
		n = 1 + (uint32_t)(rng() % 20);
		for (k = 0; k < n; k++) {
			hash[k] = mix(rng() % 12, 0);
			bytes[k] = (uint16_t)(rng() % 257);
		}
		index_insert(&r.ix, i % 3, hash, bytes, n, index_next_stamp(&r.ix), rng() % 2, &res);
		assert_true(res.kept <= n);
		if (rng() % 3 == 0)
			index_retract(&r.ix, i % 3, hash, res.kept, res.first_pending, i + 1);
		if (rng() % 50 == 0)
			index_forget_node(&r.ix, i % 3);
		index_sweep(&r.ix, 2);
		assert_int_equal(index_verify(&r.ix), 0);
	}
	region_close(&r);
}

/* Void entries are cleared little by little; meanwhile nothing of them matches, and new ones count at once after. */
static void forgetting_is_lazy(void **state)
{
	uint64_t hash[MAX_CHAIN], other[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct region r;
	uint32_t run[INDEX_MAX_NODES];

	region_open(&r, 2, 1000, 100000);
	fill_chain(1, 40, hash, bytes);
	fill_chain(2, 40, other, bytes);
	index_insert(&r.ix, 0, hash, bytes, 40, index_next_stamp(&r.ix), true, &res);
	index_insert(&r.ix, 1, hash, bytes, 40, index_next_stamp(&r.ix), true, &res);
	index_insert(&r.ix, 0, other, bytes, 40, index_next_stamp(&r.ix), true, &res);
	index_forget_node(&r.ix, 0);
	index_match(&r.ix, hash, 40, run);
	assert_int_equal(run[0], 0);
	assert_int_equal(run[1], 40);
	/* Re-made in part while its old entries are still there. */
	index_insert(&r.ix, 0, hash, bytes, 20, index_next_stamp(&r.ix), false, &res);
	assert_int_equal(res.first_made, 0);
	assert_int_equal(res.kept, 20);
	assert_int_equal(index_verify(&r.ix), 0);
	while (index_sweep(&r.ix, 7))
		assert_true(index_node_dirty(&r.ix, 0));
	assert_false(index_node_dirty(&r.ix, 0));
	index_match(&r.ix, hash, 40, run);
	assert_int_equal(run[0], 20);
	assert_int_equal(index_node_blocks(&r.ix, 0), 20);
	assert_int_equal(index_verify(&r.ix), 0);
	region_close(&r);
}

static void adoption(void **state)
{
	uint64_t hash[MAX_CHAIN];
	uint16_t bytes[MAX_CHAIN];
	struct index_insert_result res;
	struct prefix_index other;
	struct region r;
	uint32_t run[INDEX_MAX_NODES];
	void *copy;

	region_open(&r, 8, 1000, 100000);
	fill_chain(1, 40, hash, bytes);
	index_insert(&r.ix, 5, hash, bytes, 40, index_next_stamp(&r.ix), true, &res);
	/* Elsewhere in memory: no pointer inside. */
	copy = mmap(NULL, r.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(copy, MAP_FAILED);
	memcpy(copy, r.mem, r.bytes);
	assert_int_equal(index_attach(&other, copy, r.bytes, 8, 42), 0);
	index_match(&other, hash, 40, run);
	assert_int_equal(run[5], 40);
	assert_int_equal(index_verify(&other), 0);
	assert_int_not_equal(index_attach(&other, copy, r.bytes, 8, 43), 0);
	assert_int_not_equal(index_attach(&other, copy, r.bytes, 9, 42), 0);
	assert_int_not_equal(index_attach(&other, copy, r.bytes / 2, 8, 42), 0);
	munmap(copy, r.bytes);
	region_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model_7_nodes),
		cmocka_unit_test(model_64_nodes),
		cmocka_unit_test(model_256_nodes),
		cmocka_unit_test(hard_cap_at_insert),
		cmocka_unit_test(under_64_bytes_a_pair),
		cmocka_unit_test(chain_larger_than_node_keeps_its_start),
		cmocka_unit_test(colliding_hashes_are_harmless),
		cmocka_unit_test(forgetting_is_lazy),
		cmocka_unit_test(adoption),
	};

	return cmocka_run_group_tests_name("route/index", tests, NULL, NULL);
}
