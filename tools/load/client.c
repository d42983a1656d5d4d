/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "load/reply.h"
#include "load/server.h"

#define READ_BYTES 65536u
#define EVENTS 512
#define CONNECT_TIMEOUT_NS (10 * NSEC_PER_SEC)
/* Engines close after 5 s idle: be first, or a request may meet the FIN. */
#define IDLE_NS (4 * NSEC_PER_SEC)

enum conn_state { CONN_FREE, CONN_CONNECTING, CONN_SENDING, CONN_WAITING, CONN_IDLE };

struct conn {
	int fd;
	enum conn_state state;
	uint32_t generation; /* of the slot: tells events of a connection long closed */
	uint32_t next;       /* in the list of idle or free slots */
	uint32_t prev;       /* in the list of idle ones, the last used first */
	uint64_t active_ns;  /* last sign of life */
	uint64_t served;
	size_t sent;         /* bytes of the call's request */
	struct load_call *call;
	struct load_client *client;
	struct load_reply reply;
};

struct load_client {
	const struct load_options *o;
	struct load_client_ops ops;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	int epfd;
	uint32_t max, open, in_flight, used; /* used: slots ever taken */
	uint32_t idle, free;                 /* heads of lists; NONE at their ends */
	uint64_t reconnects;
	uint64_t now_ns;                     /* when the bytes being handled were read */
	struct load_call **failed;           /* owned: calls that failed in start() */
	uint32_t n_failed;
	struct conn *conns;                  /* owned; max of them */
	char buf[READ_BYTES];
};

#define NONE UINT32_MAX

static uint32_t index_of(const struct load_client *c, const struct conn *conn)
{
	return (uint32_t)(conn - c->conns);
}

static void idle_push(struct load_client *c, struct conn *conn)
{
	conn->prev = NONE;
	conn->next = c->idle;
	if (c->idle != NONE)
		c->conns[c->idle].prev = index_of(c, conn);
	c->idle = index_of(c, conn);
	conn->state = CONN_IDLE;
}

static void idle_remove(struct load_client *c, struct conn *conn)
{
	if (conn->prev != NONE)
		c->conns[conn->prev].next = conn->next;
	else
		c->idle = conn->next;
	if (conn->next != NONE)
		c->conns[conn->next].prev = conn->prev;
}

static void conn_close(struct load_client *c, struct conn *conn)
{
	close(conn->fd);
	if (conn->state == CONN_IDLE)
		idle_remove(c, conn);
	conn->state = CONN_FREE;
	conn->fd = -1;
	conn->generation++;
	conn->next = c->free;
	c->free = index_of(c, conn);
	c->open--;
}

/* Hands the call back; the connection is idle again or closed. */
static void finish(struct load_client *c, struct conn *conn, const char *error, bool keep)
{
	struct load_call *call = conn->call;

	conn->call = NULL;
	c->in_flight--;
	call->end_ns = c->now_ns;
	call->error = error;
	if (conn->reply.http.head_done) {
		call->status = conn->reply.http.status;
		memcpy(call->backend, conn->reply.http.backend, sizeof(call->backend));
	}
	c->ops.done(c->ops.arg, call, &conn->reply.answer);
	if (!keep) {
		conn_close(c, conn);
		return;
	}
	conn->served++;
	conn->active_ns = c->now_ns;
	idle_push(c, conn);
}

static void on_event(void *arg, bool token)
{
	struct conn *conn = arg;
	struct load_client *c = conn->client;
	struct load_call *call = conn->call;

	conn->active_ns = c->now_ns;
	if (!call->first_ns)
		call->first_ns = c->now_ns;
	if (!token)
		return;
	if (call->last_token_ns) {
		call->gaps++;
		c->ops.gap(c->ops.arg, call, c->now_ns - call->last_token_ns);
	} else {
		call->first_token_ns = c->now_ns;
	}
	call->last_token_ns = c->now_ns;
}

static void conn_start(struct load_client *c, struct conn *conn, struct load_call *call)
{
	conn->call = call;
	conn->sent = 0;
	load_reply_reset(&conn->reply, c->o->stream, call->conv != NULL);
}

/* Opens a connection in a new slot. Returns it or NULL with errno. */
static struct conn *conn_open(struct load_client *c)
{
	int fd = socket(c->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET };
	struct conn *conn;
	uint32_t slot;

