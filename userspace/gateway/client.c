/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/client.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"
#include "gateway/splice.h"

#define READ_BYTES CLIENT_READ_BYTES
#define LINGER_NS NSEC_PER_SEC
#define LINGER_BYTES (64u << 10)

#define OVERLOADED_BODY \
	"{\"error\":{\"message\":\"the gateway is at its limit of connections\",\"type\":\"server_error\"," \
	"\"param\":null,\"code\":\"overloaded\"}}"

static void client_event(struct worker *w, struct io *io, uint32_t events);
static void client_timer(struct timer *t, uint64_t now_ns);

void client_want(struct client *c, bool reading, bool writing)
{
	/* A FIN that means no abort waits behind the bytes that are not read yet. */
	bool fin = !c->fin && (reading || c->w->fleet->cfg->client_half_close == CONFIG_HALF_CLOSE_ABORT);
	uint32_t ev = (reading ? EPOLLIN : 0) | (writing ? EPOLLOUT : 0) | (fin ? EPOLLRDHUP : 0);

	c->reading = reading;
	c->writing = writing;
	io_want(c->w, &c->io, ev);
}

void client_deadline(struct client *c, uint64_t at_ns)
{
	c->deadline_ns = at_ns;
	if (!at_ns)
		timer_cancel(&c->w->timers, &c->timer);
	else if (!timer_armed(&c->timer) || c->timer.at_ns > at_ns)
		timer_arm(&c->w->timers, &c->timer, at_ns);
}

