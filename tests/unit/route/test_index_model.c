/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The prefix index against a naive model that keeps every list as an array, over random chains,
 * nodes, failures, answers and restarts. */

#include "index_help.h"

#define MODEL_MAX 512

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model_7_nodes),
		cmocka_unit_test(model_64_nodes),
		cmocka_unit_test(model_256_nodes),
	};

	return cmocka_run_group_tests_name("route/index_model", tests, NULL, NULL);
}
