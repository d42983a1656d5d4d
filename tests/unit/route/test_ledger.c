/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The request ledger: exactly one release per take, counters equal to the live slots, under threads, over
 * a crash. Stories: counters that leaked on client aborts, and counters that a health check reset. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "route/ledger.h"

static int open_rows(struct ledger *l, uint32_t slots, uint32_t workers)
{
	assert_int_equal(ledger_create(l, slots, workers), 0);
	assert_int_equal(ledger_row_claim(l, "p", "a", "1.2.3.4:5"), 0);
	assert_int_equal(ledger_row_claim(l, "p", "b", NULL), 1);
	return 0;
}

static void take_release(void **state)
{
	struct ledger_ref ref, again;
	struct ledger l;

	open_rows(&l, 16, 2);
	assert_int_equal(ledger_take(&l, 1, 0, 4, 99, &ref), 0);
	assert_int_equal(ledger_in_flight(&l, 0), 1);
	assert_int_equal(ledger_count_live(&l, 0), 1);
	assert_int_equal(l.slots[ref.slot].state, LEDGER_ACTIVE);
	assert_int_equal(l.slots[ref.slot].owner, 1);
	assert_int_equal(l.slots[ref.slot].started_ns, 99);
	assert_true(ledger_release(&l, ref));
	assert_int_equal(ledger_in_flight(&l, 0), 0);
	/* A second release, also after the slot went to another request, is refused and counted. */
	assert_false(ledger_release(&l, ref));
	assert_int_equal(ledger_take(&l, 1, 0, 4, 99, &again), 0);
	assert_int_equal(again.slot, ref.slot);
	assert_false(ledger_release(&l, ref));
	assert_int_equal(ledger_in_flight(&l, 0), 1);
	assert_int_equal(ledger_refused_releases(&l), 2);
	assert_false(ledger_release(&l, LEDGER_REF_NONE));
	assert_true(ledger_release(&l, again));
	ledger_destroy(&l);
}

static void limit_and_exhaustion(void **state)
{
	struct ledger_ref ref[8], more;
	struct ledger l;
	uint32_t i;

	open_rows(&l, 8, 3);
	for (i = 0; i < 3; i++)
		assert_int_equal(ledger_take(&l, 0, 0, 3, 1, &ref[i]), 0);
	assert_int_equal(ledger_take(&l, 0, 0, 3, 1, &more), -EAGAIN);
	assert_int_equal(more.slot, LEDGER_NO_SLOT);
	/* One worker may use every slot of the ledger: lists are stolen from. */
	for (; i < 8; i++)
		assert_int_equal(ledger_take(&l, 0, 1, 100, 1, &ref[i]), 0);
	assert_int_equal(ledger_take(&l, 0, 1, 100, 1, &more), -ENOSPC);
	assert_int_equal(ledger_in_flight(&l, 1), 5);
	assert_int_equal(l.hdr->exhausted, 1);
	for (i = 0; i < 8; i++)
		assert_true(ledger_release(&l, ref[i]));
	assert_int_equal(ledger_count_all(&l), 0);
	ledger_destroy(&l);
}

static void move_and_queue(void **state)
{
	struct ledger_ref ref, other;
	struct ledger l;

	open_rows(&l, 8, 1);
	assert_int_equal(ledger_take(&l, 0, LEDGER_NO_ROW, 0, 1, &ref), 0);
	assert_int_equal(l.slots[ref.slot].state, LEDGER_QUEUED);
	assert_int_equal(ledger_count_live(&l, LEDGER_NO_ROW), 1);
	assert_int_equal(ledger_move(&l, ref, 0, 1), 0);
	assert_int_equal(l.slots[ref.slot].state, LEDGER_ACTIVE);
	assert_int_equal(ledger_in_flight(&l, 0), 1);
	assert_int_equal(ledger_take(&l, 0, 1, 1, 1, &other), 0);
	assert_int_equal(ledger_move(&l, ref, 1, 1), -EAGAIN);
	assert_int_equal(ledger_in_flight(&l, 0), 1);
	assert_true(ledger_release(&l, other));
	assert_int_equal(ledger_move(&l, ref, 1, 1), 0);
	assert_int_equal(ledger_in_flight(&l, 0), 0);
	assert_int_equal(ledger_in_flight(&l, 1), 1);
	assert_int_equal(ledger_count_live(&l, 1), 1);
	assert_true(ledger_release(&l, ref));
	assert_int_equal(ledger_move(&l, ref, 0, 1), -ESTALE);
	assert_int_equal(ledger_in_flight(&l, 0) + ledger_in_flight(&l, 1), 0);
	ledger_destroy(&l);
}

