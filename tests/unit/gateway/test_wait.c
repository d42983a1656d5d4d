/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Waiting for a slot: no wake-up is lost, none is counted twice, whoever leaves when. The
 * worker's loop does not run: its mail is looked at and played by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"

static struct gateway gw;
static struct worker *w;
static struct fleet_pool_state *s;

static int setup(void **state)
{
	static const char yaml[] = "pools: [{name: p, models: [m], concurrency_threshold: 1, backends: [http://127.0.0.1:1]}]";
	struct config_error e;
	struct config *cfg;
	char err[256];

	memset(&gw, 0, sizeof(gw));
	pthread_mutex_init(&gw.fleet_lock, NULL);
	pthread_mutex_init(&gw.registry.lock, NULL);
	if (ledger_create(&gw.ledger, 64, 1) || config_load_buffer(yaml, sizeof(yaml) - 1, "t", &cfg, &e) ||
	    fleet_build(&gw, cfg, NULL, &gw.fleet, err, sizeof(err)) || worker_create(&w, &gw, 0))
		return -1;
	config_unref(cfg);
	gw.fleet_version = gw.fleet->version;
	w->fleet = gateway_fleet_get(&gw);
	w->now_ns = clock_now_ns();
	s = gw.fleet->pools[0].state;
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(s->queue.len, 0);
	worker_destroy(w);
	fleet_put(gw.fleet);
	ledger_destroy(&gw.ledger);
	pthread_mutex_destroy(&gw.fleet_lock);
	pthread_mutex_destroy(&gw.registry.lock);
	return 0;
}

/* A request whose client has gone out of sight; it waits all the same. */
static struct exchange *waiting(void)
{
	struct exchange *x = calloc(1, sizeof(*x));

	x->w = w;
	x->fleet = gateway_fleet_get(&gw);
	x->pool = &x->fleet->pools[0];
	x->request_ns = w->now_ns;
	x->ticket.node = ROUTE_NO_NODE;
	exchange_enqueue(x);
	assert_int_equal(x->phase, EXCHANGE_QUEUED);
	return x;
}

/* Takes the oldest mail out of the box, as the loop would; NULL if there is none. */
static struct exchange *next_mail(void)
{
	struct mail *m = w->mail_head;

	if (!m)
		return NULL;
	w->mail_head = m->next;
	return container_of(m, struct exchange, wake);
}

static void forget(struct exchange *x)
{
	timer_cancel(&w->timers, &x->timer);
	assert_false(x->wake_posted);
	fleet_put(x->fleet);
	free(x);
}

/* The look for a slot of a woken request, which finds none. */
static void woken_in_vain(struct exchange *x, uint64_t seen)
{
	x->wake_posted = false;
	exchange_requeue(x, seen);
}

/* A request that joins the queue looks once more: a slot may have been freed before it was in. */
static void test_enqueue_looks_again(void **state)
{
	struct exchange *x = waiting();

	assert_true(x->wake_posted);
	assert_ptr_equal(next_mail(), x);
	woken_in_vain(x, s->releases);
	assert_true(x->queued);
	assert_true(pool_waiting(s));
	assert_null(next_mail()); /* and then waits: no turning round and round */
	assert_false(exchange_leave_queue(x));
	assert_false(pool_waiting(s));
	forget(x);
}

/* Between a woken request's look, which finds no slot, and its return to the queue, a slot is
 * freed: who frees it sees an empty queue and wakes nobody. The request waited for the next
 * tick then, a tenth of a second beside a free slot. */
static void test_release_during_the_look_is_not_lost(void **state)
{
	struct exchange *x = waiting();
	uint64_t seen;

	assert_ptr_equal(next_mail(), x);
	seen = s->releases;
	pool_wake(s); /* another worker's request ends */
	assert_null(next_mail());
	woken_in_vain(x, seen);
	assert_ptr_equal(next_mail(), x);
	woken_in_vain(x, s->releases);
	assert_null(next_mail());
	exchange_leave_queue(x);
	forget(x);
}

