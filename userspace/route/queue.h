/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The bounded waiting queue of a pool: requests for which no backend has a
 * free slot. Order: higher priority first; between tenants of one priority
 * fair by cost (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM '96);
 * between requests of one tenant by arrival.
 *
 * Pure: time comes in as an argument. Not thread safe: the caller holds the
 * lock of the pool. Entries are embedded in the caller's requests; after
 * queue_init() and queue_set_limit() nothing is allocated. Every operation is
 * O(log n). */
#ifndef KVSTEER_ROUTE_QUEUE_H
#define KVSTEER_ROUTE_QUEUE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "route/drain_rate.h"

#define QUEUE_PRIORITY_MIN (-100)
#define QUEUE_PRIORITY_MAX 100
#define QUEUE_REQUESTS_MAX 1000000u
#define QUEUE_RETRY_AFTER_MAX_S 600u
#define QUEUE_ASSUMED_HOLD_S 5.0 /* of a slot by a request, until there are measurements */

/* A waiting request. The caller zeroes it, sets the first fields and
 * leaves them alone while it waits; the memory must stay in place until the
 * entry was popped or removed. */
struct queue_entry {
	uint64_t tenant;       /* hash of whatever names the tenant; 0 = none */
	int priority;          /* clamped to QUEUE_PRIORITY_MIN..MAX */
	uint32_t cost_tokens;  /* what serving it costs (uncached prompt tokens); 0 counts as 1 */
	uint64_t arrived_ns;   /* for the caller's queue_seconds; not read here */
	void *owner;           /* the caller's */

	/* private to queue.c */
	struct queue_entry *prev, *next; /* within its flow, arrival order */
	uint64_t seq;
	uint32_t flow;
	bool queued;
};

struct queue_flow;

struct queue {
	uint32_t limit;    /* push refuses from here on */
	uint32_t len;
	uint64_t pushed, popped, removed, refused; /* counters, for metrics */

	/* private to queue.c */
	uint32_t capacity; /* of the arrays below */
	uint32_t n_flows, n_active;
	struct queue_flow *flows;
	uint32_t *buckets;
	uint32_t n_buckets;
	uint32_t *active;             /* heap of flows with waiting entries */
	uint32_t idle_head, idle_tail, free_head;
	uint64_t seq;
	uint64_t vtime[QUEUE_PRIORITY_MAX - QUEUE_PRIORITY_MIN + 1];
	struct drain_rate drain;
};

/* Makes an empty queue for at most `max_requests` (0: nothing ever waits).
 * Returns 0, -EINVAL above QUEUE_REQUESTS_MAX, -ENOMEM. */
int queue_init(struct queue *q, uint32_t max_requests);
/* Frees the arrays. The caller has emptied it: entries still inside are forgotten. */
void queue_destroy(struct queue *q);
/* Changes the limit (a reload). Entries beyond a lower limit stay. Returns like queue_init();
 * on failure nothing has changed. */
int queue_set_limit(struct queue *q, uint32_t max_requests);

/* Puts `e` at the end of its tenant's line. Returns 0, or -ENOSPC when full
 * (answer 429 with queue_retry_after_s()), or -EALREADY when it waits already. */
int queue_push(struct queue *q, struct queue_entry *e, uint64_t now_ns);
/* The entry that queue_pop() would return, or NULL. */
struct queue_entry *queue_peek(const struct queue *q);
/* Takes out the next entry and charges its tenant, or returns NULL when empty. */
struct queue_entry *queue_pop(struct queue *q);
/* Puts back an entry just popped (the slot went elsewhere meanwhile), at the
 * place that it had, the charge undone. Works beyond the limit by the slots the
 * arrays have spare: returns 0 or -ENOSPC. */
int queue_unpop(struct queue *q, struct queue_entry *e);
/* Takes out `e` wherever it is (the client gave up, its time is over); its tenant is not charged.
 * Returns true if it waited, false if it was not in the queue. */
bool queue_remove(struct queue *q, struct queue_entry *e);
static inline uint32_t queue_len(const struct queue *q)
{
	return q->len;
}

/* A slot of the pool was released, whoever gets it: call it at every release,
 * before the queue_pop() that it may lead to. Feeds the drain rate, which is
 * measured only while requests wait or were refused: the pace of an idle pool
 * says nothing about a full one. */
void queue_note_release(struct queue *q, uint64_t now_ns);
/* Slots released per second under saturation, an average over about 15 s. */
double queue_drain_rate(const struct queue *q, uint64_t now_ns);
/* How many slots the pool has: before anything was measured each is assumed to come free
 * every QUEUE_ASSUMED_HOLD_S. To be called again when the number changes. */
void queue_set_slots(struct queue *q, uint32_t slots);
/* Seconds until those who wait now are served at the measured rate, for Retry-After: at
 * least 1, at most `max_s` (the queue's timeout: whoever waits longer is not served
 * either) or QUEUE_RETRY_AFTER_MAX_S. */
unsigned queue_retry_after_s(const struct queue *q, uint64_t now_ns, unsigned max_s);
#endif