#define THREADS 4
#define ROUNDS 40000
#define HELD 16

struct hammer {
	struct ledger *l;
	uint32_t worker, wins, tries, over;
};

static void *hammer_run(void *arg)
{
	struct hammer *h = arg;
	struct ledger_ref held[HELD];
	uint32_t n = 0, i, seed = h->worker * 7919 + 1;

	for (i = 0; i < ROUNDS; i++) {
		seed = seed * 1664525 + 1013904223;
		if (n < HELD && seed >> 31) {
			if (!ledger_take(h->l, h->worker, seed >> 8 & 1, 20, i, &held[n]))
				n++;
			if (ledger_in_flight(h->l, 0) > 20 || ledger_in_flight(h->l, 1) > 20)
				h->over++;
		} else if (n && seed >> 30 & 1) {
			ledger_move(h->l, held[n - 1], seed >> 9 & 1, 20);
		} else if (n) {
			h->wins += ledger_release(h->l, held[--n]);
			h->tries++;
		}
	}
	while (n) {
		h->wins += ledger_release(h->l, held[--n]);
		h->tries++;
	}
	return NULL;
}

static void threads_keep_it_exact(void **state)
{
	struct hammer h[THREADS];
	pthread_t tid[THREADS];
	struct ledger l;
	uint32_t i;

	open_rows(&l, 48, THREADS);
	for (i = 0; i < THREADS; i++) {
		h[i] = (struct hammer){ .l = &l, .worker = i };
		assert_int_equal(pthread_create(&tid[i], NULL, hammer_run, &h[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(tid[i], NULL);
		assert_int_equal(h[i].over, 0);
		assert_int_equal(h[i].wins, h[i].tries);
		assert_true(h[i].tries > 1000);
	}
	assert_int_equal(ledger_in_flight(&l, 0), 0);
	assert_int_equal(ledger_in_flight(&l, 1), 0);
	assert_int_equal(ledger_count_all(&l), 0);
	assert_int_equal(ledger_refused_releases(&l), 0);
	/* No slot was lost from the lists, none is on two. */
	for (i = 0; i < 48; i++) {
		struct ledger_ref ref;

		assert_int_equal(ledger_take(&l, i % THREADS, 0, 48, 1, &ref), 0);
	}
	assert_int_equal(ledger_count_live(&l, 0), 48);
	ledger_destroy(&l);
}

struct race {
	struct ledger *l;
	struct ledger_ref *refs;
	uint32_t wins;
};

static void *race_run(void *arg)
{
	struct race *r = arg;
	uint32_t i;

	for (i = 0; i < 4096; i++)
		r->wins += ledger_release(r->l, r->refs[i]);
	return NULL;
}

static void exactly_one_release_wins(void **state)
{
	static struct ledger_ref refs[4096];
	struct race r[THREADS];
	pthread_t tid[THREADS];
	struct ledger l;
	uint32_t i, wins = 0;

	open_rows(&l, 4096, 2);
	for (i = 0; i < 4096; i++)
		assert_int_equal(ledger_take(&l, 0, i & 1, 4096, 1, &refs[i]), 0);
	for (i = 0; i < THREADS; i++) {
		r[i] = (struct race){ &l, refs, 0 };
		assert_int_equal(pthread_create(&tid[i], NULL, race_run, &r[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(tid[i], NULL);
		wins += r[i].wins;
	}
	assert_int_equal(wins, 4096);
	assert_int_equal(ledger_refused_releases(&l), (THREADS - 1) * 4096);
	assert_int_equal(ledger_in_flight(&l, 0) + ledger_in_flight(&l, 1), 0);
	ledger_destroy(&l);
}

static void crash_recovery(void **state)
{
	struct ledger_ref a, b, c;
	struct ledger l, next;

	open_rows(&l, 16, 2);
	assert_int_equal(ledger_take(&l, 0, 0, 10, 1, &a), 0);
	assert_int_equal(ledger_take(&l, 0, 0, 10, 1, &b), 0);
	assert_int_equal(ledger_take(&l, 1, 1, 10, 1, &c), 0);
	ledger_set_fds(&l, a, 7, 9);
	assert_true(ledger_set_kernel(&l, a, true));
	/* The process dies between raising a counter and taking the slot. */
	l.rows[1].in_flight++;
	assert_int_equal(ledger_attach(&next, l.hdr, ledger_bytes(16), l.rows), 0);
	assert_int_equal(ledger_recover(&next, NULL, NULL), 1);
	assert_int_equal(ledger_in_flight(&next, 0), 1);
	assert_int_equal(ledger_in_flight(&next, 1), 0);
	assert_int_equal(next.slots[a.slot].upstream_fd, 9);
	/* The kernel's request is still the one of generation a. */
	assert_true(ledger_set_kernel(&next, a, false));
	assert_true(ledger_release(&next, a));
	assert_false(ledger_release(&next, b));
	assert_int_equal(ledger_in_flight(&next, 0), 0);
	/* Not a ledger. */
	next.hdr->schema++;
	assert_int_equal(ledger_attach(&next, l.hdr, ledger_bytes(16), l.rows), -EPROTO);
	l.hdr->schema--;
	assert_int_equal(ledger_attach(&next, l.hdr, ledger_bytes(15), l.rows), -EINVAL);
	ledger_destroy(&l);
}

static void rows_keep_counters_by_name(void **state)
{
	struct ledger_ref ref;
	struct ledger l;
	char longname[BACKEND_NAME_BYTES + 1];

	open_rows(&l, 16, 1);
	assert_int_equal(ledger_take(&l, 0, 0, 10, 1, &ref), 0);
	assert_int_equal(ledger_row_free(&l, 0), -EBUSY);
	assert_int_equal(ledger_row_claim(&l, "p", "a", "9.9.9.9:1"), 0);
	assert_int_equal(ledger_in_flight(&l, 0), 1);
	assert_string_equal(l.rows[0].address, "9.9.9.9:1");
	assert_int_equal(ledger_row_claim(&l, "q", "a", NULL), 2);
	assert_true(ledger_release(&l, ref));
	assert_int_equal(ledger_row_free(&l, 0), 0);
	assert_int_equal(ledger_row_claim(&l, "p", "c", NULL), 0);
	memset(longname, 'x', sizeof(longname) - 1);
	longname[sizeof(longname) - 1] = 0;
	assert_int_equal(ledger_row_claim(&l, "p", longname, NULL), -EINVAL);
	assert_int_equal(ledger_row_claim(&l, "p", "", NULL), -EINVAL);
	ledger_destroy(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take_release),
		cmocka_unit_test(limit_and_exhaustion),
		cmocka_unit_test(move_and_queue),
		cmocka_unit_test(threads_keep_it_exact),
		cmocka_unit_test(exactly_one_release_wins),
		cmocka_unit_test(crash_recovery),
		cmocka_unit_test(rows_keep_counters_by_name),
	};

	return cmocka_run_group_tests_name("route/ledger", tests, NULL, NULL);
}
