/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fleet: which pool serves a name, and what lives on over reloads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/internal.h"

static struct gateway gw;

static int setup(void **state)
{
	memset(&gw, 0, sizeof(gw));
	pthread_mutex_init(&gw.fleet_lock, NULL);
	pthread_mutex_init(&gw.registry.lock, NULL);
	return ledger_create(&gw.ledger, 64, 1);
}

/* Every pool that a fleet made has gone with the last one that knew it. */
static int teardown(void **state)
{
	for (unsigned i = 0; i < STATS_POOLS_MAX; i++)
		assert_null(gw.registry.by_slot[i]);
	ledger_destroy(&gw.ledger);
	pthread_mutex_destroy(&gw.fleet_lock);
	pthread_mutex_destroy(&gw.registry.lock);
	return 0;
}

static struct config *config_of(const char *yaml)
{
	struct config_error e;
	struct config *cfg;
	char text[1024];

	if (config_load_buffer(yaml, strlen(yaml), "t", &cfg, &e) || config_resolve(cfg, &e))
		fail_msg("%s", config_error_text(&e, text, sizeof(text)));
	return cfg;
}

static int try_build(const char *yaml, struct fleet *old, struct fleet **out, char *err, size_t err_len)
{
	struct config *cfg = config_of(yaml);
	int rc = fleet_build(&gw, cfg, old, out, err, err_len);

	config_unref(cfg); /* the fleet has its own */
	return rc;
}

static struct fleet *build(const char *yaml, struct fleet *old)
{
	struct fleet *f;
	char err[256];

	if (try_build(yaml, old, &f, err, sizeof(err)))
		fail_msg("%s", err);
	return f;
}

/* ---- names ---- */

#define TWO_POOLS                                                                                         \
	"pools:\n"                                                                                        \
	"  - name: llama\n"                                                                               \
	"    models: [llama-70b, llama-70b-fp8]\n"                                                        \
	"    adapters: [support-de]\n"                                                                    \
	"    aliases: {gpt-4o: llama-70b, support: support-de}\n"                                         \
	"    backends: [http://127.0.0.1:9001, http://127.0.0.1:9002]\n"                                  \
	"  - name: qwen\n"                                                                                \
	"    models: [qwen]\n"

static const struct {
	const char *model, *pool, *served, *base;
	bool adapter, alias;
} names[] = {
	{ "llama-70b", "llama", "llama-70b", "llama-70b", false, false },
	{ "llama-70b-fp8", "llama", "llama-70b-fp8", "llama-70b-fp8", false, false },
	{ "support-de", "llama", "support-de", "llama-70b", true, false },
	{ "gpt-4o", "llama", "llama-70b", "llama-70b", false, true },
	{ "support", "llama", "support-de", "llama-70b", true, true },
	{ "qwen", "qwen", "qwen", "qwen", false, false },
	{ "LLAMA-70B", NULL, NULL, NULL, false, false },
	{ "llama", NULL, NULL, NULL, false, false }, /* a pool's name is no model */
	{ "qwen ", NULL, NULL, NULL, false, false },
	{ NULL, NULL, NULL, NULL, false, false },
	{ "", NULL, NULL, NULL, false, false },
};

static void test_model_chooses_pool(void **state)
{
	struct fleet *f = build(TWO_POOLS "    backends: [http://127.0.0.1:9003]\n", NULL);

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct fleet_model m;
		struct fleet_pool *p = fleet_pool_for_model(f, names[i].model, &m);

		if (!names[i].pool) {
			assert_null(p);
			continue;
		}
		assert_non_null(p);
		assert_string_equal(p->cfg->name, names[i].pool);
		assert_string_equal(m.served, names[i].served);
		assert_string_equal(m.base, names[i].base);
		assert_int_equal(m.adapter, names[i].adapter);
		assert_int_equal(m.alias, names[i].alias);
	}
	fleet_put(f);
}