static void set_linger(int fd, bool reset)
{
	struct linger l = { reset, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

static void peer_text(struct client *c, const struct sockaddr *peer)
{
	const struct sockaddr_in6 *v6 = (const void *)peer;
	const struct sockaddr_in *v4 = (const void *)peer;

	if (peer->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], c->peer, sizeof(c->peer));
	else if (peer->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &v6->sin6_addr, c->peer, sizeof(c->peer));
	else
		inet_ntop(AF_INET, &v4->sin_addr, c->peer, sizeof(c->peer));
	c->peer_hash = XXH3_64bits(c->peer, strlen(c->peer));
}

static void refuse_connection(int fd)
{
	char answer[512];
	int n = snprintf(answer, sizeof(answer),
			 "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
			 "content-length: %zu\r\nretry-after: 1\r\nconnection: close\r\n\r\n" OVERLOADED_BODY,
			 sizeof(OVERLOADED_BODY) - 1);

	(void)!send(fd, answer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

void client_accepted(struct worker *w, int fd, const struct sockaddr *peer, socklen_t len)
{
	struct gateway *gw = w->gw;
	struct client *c;
	int one = 1;

	if (__atomic_add_fetch(&gw->connections, 1, __ATOMIC_RELAXED) > gw->max_connections ||
	    !(c = calloc(1, sizeof(*c)))) {
		__atomic_sub_fetch(&gw->connections, 1, __ATOMIC_RELAXED);
		stat_add(&w->stats->accept_refused, 1);
		refuse_connection(fd);
		return;
	}
	stat_add(&w->stats->accepted, 1);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* Until an orderly close, every end of this descriptor is a reset: also that of a crash. */
	set_linger(fd, true);
	c->w = w;
	c->io = (struct io){ .fd = fd, .on_event = client_event };
	c->conn = (struct conn){ .fd = fd, .ops = &conn_ops_tcp };
	c->timer.fn = client_timer;
	c->trusted = config_trusted(w->fleet->cfg, peer);
	c->reading = true;
	peer_text(c, peer);
	list_add(&w->clients, &c->link);
	w->n_clients++;
	if (io_add(w, &c->io, EPOLLIN | EPOLLRDHUP)) {
		client_close(c, true);
		return;
	}
	client_deadline(c, w->now_ns + w->fleet->cfg->timeouts.head_ns);
	/* Data often comes with the handshake's last packet: epoll will say so. */
}

void client_close(struct client *c, bool reset)
{
	struct worker *w = c->w;

	if (c->state == CLIENT_CLOSED)
		return;
	c->state = CLIENT_CLOSED;
	if (!reset)
		set_linger(c->io.fd, false);
	c->conn.ops->close(&c->conn);
	io_close(w, &c->io);
	timer_cancel(&w->timers, &c->timer);
	iobuf_free(&c->in);
	list_del(&c->link);
	w->n_clients--;
	__atomic_sub_fetch(&w->gw->connections, 1, __ATOMIC_RELAXED);
	worker_bury(w, c);
}

/* RFC 9112 9.6: shut down first and read on for a while, or the reset that a close
 * with unread input causes could destroy the answer on its way. */
static void client_linger(struct client *c)
{
	set_linger(c->io.fd, false);
	shutdown(c->io.fd, SHUT_WR);
	iobuf_free(&c->in);
	if (c->fin) {
		client_close(c, false);
		return;
	}
	c->state = CLIENT_LINGER;
	client_want(c, true, false);
	client_deadline(c, c->w->now_ns + LINGER_NS);
}

void client_gone(struct client *c)
{
	/* between two requests there is nothing to cut: the end of the last answer may still be on its way */
	bool whole = c->state == CLIENT_IDLE || c->state == CLIENT_LINGER;
	struct exchange *x = c->x;

	if (x) {
		c->x = NULL;
		exchange_client_gone(x);
	}
	client_close(c, !whole);
}

/* c->in holds bytes of a head (or its first ones): parses. True if it was complete. */
static bool client_parse_one(struct client *c)
{
	struct worker *w = c->w;
	struct exchange *x = c->x;
	enum http_result r;

	if (!x) {
		x = c->x = exchange_new(c);
		if (!x) {
			client_close(c, true);
			return false;
		}
	}
	r = http_req_parse(&x->parse->req, (char *)iobuf_head(&c->in), c->in.len);
	if (r == HTTP_MORE) {
		if (c->state == CLIENT_IDLE && http_req_started(&x->parse->req)) {
			c->state = CLIENT_HEAD; /* an absolute deadline: a byte now and then does not move it */
			client_deadline(c, w->now_ns + w->fleet->cfg->timeouts.head_ns);
		}
		return false;
	}
	if (r == HTTP_FAULT) {
		c->state = CLIENT_HEAD;
		exchange_fault(x, &x->parse->req.fault);
		return false;
	}
	/* The head's bytes go to the exchange, what follows them stays here. */
	if (iobuf_append(&x->head, iobuf_head(&c->in), x->parse->req.head_bytes, UINT32_MAX)) {
		client_gone(c);
		return false;
	}
	iobuf_consume(&c->in, x->parse->req.head_bytes);
	http_body_init(&x->decode, x->parse->req.body, x->parse->req.content_length, w->fleet->cfg->limits.body_bytes);
	x->body_complete = http_body_ended(&x->decode);
	c->state = x->body_complete ? CLIENT_ANSWER : CLIENT_BODY;
	client_deadline(c, c->state == CLIENT_BODY ? w->now_ns + w->fleet->cfg->timeouts.head_ns : 0);
	exchange_head_done(x);
	if (c->state == CLIENT_BODY && c->x == x)
		client_body_buffered(c);
	return true;
}

/* Pipelined requests, as far as each is answered at once: in a loop, for a thousand
 * small ones would be as deep a recursion. */
static void client_parse_head(struct client *c)
{
	if (c->parsing)
		return;
	c->parsing = true;
	while (client_parse_one(c) && c->state == CLIENT_IDLE && c->in.len)
		;
	c->parsing = false;
}

static void client_read_head(struct client *c)
{
	struct worker *w = c->w;
	uint32_t max = (uint32_t)w->fleet->cfg->limits.head_bytes + READ_BYTES;
	ssize_t n = conn_recv(&c->conn, w->scratch, READ_BYTES);

	if (n == -EAGAIN)
		return;
	/* a copy as large as what came: cheaper than 16 KiB for each head, and less to hold for a slow one */
	if (n <= 0 || iobuf_append(&c->in, w->scratch, (uint32_t)n, max + READ_BYTES)) {
		client_gone(c);
		return;
	}
	client_parse_head(c);
}

static void client_read_away(struct client *c)
{
	ssize_t n = conn_recv(&c->conn, c->w->scratch, sizeof(c->w->scratch));

	if (n == -EAGAIN)
		return;
	if (n > 0)
		c->lingered_bytes += (uint32_t)n;
	if (n <= 0 || c->lingered_bytes > LINGER_BYTES)
		client_close(c, false);
}

/* The client has shut down its side. True if that ends the connection. */
static bool client_fin(struct client *c, uint32_t events)
{
	struct config *cfg = c->x && c->x->fleet ? c->x->fleet->cfg : c->w->fleet->cfg;

	if (cfg->client_half_close == CONFIG_HALF_CLOSE_ABORT || c->state != CLIENT_ANSWER) {
		/* deliver: what the client sent before its FIN may still complete a request */
		if (cfg->client_half_close == CONFIG_HALF_CLOSE_DELIVER && (events & EPOLLIN))
			return false;
		client_gone(c);
		return true;
	}
	c->fin = true;
	c->close_after = true;
	client_want(c, false, c->writing);
	return false;
}

static void client_event(struct worker *w, struct io *io, uint32_t events)
{
	struct client *c = container_of(io, struct client, io);

	if (c->state == CLIENT_LINGER) {
		client_read_away(c);
		return;
	}
	if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
		client_splice_settle(c);
		if (c->state == CLIENT_CLOSED || c->state == CLIENT_LINGER)
			return;
	}
	if (events & (EPOLLERR | EPOLLHUP)) {
		client_gone(c);
		return;
	}
	if ((events & EPOLLRDHUP) && client_fin(c, events))
		return;
	if ((events & EPOLLOUT) && c->x) {
		exchange_client_writable(c->x);
		if (c->state == CLIENT_CLOSED)
			return;
	}
	if (!(events & EPOLLIN))
		return;
	switch (c->state) {
	case CLIENT_IDLE:
	case CLIENT_HEAD:
		client_read_head(c);
		break;
	case CLIENT_BODY:
		client_read_body(c);
		break;
	case CLIENT_ANSWER:
		/* The next request comes: most likely the answer has arrived. */
		if (worker_splice_drains(w, c))
			break;
		/* The next request comes early: it stays in the socket until this one is answered. */
		client_want(c, false, c->writing);
		break;
	default:
		break;
	}
}

static void client_timer(struct timer *t, uint64_t now_ns)
{
	struct client *c = container_of(t, struct client, timer);

	if (!c->deadline_ns)
		return;
	if (now_ns < c->deadline_ns) {
		timer_arm(&c->w->timers, t, c->deadline_ns);
		return;
	}
	if (c->state == CLIENT_BODY && (!c->reading || c->x->phase == EXCHANGE_ANSWERING)) {
		/* we keep the client waiting, not it us, or it waits for the end of an early answer:
		 * the exchange has deadlines of its own */
		client_deadline(c, now_ns + c->w->fleet->cfg->timeouts.head_ns);
		return;
	}
	switch (c->state) {
	case CLIENT_HEAD:
	case CLIENT_BODY:
		exchange_fail(c->x, REASON_REQUEST_TIMEOUT, c->state == CLIENT_HEAD ?
				"the request's head did not arrive in time" : "the request's body did not arrive in time");
		break;
	case CLIENT_LINGER:
		client_close(c, false);
		break;
	case CLIENT_IDLE:
		client_gone(c);
		break;
	default: /* an answer has the exchange's deadlines */
		break;
	}
}

void client_answered(struct client *c)
{
	struct worker *w = c->w;

	c->x = NULL;
	c->served = true;
	if (c->close_after || c->fin || w->draining) {
		client_linger(c);
		return;
	}
	c->state = CLIENT_IDLE;
	client_want(c, true, false);
	client_deadline(c, w->now_ns + w->fleet->cfg->timeouts.keepalive_ns);
	if (c->in.len) /* pipelined */
		client_parse_head(c);
}

void client_close_idle(struct worker *w)
{
	struct list *p, *tmp;

	list_for_each_safe(p, tmp, &w->clients) {
		struct client *c = list_entry(p, struct client, link);

		if (c->state == CLIENT_IDLE)
			client_read_head(c); /* a request that is here already is served */
		if (c->state != CLIENT_IDLE)
			continue;
		if (c->served)
			client_gone(c);
		else /* has just connected: its request is on its way */
			client_deadline(c, w->now_ns + LINGER_NS);
	}
}

void client_close_all(struct worker *w)
{
	struct list *p, *tmp;

	/* what has not begun its answer gets one, the others see a cut: neither is the client's doing */
	list_for_each_safe(p, tmp, &w->clients) {
		struct client *c = list_entry(p, struct client, link);

		if (!c->x || c->state == CLIENT_IDLE)
			continue;
		__atomic_add_fetch(&w->gw->requests_cut, 1, __ATOMIC_RELAXED);
		exchange_fail(c->x, REASON_DRAINING, "the gateway is shutting down");
	}
	list_for_each_safe(p, tmp, &w->clients)
		client_gone(list_entry(p, struct client, link));
}