	if (fd < 0)
		return NULL;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	slot = c->free != NONE ? c->free : c->used;
	conn = &c->conns[slot];
	ev.data.u64 = (uint64_t)conn->generation << 32 | slot;
	if ((connect(fd, (struct sockaddr *)&c->addr, c->addr_len) && errno != EINPROGRESS) ||
	    epoll_ctl(c->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		int err = errno;

		close(fd);
		errno = err;
		return NULL;
	}
	if (slot == c->free)
		c->free = conn->next;
	else
		c->used++;
	conn->client = c;
	conn->fd = fd;
	conn->served = 0;
	conn->state = CONN_CONNECTING; /* EPOLLOUT comes when it is up */
	c->open++;
	return conn;
}

/* Sends what the socket takes. Returns 0 or -errno. */
static int flush(struct conn *conn)
{
	for (;;) {
		struct iovec iov[4];
		struct msghdr msg = { .msg_iov = iov };
		size_t skip = conn->sent;
		ssize_t n;

		for (int i = 0; i < conn->call->n_iov; i++) {
			const struct iovec *v = &conn->call->iov[i];

			if (skip >= v->iov_len) {
				skip -= v->iov_len;
				continue;
			}
			iov[msg.msg_iovlen].iov_base = (char *)v->iov_base + skip;
			iov[msg.msg_iovlen++].iov_len = v->iov_len - skip;
			skip = 0;
		}
		if (!msg.msg_iovlen) {
			conn->state = CONN_WAITING;
			return 0;
		}
		n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		conn->sent += (size_t)n;
	}
}

static void fail_unstarted(struct load_client *c, struct load_call *call, const char *reason)
{
	call->error = reason;
	c->failed[c->n_failed++] = call;
}

/* The connection went away under the call. */
static void lost(struct load_client *c, struct conn *conn, const char *reason)
{
	struct load_call *call = conn->call;

	/* The server closed an idle connection while the request was on its way (RFC 9112
	 * 9.3.1) and not one byte of an answer has been seen: once more on a new one. That has
	 * served nothing, so there is no third time. */
	if (conn->served && !conn->reply.http.started) {
		struct conn *fresh;

		c->reconnects++;
		conn->call = NULL;
		conn_close(c, conn);
		fresh = conn_open(c);
		if (!fresh) {
			c->in_flight--;
			fail_unstarted(c, call, "connect");
			return;
		}
		conn_start(c, fresh, call);
		fresh->active_ns = c->now_ns;
		return;
	}
	finish(c, conn, reason, false);
}

/* Handles bytes of the answer; returns false when the connection is gone or idle. */
static bool take_bytes(struct load_client *c, struct conn *conn, size_t n)
{
	long used;

	/* A stream lives by its events: pings alone must not keep it waiting for ever. */
	if (!c->o->stream || !conn->reply.http.head_done)
		conn->active_ns = c->now_ns;
	used = load_reply_feed(&conn->reply, c->buf, n, on_event, conn);
	if (used < 0) {
		finish(c, conn, "bad_response", false);
		return false;
	}
	if (conn->reply.http.state != LOAD_HTTP_DONE)
		return true;
	/* Bytes behind the answer belong to nobody. */
	if ((size_t)used < n)
		finish(c, conn, "bad_response", false);
	else
		finish(c, conn, load_reply_judge(&conn->reply, conn->call->error_code), !conn->reply.http.close && conn->state == CONN_WAITING);
	return false;
}

static void conn_readable(struct load_client *c, struct conn *conn, uint32_t events)
{
	for (;;) {
		ssize_t n = recv(conn->fd, c->buf, READ_BYTES, 0);

		c->now_ns = clock_now_ns();
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (conn->state == CONN_IDLE) {
			conn_close(c, conn); /* closed by the server, or unasked bytes */
			return;
		}
		if (n < 0) {
			lost(c, conn, "reset");
			return;
		}
		if (n == 0) {
			if (!load_http_eof(&conn->reply.http))
				finish(c, conn, load_reply_judge(&conn->reply, conn->call->error_code), false);
			else
				lost(c, conn, conn->reply.http.started ? "truncated" : "reset");
			return;
		}
		if (!take_bytes(c, conn, (size_t)n)) {
			/* An answer may end together with its connection. */
			if (conn->state == CONN_IDLE && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
				conn_close(c, conn);
			return;
		}
		/* Edge-triggered: a short read has emptied the socket, unless an end is behind it. */
		if ((size_t)n < READ_BYTES && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
			return;
	}
}

static void conn_event(struct load_client *c, struct conn *conn, uint32_t events)
{
	if (conn->state == CONN_CONNECTING) {
		int err = 0;
		socklen_t len = sizeof(err);

		if (!(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
			return;
		getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (err) {
			finish(c, conn, "connect", false);
			return;
		}
		conn->state = CONN_SENDING;
	}
	if (conn->state == CONN_SENDING && events & EPOLLOUT) {
		size_t before = conn->sent;

		/* A server may answer (413) and close while the body is still being sent: look
		 * for that answer before calling it a reset. */
		if (flush(conn) && !(events & EPOLLIN)) {
			lost(c, conn, "reset");
			return;
		}
		if (conn->sent > before)
			conn->active_ns = c->now_ns;
	}
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		conn_readable(c, conn, events);
}

bool load_client_ready(const struct load_client *c)
{
	return c->in_flight + c->n_failed < c->max;
}

void load_client_start(struct load_client *c, struct load_call *call, uint64_t now_ns)
{
	struct conn *conn;

	c->now_ns = now_ns;
	call->start_ns = now_ns;
	while (c->idle != NONE) {
		conn = &c->conns[c->idle];
		idle_remove(c, conn);
		conn->state = CONN_SENDING;
		conn->active_ns = now_ns;
		conn_start(c, conn, call);
		if (!flush(conn)) {
			c->in_flight++;
			return;
		}
		conn->call = NULL;
		conn_close(c, conn); /* it was dead: nothing has been served of this call */
		c->reconnects++;
	}
	conn = conn_open(c);
	if (!conn) {
		fail_unstarted(c, call, errno == EMFILE || errno == ENFILE ? "descriptors" : "connect");
		return;
	}
	conn_start(c, conn, call);
	conn->active_ns = now_ns;
	c->in_flight++;
}

/* Reports the calls that never got a connection. */
static void report_failed(struct load_client *c)
{
	static const struct load_answer none = { .prompt_tokens = -1, .output_tokens = -1, .cached_tokens = -1 };

	while (c->n_failed) {
		struct load_call *call = c->failed[--c->n_failed];

		call->end_ns = c->now_ns;
		c->ops.done(c->ops.arg, call, &none);
	}
}

void load_client_poll(struct load_client *c, uint64_t wait_ns)
{
	struct epoll_event events[EVENTS];
	struct timespec ts;
	int n;

	if (c->n_failed)
		wait_ns = 0;
	ts = (struct timespec){ (time_t)(wait_ns / NSEC_PER_SEC), (long)(wait_ns % NSEC_PER_SEC) };
	n = epoll_pwait2(c->epfd, events, EVENTS, &ts, NULL);
	c->now_ns = clock_now_ns();
	for (int i = 0; i < n; i++) {
		struct conn *conn = &c->conns[(uint32_t)events[i].data.u64];

		if (conn->state != CONN_FREE && conn->generation == (uint32_t)(events[i].data.u64 >> 32))
			conn_event(c, conn, events[i].events);
	}
	report_failed(c);
}

void load_client_sweep(struct load_client *c, uint64_t now_ns)
{
	uint64_t silent_ns = (uint64_t)(c->o->timeout_s * (double)NSEC_PER_SEC);

	c->now_ns = now_ns;
	for (uint32_t i = 0; i < c->used; i++) {
		struct conn *conn = &c->conns[i];
		/* The caller's clock may be older than the last byte. */
		uint64_t age_ns = now_ns > conn->active_ns ? now_ns - conn->active_ns : 0;

		if (conn->state == CONN_IDLE && age_ns > IDLE_NS)
			conn_close(c, conn);
		else if (conn->state == CONN_CONNECTING && age_ns > CONNECT_TIMEOUT_NS)
			finish(c, conn, "connect_timeout", false);
		else if ((conn->state == CONN_SENDING || conn->state == CONN_WAITING) && age_ns > silent_ns)
			finish(c, conn, "timeout", false);
	}
}

void load_client_abort(struct load_client *c, const char *reason)
{
	c->now_ns = clock_now_ns();
	report_failed(c);
	for (uint32_t i = 0; i < c->used; i++)
		if (c->conns[i].call)
			finish(c, &c->conns[i], reason, false);
}

uint32_t load_client_in_flight(const struct load_client *c)
{
	return c->in_flight + c->n_failed;
}

uint64_t load_client_reconnects(const struct load_client *c)
{
	return c->reconnects;
}

int load_client_new(struct load_client **client, const struct load_options *o, uint32_t max,
		    const struct load_client_ops *ops)
{
	struct load_client *c = calloc(1, sizeof(*c));
	int rc = -ENOMEM;

	if (!c)
		return rc;
	c->o = o;
	c->ops = *ops;
	c->max = max;
	c->idle = c->free = NONE;
	c->epfd = epoll_create1(EPOLL_CLOEXEC);
	c->conns = calloc(max, sizeof(*c->conns));
	c->failed = calloc(max, sizeof(*c->failed));
	if (c->epfd < 0 || !c->conns || !c->failed)
		fprintf(stderr, "kvsteer-load: no memory or descriptors for %u connections\n", max);
	else
		rc = load_server_find(o->host, o->port, &c->addr, &c->addr_len);
	if (rc) {
		load_client_free(c);
		return rc;
	}
	*client = c;
	return 0;
}

void load_client_free(struct load_client *c)
{
	if (c->conns && c->failed)
		load_client_abort(c, "unfinished");
	for (uint32_t i = 0; c->conns && i < c->used; i++) {
		struct conn *conn = &c->conns[i];

		if (conn->state != CONN_FREE)
			close(conn->fd);
		load_reply_free(&conn->reply);
	}
	if (c->epfd >= 0)
		close(c->epfd);
	free(c->conns);
	free(c->failed);
	free(c);
}