static void test_default_pool(void **state)
{
	struct fleet *f = build(TWO_POOLS "    default: true\n    backends: [http://127.0.0.1:9003]\n", NULL);
	struct fleet_model m;

	assert_string_equal(fleet_pool_for_model(f, NULL, &m)->cfg->name, "qwen");
	assert_string_equal(m.served, "qwen");
	assert_string_equal(fleet_pool_for_model(f, "", &m)->cfg->name, "qwen");
	assert_null(fleet_pool_for_model(f, "unknown", &m)); /* a wrong name is not a missing one */
	fleet_put(f);
}

static void test_only_pool(void **state)
{
	struct fleet *f = build("pools: [{name: p, models: [m], backends: [http://127.0.0.1:1]}]", NULL);
	struct fleet_model m;

	assert_non_null(fleet_pool_for_model(f, NULL, &m));
	assert_string_equal(m.served, "m");
	assert_null(fleet_pool_for_model(f, "other", &m));
	fleet_put(f);
}

/* A pool that names nothing takes every name that no other claims. */
static void test_any_model(void **state)
{
	struct fleet *f = build("pools:\n  - {name: rest, default: true, backends: [http://127.0.0.1:1]}\n"
				"  - {name: own, models: [m], backends: [http://127.0.0.1:2]}\n", NULL);
	struct fleet_model m;

	assert_string_equal(fleet_pool_for_model(f, "m", &m)->cfg->name, "own");
	assert_string_equal(fleet_pool_for_model(f, "whatever", &m)->cfg->name, "rest");
	assert_string_equal(m.served, "whatever");
	assert_string_equal(m.base, "whatever");
	assert_false(m.adapter || m.alias);
	assert_string_equal(fleet_pool_for_model(f, NULL, &m)->cfg->name, "rest");
	assert_string_equal(m.served, "");
	fleet_put(f);
}

/* A request that moves to a newer snapshot of its pool keeps its names, as that one has them. */
static void test_rename(void **state)
{
	struct fleet *f = build(TWO_POOLS "    backends: [http://127.0.0.1:9003]\n", NULL);
	struct fleet_model m;

	fleet_rename(f, &f->pools[0], "gpt-4o", &m);
	assert_string_equal(m.served, "llama-70b");
	assert_true(m.alias);
	fleet_rename(f, &f->pools[0], "gone-by-now", &m);
	assert_string_equal(m.served, "gone-by-now");
	assert_false(m.alias);
	fleet_rename(f, &f->pools[0], NULL, &m);
	assert_string_equal(m.served, "llama-70b");
	fleet_put(f);
}

/* ---- rows ---- */

static void test_rows(void **state)
{
	struct fleet *f = build(TWO_POOLS "    backends: [http://127.0.0.1:9003]\n", NULL);
	const struct fleet_pool *a = &f->pools[0], *b = &f->pools[1];

	assert_int_equal(a->nbackends, 2);
	for (unsigned i = 0; i < 2; i++) {
		const struct sockaddr_in *sa = (const void *)&a->backends[i].addr;

		assert_ptr_equal(fleet_pool_backend(a, a->backends[i].row), &a->backends[i]);
		assert_null(fleet_pool_backend(b, a->backends[i].row));
		assert_int_equal(ntohs(sa->sin_port), 9001 + i);
		assert_int_equal(a->backends[i].addr_len, sizeof(*sa));
	}
	assert_ptr_equal(fleet_pool_backend(b, b->backends[0].row), &b->backends[0]);
	assert_null(fleet_pool_backend(a, BACKENDS_MAX_ROWS - 1));
	fleet_put(f);
}

/* ---- reload ---- */

#define POOL(more) "pools:\n  - name: p\n    models: [m]\n" more

static uint32_t eligible(struct fleet *f)
{
	struct route_pool_status ps;

	route_pool_status(f->pools[0].state->route, clock_now_ns(), &ps, NULL, 0);
	return ps.n_eligible;
}

