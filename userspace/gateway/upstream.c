/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/upstream.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/splice.h"

static void upstream_event(struct worker *w, struct io *io, uint32_t events)
{
	struct upstream *u = container_of(io, struct upstream, io);
	socklen_t len = sizeof(int);
	int err = 0;

	switch (u->state) {
	case UPSTREAM_IDLE:
		/* A FIN, a reset, or bytes that answer nothing (RFC 9112 9.2): of no use any more. */
		upstream_close(w, u);
		return;
	case UPSTREAM_CONNECTING:
		getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (!err && !(events & EPOLLOUT))
			err = ECONNRESET;
		if (!err) {
			u->state = UPSTREAM_BUSY;
			upstream_splice(u, w);
			io_want(w, io, EPOLLIN | EPOLLRDHUP);
		}
		exchange_upstream_connected(u->x, -err);
		return;
	case UPSTREAM_BUSY:
		if (events & EPOLLOUT) {
			exchange_send(u->x);
			if (u->state != UPSTREAM_BUSY)
				return;
		}
		if (u->splice.kernel) {
			if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
				exchange_splice_fin(u->x);
			return;
		}
		if (events & (EPOLLIN | EPOLLRDHUP) && io->events & EPOLLIN)
			exchange_upstream_readable(u->x);
		else if (events & (EPOLLERR | EPOLLHUP))
			exchange_upstream_lost(u->x);
		return;
	default:
		return;
	}
}

static struct upstream *upstream_connect(struct worker *w, const struct fleet_backend *b, struct exchange *x, int *err)
{
	struct upstream *u = calloc(1, sizeof(*u));
	int one = 1, fd;

	*err = -ENOMEM;
	if (!u)
		return NULL;
	fd = socket(b->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
	if (fd < 0) {
		*err = -errno;
		free(u);
		return NULL;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	u->io = (struct io){ .fd = fd, .on_event = upstream_event };
	u->conn = (struct conn){ .fd = fd, .ops = &conn_ops_tcp };
	u->row = b->row;
	u->addr = b->addr;
	u->addr_len = b->addr_len;
	u->uses_left = UINT32_MAX;
	u->x = x;
	list_init(&u->idle);
	if (connect(fd, (const struct sockaddr *)&b->addr, b->addr_len) && errno != EINPROGRESS) {
		*err = -errno;
		close(fd);
		free(u);
		return NULL;
	}
	u->state = UPSTREAM_CONNECTING;
	*err = io_add(w, &u->io, EPOLLOUT | EPOLLRDHUP);
	if (*err) {
		close(fd);
		free(u);
		return NULL;
	}
	list_add(&w->upstreams, &u->link);
	stat_add(&w->stats->upstream_opened, 1);
	stat_set(&w->stats->upstreams, w->stats->upstreams + 1);
	return u;
}

static bool same_address(const struct upstream *u, const struct fleet_backend *b)
{
	return u->addr_len == b->addr_len && !memcmp(&u->addr, &b->addr, b->addr_len);
}

struct upstream *upstream_get(struct worker *w, const struct fleet_backend *b, struct exchange *x, bool fresh, int *err)
{
	struct list *idle = &w->idle[b->row];

	while (!fresh && !list_empty(idle)) {
		struct upstream *u = list_entry(idle->next, struct upstream, idle);

		/* newest first: if this one is too old, all are; a row may have moved to another address */
		if (u->idle_until_ns <= w->now_ns || !same_address(u, b)) {
			upstream_close(w, u);
			continue;
		}
		list_del(&u->idle);
		u->state = UPSTREAM_BUSY;
		u->reused = true;
		u->got_bytes = false;
		u->x = x;
		stat_add(&w->stats->upstream_reused, 1);
		return u;
	}
	return upstream_connect(w, b, x, err);
}

void upstream_put(struct worker *w, struct upstream *u, uint64_t idle_ns)
{
	u->x = NULL;
	if (!idle_ns || u->in.len || !u->uses_left) {
		upstream_close(w, u);
		return;
	}
	iobuf_free(&u->in);
	u->state = UPSTREAM_IDLE;
	u->idle_until_ns = w->now_ns + idle_ns;
	list_add(&w->idle[u->row], &u->idle);
	io_want(w, &u->io, EPOLLIN | EPOLLRDHUP);
}

void upstream_close(struct worker *w, struct upstream *u)
{
	if (u->state == UPSTREAM_CLOSED)
		return;
	u->state = UPSTREAM_CLOSED;
	u->conn.ops->close(&u->conn);
	io_close(w, &u->io);
	iobuf_free(&u->in);
	list_del(&u->idle);
	list_del(&u->link);
	stat_set(&w->stats->upstreams, w->stats->upstreams - 1);
	worker_bury(w, u);
}

bool upstream_busy(const struct worker *w)
{
	for (const struct list *p = w->upstreams.next; p != &w->upstreams; p = p->next)
		if (list_entry(p, struct upstream, link)->state != UPSTREAM_IDLE)
			return true;
	return false;
}

void upstream_expire_idle(struct worker *w)
{
	struct list *p, *tmp;

	list_for_each_safe(p, tmp, &w->upstreams) {
		struct upstream *u = list_entry(p, struct upstream, link);

		if (u->state == UPSTREAM_IDLE && u->idle_until_ns <= w->now_ns)
			upstream_close(w, u);
	}
}

void upstream_close_all(struct worker *w)
{
	struct list *p, *tmp;

	list_for_each_safe(p, tmp, &w->upstreams) {
		struct upstream *u = list_entry(p, struct upstream, link);
		struct exchange *x = u->x;

		if (x && x->u == u) /* read on for a client that has gone */
			exchange_cut(x, REASON_CLIENT_GONE);
		else
			upstream_close(w, u);
	}
}
