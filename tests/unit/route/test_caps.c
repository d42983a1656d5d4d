/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The cap: hard, for one request and for threads, and no reason to stop a pool. */

#include <errno.h>
#include <pthread.h>

#include "fixture.h"

static void cap_is_hard_and_counts_strangers(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t[8] = { 0 }, more = { 0 };
	struct route_snapshot_in snap = { .waiting = 1, .running = 2, .kv_used = -1 };
	struct route_plan plan;
	struct route_pool_status ps;
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 4);
	route_snapshot(f.pool, 0, &snap, f.now); /* three requests came past this gateway */
	fx_assign(&f, &r, &t[0]);
	assert_int_equal(route_assign(f.pool, &r, f.now, &more, &plan), -EAGAIN);
	/* Stale is unknown, not full: own counts alone. */
	f.now += 6 * FX_S;
	for (i = 1; i < 4; i++)
		fx_assign(&f, &r, &t[i]);
	assert_int_equal(route_assign(f.pool, &r, f.now, &more, &plan), -EAGAIN);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_int_equal(ps.n_eligible, 0);
	assert_true(ps.saturation >= 1);
	assert_int_equal(ps.refused_at_cap, 2);
	for (i = 0; i < 4; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	fx_assign(&f, &r, &more);
	route_end(f.pool, &more, f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

/* 200 ms of staleness of a one-node pool answered HTTP 500 while the engine was healthy. */
static void stale_counters_do_not_stop_a_pool_of_one(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_snapshot_in snap = { .waiting = 300, .running = 256, .kv_used = 0.99 };

	fx_open(&f, ROUTE_POLICY_COST, 1, 4);
	route_snapshot(f.pool, 0, &snap, f.now);
	f.now += 5 * FX_S + 1;
	route_tick(f.pool, f.now);
	assert_true(fx_status(&f, 0).stale);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_READY);
	assert_int_equal(fx_serve(&f, &r), 0);
	fx_close(&f);
}

#define THREADS 4

struct worker {
	struct fx *f;
	uint32_t id, served, refused, over;
};

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	static __thread struct fx_prompt p;
	struct route_ticket t[6];
	struct route_plan plan;
	uint32_t n = 0, i, seed = w->id + 1;

	memset(t, 0, sizeof(t));
	for (i = 0; i < 4000; i++) {
		struct route_request r;

		seed = seed * 1664525 + 1013904223;
		memset(&p, 0, sizeof(p));
		fx_say(&p, seed >> 28, 200, 0);
		r = fx_request(NULL); /* the chain must outlive the ticket: no key here but a placement key */
		r.placement_key = p.last;
		r.worker = w->id;
		r.first_token_visible = seed >> 20 & 1;
		if (n < 6 && seed >> 31) {
			if (route_assign(w->f->pool, &r, i, &t[n], &plan)) {
				w->refused++;
				continue;
			}
			if (ledger_in_flight(&w->f->ledger, plan.row) > 3)
				w->over++;
			n++;
		} else if (n) {
			n--;
			if (seed >> 29 & 1)
				route_first_token(w->f->pool, &t[n], i, ROUTE_TOKENS_UNKNOWN);
			if ((seed >> 27 & 3) == 0 && route_retry(w->f->pool, &t[n], i, &plan))
				continue;
			route_end(w->f->pool, &t[n], i, seed >> 25 & 3, 10);
			w->served++;
		}
	}
	while (n)
		route_end(w->f->pool, &t[--n], i, ROUTE_END_OK, 10);
	return NULL;
}

/* The cap is a promise to the operator; counters that leak or reset broke it elsewhere. */
static void caps_hold_under_threads(void **state)
{
	static struct fx f;
	struct worker w[THREADS];
	pthread_t tid[THREADS];
	uint32_t i;

	memset(&f, 0, sizeof(f));
	fx_open(&f, ROUTE_POLICY_COST, 5, 3);
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .f = &f, .id = i };
		assert_int_equal(pthread_create(&tid[i], NULL, worker_run, &w[i]), 0);
	}
	for (i = 0; i < 50; i++)
		assert_int_equal(route_check_invariants(f.pool), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(tid[i], NULL);
		assert_int_equal(w[i].over, 0);
		assert_true(w[i].served > 500);
	}
	for (i = 0; i < 5; i++) {
		assert_int_equal(fx_status(&f, i).unp, 0);
		assert_true(fx_status(&f, i).work_s == 0);
	}
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cap_is_hard_and_counts_strangers),
		cmocka_unit_test(stale_counters_do_not_stop_a_pool_of_one),
		cmocka_unit_test(caps_hold_under_threads),
	};

	return cmocka_run_group_tests_name("route/caps", tests, NULL, NULL);
}