static void test_reload_keeps_state(void **state)
{
	struct fleet *old = build(POOL("    backends: [http://127.0.0.1:1, http://127.0.0.1:2]\n"), NULL), *new;
	struct fleet_pool_state *s = old->pools[0].state;
	uint32_t row2 = old->pools[0].backends[1].row;

	assert_int_equal(route_set_drain(s->route, "127.0.0.1:2", true), 0);
	assert_int_equal(s->queue.limit, 1000);
	new = build(POOL("    queue: {max_requests: 5}\n    backends: [http://127.0.0.1:3, http://127.0.0.1:2]\n"), old);
	assert_true(new->version > old->version);
	assert_ptr_equal(new->pools[0].state, s);
	assert_int_equal(s->refs, 2);
	assert_int_equal(s->queue.limit, 5);
	assert_int_equal(new->pools[0].backends[1].row, row2); /* the same node, wherever it is listed */
	assert_int_not_equal(new->pools[0].backends[0].row, row2);
	assert_int_equal(eligible(new), 1); /* an operator's drain outlives the reload */
	/* the old snapshot goes on working for those who began with it */
	assert_int_equal(old->pools[0].nbackends, 2);
	assert_string_equal(old->pools[0].backends[0].cfg->name, "127.0.0.1:1");
	fleet_put(old);
	assert_int_equal(s->refs, 1);
	fleet_put(new);
}

/* A pool that left the configuration lives as long as a request that uses it. */
static void test_removed_pool_lives_on(void **state)
{
	struct fleet *old = build(TWO_POOLS "    backends: [http://127.0.0.1:9003]\n", NULL), *new;
	uint32_t slot = old->pools[1].state->slot;
	struct fleet_pool_state *s;

	new = build("pools: [{name: llama, models: [x], backends: [http://127.0.0.1:9001]}]", old);
	s = fleet_state_get(&gw.registry, slot);
	assert_ptr_equal(s, old->pools[1].state);
	fleet_put(old);
	assert_ptr_equal(gw.registry.by_slot[slot], s); /* ours keeps it */
	fleet_state_put(s);
	assert_null(fleet_state_get(&gw.registry, slot));
	assert_null(fleet_state_get(&gw.registry, STATS_POOLS_MAX));
	assert_null(fleet_state_get(&gw.registry, UINT32_MAX));
	fleet_put(new);
}

/* pools[0] as given and one of `n` backends. */
static char *big(const char *first, unsigned pools, unsigned n)
{
	char *text = malloc(256 * 1024), *p = text;

	p += sprintf(p, "%s", first);
	for (unsigned i = 0; i < pools; i++) {
		p += sprintf(p, "  - name: big%u\n    models: [big%u]\n    backends: [", i, i);
		for (unsigned k = 0; k < n; k++)
			p += sprintf(p, "%s\"http://127.0.0.1:%u\"", k ? ", " : "", 10000 + i * n + k);
		p += sprintf(p, "]\n");
	}
	return text;
}

/* The table of backends is full in the middle of a reload: pools that were changed before
 * that go back to what they were, and pools that were made are gone. */
