/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The queue where no slot is free: in, out, and the wake-up across workers. */
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/forwarded.h"
#include "gateway/internal.h"

static int priority_of(const struct exchange *x)
{
	const struct http_req *r = &x->parse->req;
	const char *buf = (const char *)iobuf_head(&x->head);
	const struct http_field *f = http_field_first(r->fields, r->nfields, HTTP_F_X_KVSTEER_PRIORITY);
	char text[8];
	char *end;
	long v;

	if (!f || !f->value_len || f->value_len >= sizeof(text))
		return 0;
	memcpy(text, buf + f->value_off, f->value_len);
	text[f->value_len] = 0;
	v = strtol(text, &end, 10);
	if (*end || v < QUEUE_PRIORITY_MIN || v > QUEUE_PRIORITY_MAX)
		return 0;
	/* anybody may step back, only trusted peers may push forward */
	return v > 0 && !x->c->trusted ? 0 : (int)v;
}

/* Whose turn it is in the queue: the client's address, also where it came by way of trusted proxies. */
static uint64_t tenant_of(const struct exchange *x)
{
	char client[INET6_ADDRSTRLEN];

	if (!x->c)
		return 0;
	if (x->c->trusted && x->parse &&
	    forwarded_client(x->fleet->cfg, &x->parse->req, (const char *)iobuf_head(&x->head), client))
		return XXH3_64bits(client, strlen(client)); /* as client.peer_hash */
	return x->c->peer_hash;
}

/* Lets the pool's lock go and tells those who look without it how many wait. */
static void queue_unlock(struct fleet_pool_state *s)
{
	__atomic_store_n(&s->waiting, s->queue.len, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&s->queue_lock);
}

void exchange_enqueue(struct exchange *x)
{
	struct fleet_pool_state *s = x->pool->state;
	uint64_t timeout_ns = x->pool->cfg->queue_timeout_ns;
	int err;

	memset(&x->wait, 0, sizeof(x->wait));
	x->wait.tenant = tenant_of(x);
	x->wait.priority = x->c && x->parse ? priority_of(x) : 0;
	x->wait.cost_tokens = (uint32_t)(x->key.total_bytes / 4);
	x->wait.arrived_ns = x->request_ns;
	x->wait.owner = x;
	pthread_mutex_lock(&s->queue_lock);
	err = queue_push(&s->queue, &x->wait, x->w->now_ns);
	if (!err)
		x->queued = true;
	queue_unlock(s);
	if (err) {
		exchange_fail(x, REASON_QUEUE_FULL, "every backend is at its concurrency threshold and the queue is full");
		return;
	}
	x->phase = EXCHANGE_QUEUED;
	exchange_deadline(x, x->request_ns + timeout_ns);
	/* a slot may have been freed between the refusal and the push: its wake-up saw an empty queue */
	pool_wake_next(s);
}

static void exchange_woken(struct worker *w, struct mail *m)
{
	struct exchange *x = container_of(m, struct exchange, wake);
	struct fleet_pool_state *s = x->pool->state;

	pthread_mutex_lock(&s->queue_lock);
	x->wake_posted = false;
	queue_unlock(s);
	if (x->zombie) { /* gave up meanwhile: the slot is somebody else's */
		pool_wake_next(s);
		exchange_free(x);
		return;
	}
	w->now_ns = clock_now_ns();
	exchange_assign(x, true);
}

bool pool_waiting(const struct fleet_pool_state *s)
{
	return __atomic_load_n(&s->waiting, __ATOMIC_SEQ_CST) != 0;
}

/* Pops and posts; the caller holds queue_lock. */
static void wake_locked(struct fleet_pool_state *s)
{
	struct queue_entry *e = queue_pop(&s->queue);
	struct exchange *x = e ? e->owner : NULL;

	if (!x)
		return;
	x->queued = false;
	x->wake_posted = true;
	x->wake.fn = exchange_woken;
	/* posted under the lock: the owner can't leave and free itself in between */
	worker_post(x->w, &x->wake);
}

void pool_wake_next(struct fleet_pool_state *s)
{
	if (!pool_waiting(s))
		return;
	pthread_mutex_lock(&s->queue_lock);
	wake_locked(s);
	queue_unlock(s);
}

void pool_wake(struct fleet_pool_state *s)
{
	__atomic_add_fetch(&s->releases, 1, __ATOMIC_SEQ_CST);
	/* Nobody waits: the pace of releases is of interest only where there is no
	 * queue at all and Retry-After must still be right. */
	if (!pool_waiting(s) && !__atomic_load_n(&s->queueless, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&s->queue_lock);
	queue_note_release(&s->queue, clock_now_ns());
	wake_locked(s);
	queue_unlock(s);
}

bool exchange_leave_queue(struct exchange *x)
{
	struct fleet_pool_state *s = x->pool->state;
	bool posted;

	pthread_mutex_lock(&s->queue_lock);
	if (x->queued)
		queue_remove(&s->queue, &x->wait);
	x->queued = false;
	posted = x->wake_posted;
	queue_unlock(s);
	return posted;
}

void exchange_queue_timeout(struct exchange *x)
{
	x->queued_ns = x->w->now_ns - x->request_ns;
	exchange_fail(x, REASON_QUEUE_TIMEOUT, "no backend had a free slot in time");
}

void exchange_requeue(struct exchange *x, uint64_t seen)
{
	struct fleet_pool_state *s = x->pool->state;
	int err;

	pthread_mutex_lock(&s->queue_lock);
	err = queue_unpop(&s->queue, &x->wait);
	if (!err)
		x->queued = true;
	queue_unlock(s);
	if (err) {
		exchange_fail(x, REASON_QUEUE_FULL, "every backend is at its concurrency threshold and the queue is full");
		return;
	}
	/* A slot freed after our look and before we were back in the queue has seen it empty and
	 * woken nobody: look again. pool_wake() counts first and then looks, here it is the reverse;
	 * both write the counter, so that one of them sees what the other did. */
	if (__atomic_fetch_add(&s->releases, 0, __ATOMIC_SEQ_CST) != seen)
		pool_wake_next(s);
}

void gateway_pool_tick(struct gateway *gw, struct fleet_pool *pool, uint64_t now_ns)
{
	route_tick(pool->state->route, now_ns);
	watch_pool(gw, pool, now_ns);
	/* caps may have been raised, exclusions may have ended */
	pool_wake_next(pool->state);
}