static void test_release_wakes_the_first(void **state)
{
	struct exchange *a = waiting(), *b;

	next_mail();
	woken_in_vain(a, s->releases);
	b = waiting(); /* joins: its second look is the first one's */
	assert_ptr_equal(next_mail(), a);
	woken_in_vain(a, s->releases);
	pool_wake(s);
	assert_ptr_equal(next_mail(), a);
	assert_null(next_mail());
	a->wake_posted = false;
	pool_wake(s);
	assert_ptr_equal(next_mail(), b);
	b->wake_posted = false;
	forget(a);
	forget(b);
}

/* Who gives up while its wake-up is on the way stays in memory until that has come, and hands
 * it on: the slot that it stood for is still free. */
static void test_wake_of_one_who_left_goes_on(void **state)
{
	struct exchange *a = waiting(), *b;
	struct mail *m;

	next_mail();
	woken_in_vain(a, s->releases);
	b = waiting();
	next_mail();
	woken_in_vain(a, s->releases);
	pool_wake(s);
	assert_true(a->wake_posted);
	a->zombie = exchange_leave_queue(a); /* its time is over */
	assert_true(a->zombie);
	timer_cancel(&w->timers, &a->timer);
	m = &next_mail()->wake;
	assert_ptr_equal(m, &a->wake);
	m->fn(w, m); /* frees a */
	assert_ptr_equal(next_mail(), b);
	b->wake_posted = false;
	forget(b);
}

/* Retry-After is told from the pace of releases; joining, looking again and ticks are none. */
static void test_only_releases_count(void **state)
{
	struct exchange *x[20];
	uint64_t releases = s->releases;
	double counted = s->queue.drain.releases;

	for (unsigned i = 0; i < 20; i++) {
		x[i] = waiting();
		for (struct exchange *y; (y = next_mail());)
			woken_in_vain(y, s->releases);
	}
	for (unsigned i = 0; i < 20; i++) {
		gateway_pool_tick(&gw, &gw.fleet->pools[0], clock_now_ns());
		for (struct exchange *y; (y = next_mail());)
			woken_in_vain(y, s->releases);
	}
	assert_int_equal(s->releases, releases);
	assert_true(s->queue.drain.releases <= counted); /* it only fades */
	assert_int_equal(s->waiting, 20);
	for (unsigned i = 0; i < 20; i++) {
		exchange_leave_queue(x[i]);
		forget(x[i]);
	}
}

/* ---- wake-ups of another thread ---- */

static bool stop;

static void *release_slots(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		pool_wake(s);
	return NULL;
}

/* One request looks in vain again and again while another thread frees slots: after every
 * return to the queue it is woken by a release that came since its look, or it is in the
 * queue for the next one. At the end it is in one place, not in two and not in none. */
static void test_beside_a_releasing_thread(void **state)
{
	struct exchange *x = waiting();
	unsigned woken = 0;
	pthread_t t;

	stop = false;
	assert_int_equal(pthread_create(&t, NULL, release_slots, NULL), 0);
	for (uint64_t end = clock_now_ns() + 300 * NSEC_PER_MSEC; clock_now_ns() < end;) {
		struct exchange *y;
		uint64_t seen;

		pthread_mutex_lock(&w->mail_lock);
		y = next_mail();
		pthread_mutex_unlock(&w->mail_lock);
		if (!y)
			continue;
		assert_ptr_equal(y, x);
		pthread_mutex_lock(&s->queue_lock);
		assert_false(x->queued);
		assert_true(x->wake_posted);
		x->wake_posted = false;
		pthread_mutex_unlock(&s->queue_lock);
		seen = __atomic_load_n(&s->releases, __ATOMIC_SEQ_CST);
		exchange_requeue(x, seen);
		woken++;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	assert_true(woken > 10);
	assert_true(x->queued != x->wake_posted);
	if (exchange_leave_queue(x)) {
		assert_ptr_equal(next_mail(), x);
		x->wake_posted = false;
	}
	assert_null(next_mail());
	forget(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_enqueue_looks_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_release_during_the_look_is_not_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_release_wakes_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wake_of_one_who_left_goes_on, setup, teardown),
		cmocka_unit_test_setup_teardown(test_only_releases_count, setup, teardown),
		cmocka_unit_test_setup_teardown(test_beside_a_releasing_thread, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