static void test_failed_build_restores(void **state)
{
	char *many = big(POOL("    backends: [http://127.0.0.1:1, http://127.0.0.1:2]\n"), 3, 256);
	char *other = big(POOL("    queue: {max_requests: 7}\n    backends: [http://127.0.0.1:3]\n  - name: extra\n    models: [e]\n"
			       "    backends: [http://127.0.0.1:4]\n  - name: huge\n    models: [h]\n    backends: [http://127.0.0.1:5]\n"),
			  0, 0);
	struct fleet *old = build(many, NULL), *new = NULL;
	struct fleet_pool_state *s = old->pools[0].state;
	char err[256] = "", *bad;
	unsigned slots = 0;

	/* the old pools stay in the table until the new fleet stands: 770 and 769 are too many */
	bad = malloc(512 * 1024);
	strcpy(bad, other);
	for (unsigned i = 0; i < 3; i++) {
		char *p = bad + strlen(bad);

		p += sprintf(p, "  - name: new%u\n    models: [new%u]\n    backends: [", i, i);
		for (unsigned k = 0; k < 256; k++)
			p += sprintf(p, "%s\"http://127.0.0.1:%u\"", k ? ", " : "", 20000 + i * 256 + k);
		sprintf(p, "]\n");
	}
	assert_int_equal(try_build(bad, old, &new, err, sizeof(err)), -ENOSPC);
	assert_null(new);
	assert_non_null(strstr(err, "too many backends"));
	assert_non_null(strstr(err, "pool new"));
	for (unsigned i = 0; i < STATS_POOLS_MAX; i++)
		slots += gw.registry.by_slot[i] != NULL;
	assert_int_equal(slots, 4);
	assert_ptr_equal(old->pools[0].state, s);
	assert_int_equal(s->refs, 1);
	assert_int_equal(s->queue.limit, 1000);
	assert_int_equal(route_node_by_name(s->route, "127.0.0.1:1"), old->pools[0].backends[0].node);
	assert_int_equal(route_node_by_name(s->route, "127.0.0.1:2"), old->pools[0].backends[1].node);
	assert_int_equal(eligible(old), 2);
	/* and a reload that fits is possible right after */
	new = build(other, old);
	assert_ptr_equal(new->pools[0].state, s);
	assert_int_equal(eligible(new), 1);
	fleet_put(old);
	fleet_put(new);
	free(many);
	free(other);
	free(bad);
}

/* ---- threads ---- */

struct hammer {
	pthread_t thread;
	bool stop;
	uint64_t turns;
};

/* What workers and the scraper do all the time. */
static void *hammer(void *arg)
{
	struct hammer *h = arg;

	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
		struct fleet *f = gateway_fleet_get(&gw);
		struct fleet_pool_state *s = fleet_state_get(&gw.registry, 1 + h->turns % 3);
		struct fleet_model m;

		if (fleet_pool_for_model(f, "m", &m))
			h->turns++;
		assert_string_equal(f->pools[0].state->name, "p"); /* alive */
		if (s)
			fleet_state_put(s);
		fleet_put(f);
	}
	return NULL;
}

static void test_reload_among_users(void **state)
{
	static const char *const files[] = {
		POOL("    backends: [http://127.0.0.1:1]\n"),
		POOL("    backends: [http://127.0.0.1:2, http://127.0.0.1:1]\n  - {name: q, models: [q], backends: [http://127.0.0.1:3]}\n"),
		POOL("    backends: [http://127.0.0.1:2]\n  - {name: r, models: [r], backends: [http://127.0.0.1:3]}\n"),
	};
	struct hammer h[3] = { 0 };

	gw.fleet = build(files[0], NULL);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&h[i].thread, NULL, hammer, &h[i]), 0);
	for (unsigned i = 0; i < 300; i++) {
		struct config *cfg = config_of(files[i % 3]);
		struct fleet *old, *new;
		char err[256];

		pthread_mutex_lock(&gw.fleet_lock);
		old = gw.fleet;
		assert_int_equal(fleet_build(&gw, cfg, old, &new, err, sizeof(err)), 0);
		gw.fleet = new;
		pthread_mutex_unlock(&gw.fleet_lock);
		config_unref(cfg);
		fleet_put(old);
	}
	for (unsigned i = 0; i < 3; i++)
		__atomic_store_n(&h[i].stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(h[i].thread, NULL);
	assert_true(h[0].turns + h[1].turns + h[2].turns > 0);
	assert_int_equal(gw.fleet->refs, 1);
	fleet_put(gw.fleet);
	gw.fleet = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_model_chooses_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(test_default_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(test_any_model, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rename, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reload_keeps_state, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_pool_lives_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_build_restores, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reload_among_users, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
