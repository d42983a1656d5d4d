/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A *flow* is the line of one tenant at one priority. Each flow has a virtual
 * start time: the service (tokens) that its tenant has had, never behind the
 * virtual time of its priority. The active flow with the highest priority, then
 * the least start time, then the oldest head is served next. A flow that has run
 * empty is kept for a while, so that a tenant who sends one big request at a
 * time pays for it too; idle flows are reused oldest first. */
#include "route/queue.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
/* Idle flows remembered, and entries that queue_unpop() may put back beyond the limit. */
#define SPARE 64

struct queue_flow {
	uint64_t tenant;
	uint64_t start; /* virtual time, tokens */
	struct queue_entry *first, *last;
	uint32_t level;       /* priority - QUEUE_PRIORITY_MIN */
	uint32_t heap_index;  /* in `active`, or NONE */
	uint32_t chain;       /* next flow of the hash bucket */
	uint32_t prev, next;  /* in the idle list; `next` in the free list too */
};

/* ---- flows by tenant and priority ---- */

static uint32_t bucket_of(const struct queue *q, uint64_t tenant, uint32_t level)
{
	uint64_t h = (tenant ^ level) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(h >> 32) & (q->n_buckets - 1);
}

static void bucket_insert(struct queue *q, uint32_t f)
{
	uint32_t b = bucket_of(q, q->flows[f].tenant, q->flows[f].level);

	q->flows[f].chain = q->buckets[b];
	q->buckets[b] = f;
}

static void bucket_delete(struct queue *q, uint32_t f)
{
	uint32_t *at = &q->buckets[bucket_of(q, q->flows[f].tenant, q->flows[f].level)];

	while (*at != f)
		at = &q->flows[*at].chain;
	*at = q->flows[f].chain;
}

static void idle_append(struct queue *q, uint32_t f)
{
	q->flows[f].prev = q->idle_tail;
	q->flows[f].next = NONE;
	if (q->idle_tail == NONE)
		q->idle_head = f;
	else
		q->flows[q->idle_tail].next = f;
	q->idle_tail = f;
}

static void idle_unlink(struct queue *q, uint32_t f)
{
	struct queue_flow *flow = &q->flows[f];

	if (flow->prev == NONE)
		q->idle_head = flow->next;
	else
		q->flows[flow->prev].next = flow->next;
	if (flow->next == NONE)
		q->idle_tail = flow->prev;
	else
		q->flows[flow->next].prev = flow->prev;
}

/* The flow of this tenant and level: the one that exists, or a fresh one. There
 * are more flows than entries, so that a free or an idle one always exists. */
static uint32_t flow_get(struct queue *q, uint64_t tenant, uint32_t level)
{
	struct queue_flow *flow;
	uint32_t f;

	for (f = q->buckets[bucket_of(q, tenant, level)]; f != NONE; f = q->flows[f].chain)
		if (q->flows[f].tenant == tenant && q->flows[f].level == level)
			return f;
	if (q->free_head != NONE) {
		f = q->free_head;
		q->free_head = q->flows[f].next;
	} else {
		f = q->idle_head;
		idle_unlink(q, f);
		bucket_delete(q, f);
	}
	flow = &q->flows[f];
	memset(flow, 0, sizeof(*flow));
	flow->tenant = tenant;
	flow->level = level;
	flow->heap_index = NONE;
	bucket_insert(q, f);
	idle_append(q, f);
	return f;
}

/* ---- the heap of active flows ---- */

static bool flow_before(const struct queue *q, uint32_t a, uint32_t b)
{
	const struct queue_flow *x = &q->flows[a], *y = &q->flows[b];

	if (x->level != y->level)
		return x->level > y->level;
	if (x->start != y->start)
		return x->start < y->start;
	return x->first->seq < y->first->seq;
}

static void active_set(struct queue *q, uint32_t i, uint32_t f)
{
	q->active[i] = f;
	q->flows[f].heap_index = i;
}

