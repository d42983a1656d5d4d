/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Request slots and backend rows: who is in flight where. One accounting
 * point for every path of a request, whatever carries its bytes.
 *
 * Lock-free; any thread may call anything unless said otherwise. The handle
 * is process-local, the memory behind it may be shared and outlive it.
 *
 * ledger_init() in shared memory, ledger_attach(), ledger_recover(), ledger_set_fds() and
 * ledger_set_kernel() are for adoption: a process that takes over requests which go on without
 * it. kvsteerd adopts nothing in this version and lives on ledger_create(); the tests hold
 * these functions to what the slot's states in kvsteer/ledger_abi.h promise. */
#ifndef KVSTEER_ROUTE_LEDGER_H
#define KVSTEER_ROUTE_LEDGER_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvsteer/backends_abi.h"
#include "kvsteer/ledger_abi.h"

struct ledger {
	struct ledger_header *hdr;
	struct ledger_slot *slots;
	struct backend_row *rows; /* BACKENDS_MAX_ROWS */
	pthread_mutex_t row_lock; /* claim and free of rows (configuration only) */
	void *own; /* mapping made by ledger_create(), else NULL */
	size_t own_bytes;
};

/* A taken slot. {LEDGER_NO_SLOT} when none. */
struct ledger_ref {
	uint32_t slot;
	uint32_t generation;
};
#define LEDGER_REF_NONE ((struct ledger_ref){ LEDGER_NO_SLOT, 0 })

/* Bytes that ledger_init() needs for `slots` slots; the rows need
 * BACKENDS_MAX_ROWS * sizeof(struct backend_row). */
size_t ledger_bytes(uint32_t slots);

/* Lays a new, empty ledger into `mem` (8-byte aligned, ledger_bytes(slots)
 * long) and an empty backend table into `rows`. `workers` free lists, 1..64.
 * Both stay the caller's. Returns 0 or -EINVAL. */
int ledger_init(struct ledger *l, void *mem, uint32_t slots, uint32_t workers, struct backend_row *rows);

/* Takes over the ledger that another process left in `mem`/`rows`: checks
 * magic, schema and size, changes nothing. Returns 0, -EPROTO (not a ledger
 * of this schema) or -EINVAL (does not fit `bytes`). Call ledger_recover() next. */
int ledger_attach(struct ledger *l, void *mem, size_t bytes, struct backend_row *rows);

/* A ledger in one shared anonymous mapping of its own. Returns 0 or negative
 * errno; free with ledger_destroy(), which also ends handles of init/attach. */
int ledger_create(struct ledger *l, uint32_t slots, uint32_t workers);
void ledger_destroy(struct ledger *l);

/* Takes a slot for `row`, unless the row has `limit` or more in flight. `row`
 * may be LEDGER_NO_ROW: a queued request (state QUEUED), which no counter
 * counts. Fills *ref. Returns 0, -EAGAIN (at the limit), -ENOSPC (no slot in
 * the whole ledger). The slot has client_fd = upstream_fd = -1, cookie 0. */
int ledger_take(struct ledger *l, uint32_t worker, uint32_t row, uint32_t limit, uint64_t now_ns,
		struct ledger_ref *ref);

/* Moves a live slot of the caller to another row (retry elsewhere, or a queued
 * request that got a backend), under the same limit rule. The slot and its
 * generation stay. Returns 0, -EAGAIN, or -ESTALE if the slot is no longer the
 * caller's (then nothing changed). `row` LEDGER_NO_ROW parks it as QUEUED. */
int ledger_move(struct ledger *l, struct ledger_ref ref, uint32_t row, uint32_t limit);

/* Releases the slot. Exactly one caller per take gets true; any other call is
 * refused, counted in refused_releases, and changes nothing. */
bool ledger_release(struct ledger *l, struct ledger_ref ref);

/* ACTIVE <-> KERNEL. Returns false if the slot is not live in that generation. */
bool ledger_set_kernel(struct ledger *l, struct ledger_ref ref, bool kernel);

/* Writes what a later process needs to adopt the request. Owner only. */
void ledger_set_fds(struct ledger *l, struct ledger_ref ref, int client_fd, int upstream_fd);

/* in_flight of a row. */
uint32_t ledger_in_flight(const struct ledger *l, uint32_t row);
/* Live slots of `row` by counting them all (O(slots)): equals in_flight
 * whenever no take or release is under way, e.g. under the pool's lock.
 * LEDGER_NO_ROW counts the queued ones. */
uint32_t ledger_count_live(const struct ledger *l, uint32_t row);
/* The same for all rows at once: added to live[BACKENDS_MAX_ROWS]. */
void ledger_count_rows(const struct ledger *l, uint32_t *live);
/* Live slots of the whole ledger, queued ones included. */
uint32_t ledger_count_all(const struct ledger *l);
uint64_t ledger_refused_releases(const struct ledger *l);

/* After a crash, before any worker runs: `keep` says for each live slot
 * whether its request is still alive (a NULL keep keeps the KERNEL ones); the others are
 * released. Rebuilds the free lists and puts counters that the dead process
 * left in between right. Returns the number of slots kept. */
uint32_t ledger_recover(struct ledger *l, bool (*keep)(void *ctx, uint32_t slot, const struct ledger_slot *s),
			void *ctx);

/* Backend rows; called at configuration only. Claim returns the row of
 * {pool, name} if there is one (its counters go on, GONE becomes READY), else
 * a free one with its fields cleared, or -ENOSPC; -EINVAL for an empty or too
 * long name. Texts are copied. */
int ledger_row_claim(struct ledger *l, const char *pool, const char *name, const char *address);
/* Frees a row that has nothing in flight. Returns 0, or -EBUSY. */
int ledger_row_free(struct ledger *l, uint32_t row);
#endif
