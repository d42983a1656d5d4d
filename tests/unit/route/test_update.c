/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Membership: reloads keep what is known and what is running; drain is explicit and reversible; a next
 * process adopts rows, speeds and index. Stories: scale-in that cut streams, a cancelled drain that left a
 * ready node unroutable, health checks that reset counters, a restarted worker that attracted everything. */
#include <errno.h>
#include <sys/mman.h>

#include "fixture.h"

static void reload_keeps_everything_by_name(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_backend_status before, after;
	uint32_t node;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	node = fx_assign(&f, &r, &t);
	route_first_token(f.pool, &t, f.now += FX_S, ROUTE_TOKENS_UNKNOWN);
	route_set_drain(f.pool, "n3", true);
	before = fx_status(&f, node);
	assert_true(before.speed > 1.1);
	/* Another order, another cap, one more. */
	fx_names(&f, 5);
	struct route_backend_config swap = f.b[0];
	f.b[0] = f.b[3];
	f.b[3] = swap;
	f.b[1].cap = 7;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	after = fx_status(&f, node);
	assert_string_equal(after.name, before.name);
	assert_int_equal(after.row, before.row);
	assert_int_equal(after.in_flight, 1);
	assert_int_equal(after.index_blocks, before.index_blocks);
	assert_int_equal(after.epoch, before.epoch);
	assert_true(after.speed == before.speed);
	assert_int_equal(fx_status(&f, route_node_by_name(f.pool, "n3")).state, BACKEND_DRAINING);
	assert_int_equal(fx_status(&f, route_node_by_name(f.pool, "n1")).cap, 7);
	assert_int_equal(fx_status(&f, route_node_by_name(f.pool, "n4")).in_flight, 0);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

static void removed_node_ends_its_requests(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 }, u = { 0 };
	struct route_backend_config b0, b1;
	uint32_t node, row, i;

	fx_open(&f, ROUTE_POLICY_COST, 2, 256);
	b0 = f.b[0];
	b1 = f.b[1];
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	node = fx_assign(&f, &r, &t);
	row = t.row;
	f.b[0] = node ? b0 : b1;
	f.cfg.n_backends = 1;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	assert_int_equal(fx_status(&f, node).state, BACKEND_GONE);
	assert_int_equal(f.ledger.rows[row].in_flight, 1);
	for (i = 0; i < 5; i++)
		assert_int_not_equal(fx_serve(&f, &r), node);
	/* The request goes on and ends as any other. */
	route_first_token(f.pool, &t, f.now += 300 * FX_MS, ROUTE_TOKENS_UNKNOWN);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	route_tick(f.pool, f.now);
	assert_int_equal(f.ledger.rows[row].state, BACKEND_FREE);
	assert_int_equal(route_node_by_name(f.pool, node ? "n1" : "n0"), ROUTE_NO_NODE);
	/* Back again: it starts with nothing. */
	f.b[0] = b0;
	f.b[1] = b1;
	f.cfg.n_backends = 2;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	assert_int_equal(fx_status(&f, route_node_by_name(f.pool, f.b[node].name)).index_blocks, 0);
	/* Removed and back while a request runs: the count goes on, the cache is void. */
	route_set_drain(f.pool, f.b[!node].name, true);
	fx_assign(&f, &r, &u);
	route_first_token(f.pool, &u, f.now, ROUTE_TOKENS_UNKNOWN);
	f.b[0] = node ? b0 : b1;
	f.cfg.n_backends = 1;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	f.b[0] = b0;
	f.cfg.n_backends = 2;
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	assert_int_equal(fx_status(&f, u.node).in_flight, 1);
	assert_int_equal(fx_status(&f, u.node).index_blocks, 0);
	assert_int_equal(fx_status(&f, u.node).state, BACKEND_READY);
	route_end(f.pool, &u, f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

static void drain_is_reversible(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	uint32_t home, i;
	char name[16];

	fx_open(&f, ROUTE_POLICY_COST, 3, 256);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	home = fx_assign(&f, &r, &t);
	route_first_token(f.pool, &t, f.now += 200 * FX_MS, ROUTE_TOKENS_UNKNOWN);
	snprintf(name, sizeof(name), "n%u", home);
	assert_int_equal(route_set_drain(f.pool, name, true), 0);
	assert_int_equal(f.ledger.rows[t.row].state, BACKEND_DRAINING);
	for (i = 0; i < 5; i++)
		assert_int_not_equal(fx_serve(&f, &r), home);
	assert_int_equal(fx_status(&f, home).in_flight, 1);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	assert_int_equal(route_set_drain(f.pool, name, false), 0);
	assert_int_equal(f.ledger.rows[fx_status(&f, home).row].state, BACKEND_READY);
	/* Its cache is still known; drain the others to see it. */
	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		route_set_drain(f.pool, name, i != home);
	}
	assert_int_equal(fx_assign(&f, &r, &t), home);
	assert_int_equal(t.match_tokens, 3000);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

static void restarted_node_is_cold(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_snapshot_in snap = { .kv_used = 0, .restarted = true };
	uint32_t epoch;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	fx_serve(&f, &r);
	epoch = fx_status(&f, 0).epoch;
	assert_int_equal(route_snapshot(f.pool, 0, &snap, f.now), 0);
	assert_int_equal(fx_status(&f, 0).epoch, epoch + 1);
	assert_int_equal(fx_status(&f, 0).index_blocks, 0);
	fx_assign(&f, &r, &t);
	assert_int_equal(t.match_tokens, 0);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	route_tick(f.pool, f.now);
	assert_int_equal(fx_status(&f, 0).index_blocks, 47);
	fx_close(&f);
}

static void reported_kv_resizes_the_index(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p;
	struct route_request r;
	struct route_snapshot_in snap = { .kv_used = 0.1, .kv_capacity_tokens = 10000 };
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	assert_int_equal(fx_status(&f, 0).index_capacity_bytes, 2560000);
	for (i = 0; i < 10; i++) {
		memset(&p, 0, sizeof(p));
		fx_say(&p, 1000 * i, 3000, 0);
		r = fx_request(&p);
		fx_serve(&f, &r);
	}
	assert_int_equal(fx_status(&f, 0).index_blocks, 470);
	route_snapshot(f.pool, 0, &snap, f.now);
	assert_int_equal(fx_status(&f, 0).index_capacity_bytes, 40000);
	assert_true(fx_status(&f, 0).index_bytes <= 40000);
	/* The last ones are the ones that stayed. */
	struct route_ticket t = { 0 };
	fx_assign(&f, &r, &t);
	assert_int_equal(t.match_tokens, 3000);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 1);
	fx_close(&f);
}

/* llama.cpp says how much its slots can hold at most; a slot keeps one prompt, however
 * short. A figure that the operator measured is smaller and must stay. */
static void a_bound_does_not_raise_the_configured_kv(void **state)
{
	struct fx f = { 0 };
	struct route_snapshot_in snap = { .kv_used = -1, .kv_capacity_tokens = 1000000, .kv_capacity_bound = true };

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	route_snapshot(f.pool, 0, &snap, f.now);
	assert_int_equal(fx_status(&f, 0).index_capacity_bytes, 2560000);
	snap.kv_capacity_tokens = 10000;
	route_snapshot(f.pool, 0, &snap, f.now);
	assert_int_equal(fx_status(&f, 0).index_capacity_bytes, 40000);
	snap.kv_capacity_bound = false;
	snap.kv_capacity_tokens = 1000000;
	route_snapshot(f.pool, 0, &snap, f.now);
	assert_int_equal(fx_status(&f, 0).index_capacity_bytes, 4000000);
	fx_close(&f);
}

static void grows_beyond_64_nodes(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket live = { 0 }, t = { 0 };
	uint32_t home;

	fx_open(&f, ROUTE_POLICY_COST, 10, 256);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	home = fx_serve(&f, &r);
	fx_assign(&f, &r, &live);
	fx_names(&f, 200);
	assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
	assert_int_equal(fx_status(&f, home).index_blocks, 47);
	assert_int_equal(fx_status(&f, 199).state, BACKEND_READY);
	fx_assign(&f, &r, &t);
	assert_int_equal(t.match_tokens, 3000);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 1);
	route_end(f.pool, &live, f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* Each reload with new names: rows and node numbers are given back, none leak. */
static void endless_membership_changes(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	uint32_t i, k, used;

	fx_open(&f, ROUTE_POLICY_COST, 40, 256);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	for (i = 0; i < 100; i++) {
		for (k = 0; k < 40; k++)
			snprintf(f.name[k], sizeof(f.name[k]), "g%u-%u", i, k);
		assert_int_equal(route_pool_update(f.pool, &f.cfg), 0);
		for (k = 0; k < 10; k++)
			fx_serve(&f, &r);
	}
	route_tick(f.pool, f.now);
	for (i = 0, used = 0; i < BACKENDS_MAX_ROWS; i++)
		used += f.ledger.rows[i].state != BACKEND_FREE;
	assert_int_equal(used, 40);
	fx_close(&f);
}

static void bad_updates_change_nothing(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_pool_config c;

	fx_open(&f, ROUTE_POLICY_ROUND_ROBIN, 3, 256);
	c = f.cfg;
	c.name = "other";
	assert_int_equal(route_pool_update(f.pool, &c), -EINVAL);
	c = f.cfg;
	f.b[2].name = f.b[1].name;
	assert_int_equal(route_pool_update(f.pool, &c), -EINVAL);
	f.b[2].name = "";
	assert_int_equal(route_pool_update(f.pool, &c), -EINVAL);
	fx_serve(&f, &r);
	fx_serve(&f, &r);
	assert_int_equal(fx_serve(&f, &r), 2);
	/* No row left: all or nothing. */
	uint32_t i;
	for (i = 0; i < BACKENDS_MAX_ROWS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "x%u", i);
		if (ledger_row_claim(&f.ledger, "full", name, NULL) < 0)
			break;
	}
	assert_int_equal(i, BACKENDS_MAX_ROWS - 3);
	fx_names(&f, 4);
	assert_int_equal(route_pool_update(f.pool, &f.cfg), -ENOSPC);
	assert_int_equal(fx_serve(&f, &r), 0);
	assert_int_equal(fx_serve(&f, &r), 1);
	fx_close(&f);
}

/* The next process: same rows, same speeds, same index, whatever the order of its configuration. */
static void next_process_adopts(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_backend_config swap;
	struct route_pool *second;
	size_t bytes;
	void *mem;
	char home[BACKEND_NAME_BYTES];
	double speed;

	fx_names(&f, 5);
	f.now = 1000 * FX_S;
	bytes = route_pool_index_bytes(&f.cfg);
	mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	assert_int_equal(ledger_create(&f.ledger, 1024, 1), 0);
	assert_int_equal(route_pool_create_in(&f.pool, &f.cfg, &f.ledger, mem, bytes), 0);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	route_first_token(f.pool, &t, f.now += 2 * FX_S, ROUTE_TOKENS_UNKNOWN);
	memcpy(home, fx_status(&f, t.node).name, sizeof(home));
	speed = fx_status(&f, t.node).speed;
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	/* The first process is gone without a word; its pool is freed only for the leak checker. */
	swap = f.b[0];
	f.b[0] = f.b[4];
	f.b[4] = swap;
	assert_int_equal(route_pool_create_in(&second, &f.cfg, &f.ledger, mem, bytes), 0);
	route_pool_free(f.pool);
	f.pool = second;
	uint32_t node = route_node_by_name(f.pool, home);
	assert_true(fx_status(&f, node).speed > speed - 0.01 && fx_status(&f, node).speed < speed + 0.01);
	assert_int_equal(fx_status(&f, node).index_blocks, 47);
	assert_int_equal(fx_assign(&f, &r, &t), node);
	assert_int_equal(t.match_tokens, 3000);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 1);
	fx_close(&f);
	munmap(mem, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reload_keeps_everything_by_name),
		cmocka_unit_test(removed_node_ends_its_requests),
		cmocka_unit_test(drain_is_reversible),
		cmocka_unit_test(restarted_node_is_cold),
		cmocka_unit_test(reported_kv_resizes_the_index),
		cmocka_unit_test(a_bound_does_not_raise_the_configured_kv),
		cmocka_unit_test(grows_beyond_64_nodes),
		cmocka_unit_test(endless_membership_changes),
		cmocka_unit_test(bad_updates_change_nothing),
		cmocka_unit_test(next_process_adopts),
	};

	return cmocka_run_group_tests_name("route/update", tests, NULL, NULL);
}