/* Moves the flow at `i` to where it belongs. */
static void active_fix(struct queue *q, uint32_t i)
{
	uint32_t f = q->active[i];

	while (i && flow_before(q, f, q->active[(i - 1) / 2])) {
		active_set(q, i, q->active[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= q->n_active)
			break;
		if (child + 1 < q->n_active && flow_before(q, q->active[child + 1], q->active[child]))
			child++;
		if (!flow_before(q, q->active[child], f))
			break;
		active_set(q, i, q->active[child]);
		i = child;
	}
	active_set(q, i, f);
}

static void flow_activate(struct queue *q, uint32_t f)
{
	idle_unlink(q, f);
	active_set(q, q->n_active, f);
	active_fix(q, q->n_active++);
}

static void flow_deactivate(struct queue *q, uint32_t f)
{
	uint32_t i = q->flows[f].heap_index, last = q->active[--q->n_active];

	q->flows[f].heap_index = NONE;
	if (last != f) {
		active_set(q, i, last);
		active_fix(q, i);
	}
	idle_append(q, f);
}

/* ---- memory ---- */

/* Grows the arrays to hold `capacity` entries. All or nothing. */
static int queue_grow(struct queue *q, uint32_t capacity)
{
	uint32_t n_flows = capacity + SPARE, n_buckets = 64;
	struct queue_flow *flows;
	uint32_t *buckets, *active;

	while (n_buckets < n_flows)
		n_buckets *= 2;
	flows = malloc(n_flows * sizeof(*flows));
	active = malloc(n_flows * sizeof(*active));
	buckets = malloc(n_buckets * sizeof(*buckets));
	if (!flows || !active || !buckets) {
		free(flows);
		free(active);
		free(buckets);
		return -ENOMEM;
	}
	if (q->n_flows) {
		memcpy(flows, q->flows, q->n_flows * sizeof(*flows));
		memcpy(active, q->active, q->n_active * sizeof(*active));
	}
	free(q->flows);
	free(q->active);
	free(q->buckets);
	q->flows = flows;
	q->active = active;
	q->buckets = buckets;
	q->n_buckets = n_buckets;
	for (uint32_t i = 0; i < n_buckets; i++)
		q->buckets[i] = NONE;
	for (uint32_t f = n_flows; f-- > q->n_flows;) {
		q->flows[f].next = q->free_head;
		q->flows[f].heap_index = NONE;
		q->free_head = f;
	}
	q->n_flows = n_flows;
	q->capacity = capacity;
	/* Flows in use are those that are active or idle. */
	for (uint32_t i = 0; i < q->n_active; i++)
		bucket_insert(q, q->active[i]);
	for (uint32_t f = q->idle_head; f != NONE; f = q->flows[f].next)
		bucket_insert(q, f);
	return 0;
}

int queue_init(struct queue *q, uint32_t max_requests)
{
	memset(q, 0, sizeof(*q));
	q->idle_head = q->idle_tail = q->free_head = NONE;
	drain_rate_init(&q->drain);
	return queue_set_limit(q, max_requests);
}

int queue_set_limit(struct queue *q, uint32_t max_requests)
{
	int err = 0;

	if (max_requests > QUEUE_REQUESTS_MAX)
		return -EINVAL;
	if (max_requests + SPARE > q->capacity)
		err = queue_grow(q, max_requests + SPARE);
	if (!err)
		q->limit = max_requests;
	return err;
}

void queue_destroy(struct queue *q)
{
	free(q->flows);
	free(q->active);
	free(q->buckets);
	memset(q, 0, sizeof(*q));
}

/* ---- the drain rate ---- */

void queue_note_release(struct queue *q, uint64_t now_ns)
{
	drain_rate_release(&q->drain, q->len, now_ns);
}

double queue_drain_rate(const struct queue *q, uint64_t now_ns)
{
	return drain_rate_per_s(&q->drain, now_ns);
}

void queue_set_slots(struct queue *q, uint32_t slots)
{
	drain_rate_assume(&q->drain, fmax(1, slots / QUEUE_ASSUMED_HOLD_S));
}

unsigned queue_retry_after_s(const struct queue *q, uint64_t now_ns, unsigned max_s)
{
	double rate = queue_drain_rate(q, now_ns), wait;

	/* One more than wait: whoever comes back needs a slot as well. */
	wait = rate > 0 ? ceil((q->len + 1) / rate) : QUEUE_RETRY_AFTER_MAX_S;
	if (max_s > QUEUE_RETRY_AFTER_MAX_S)
		max_s = QUEUE_RETRY_AFTER_MAX_S;
	if (wait > max_s)
		wait = max_s;
	return wait < 1 ? 1 : (unsigned)wait;
}

/* ---- the queue ---- */

static uint32_t cost_of(const struct queue_entry *e)
{
	return e->cost_tokens ? e->cost_tokens : 1;
}

static uint32_t level_of(const struct queue_entry *e)
{
	if (e->priority < QUEUE_PRIORITY_MIN)
		return 0;
	if (e->priority > QUEUE_PRIORITY_MAX)
		return QUEUE_PRIORITY_MAX - QUEUE_PRIORITY_MIN;
	return (uint32_t)(e->priority - QUEUE_PRIORITY_MIN);
}

int queue_push(struct queue *q, struct queue_entry *e, uint64_t now_ns)
{
	struct queue_flow *flow;
	uint64_t vtime;

	if (e->queued)
		return -EALREADY;
	drain_rate_saturated(&q->drain, now_ns);
	if (q->len >= q->limit) {
		q->refused++;
		return -ENOSPC;
	}
	e->seq = ++q->seq;
	e->flow = flow_get(q, e->tenant, level_of(e));
	e->queued = true;
	flow = &q->flows[e->flow];
	e->prev = flow->last;
	e->next = NULL;
	if (flow->last)
		flow->last->next = e;
	else
		flow->first = e;
	flow->last = e;
	if (flow->first == e) {
		vtime = q->vtime[flow->level];
		if (flow->start < vtime)
			flow->start = vtime;
		flow_activate(q, e->flow);
	}
	q->len++;
	q->pushed++;
	return 0;
}

struct queue_entry *queue_peek(const struct queue *q)
{
	return q->n_active ? q->flows[q->active[0]].first : NULL;
}

/* Unlinks `e` and keeps the heaps in order. */
static void take_out(struct queue *q, struct queue_entry *e)
{
	struct queue_flow *flow = &q->flows[e->flow];
	bool was_first = flow->first == e;

	if (e->prev)
		e->prev->next = e->next;
	else
		flow->first = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		flow->last = e->prev;
	e->prev = e->next = NULL;
	e->queued = false;
	q->len--;
	if (!flow->first)
		flow_deactivate(q, e->flow);
	else if (was_first)
		active_fix(q, flow->heap_index);
}

struct queue_entry *queue_pop(struct queue *q)
{
	struct queue_entry *e = queue_peek(q);
	struct queue_flow *flow;

	if (!e)
		return NULL;
	flow = &q->flows[e->flow];
	if (q->vtime[flow->level] < flow->start)
		q->vtime[flow->level] = flow->start;
	flow->start += cost_of(e);
	/* Charged first: take_out() then puts the flow where it now belongs. */
	take_out(q, e);
	q->popped++;
	return e;
}

int queue_unpop(struct queue *q, struct queue_entry *e)
{
	uint64_t cost = cost_of(e), vtime, floor;
	struct queue_flow *flow;

	if (e->queued)
		return -EALREADY;
	if (q->len >= q->capacity)
		return -ENOSPC;
	e->flow = flow_get(q, e->tenant, level_of(e));
	e->queued = true;
	flow = &q->flows[e->flow];
	/* The virtual time stays: it never runs back. Nor does the flow far behind
	 * it, if it was forgotten meanwhile: it would be served alone to catch up. */
	vtime = q->vtime[flow->level];
	floor = vtime > cost ? vtime - cost : 0;
	flow->start = flow->start > floor + cost ? flow->start - cost : floor;
	e->prev = NULL;
	e->next = flow->first;
	if (flow->first)
		flow->first->prev = e;
	else
		flow->last = e;
	flow->first = e;
	if (flow->heap_index == NONE)
		flow_activate(q, e->flow);
	else
		active_fix(q, flow->heap_index);
	q->len++;
	q->popped--;
	return 0;
}

bool queue_remove(struct queue *q, struct queue_entry *e)
{
	if (!e->queued)
		return false;
	take_out(q, e);
	q->removed++;
	return true;
}
