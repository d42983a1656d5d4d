/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The request on its way to the backend. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"
#include "http/write.h"

#define SEND_VECTORS 32
#define HEAD_SLACK 2048          /* room for the fields that the router adds */
#define HEAD_USUAL 2048          /* nearly every head fits */
#define UNSENT_LOW (64u << 10)   /* below this, a stopped client may send on */
#define UNSENT_HIGH (256u << 10)

/* The head for x->backend into x->out_head. */
static int build_head(struct exchange *x)
{
	const struct http_req *r = &x->parse->req;
	const char *buf = (const char *)iobuf_head(&x->head);
	struct http_extra extra[2] = {
		{ "X-Gateway-Model-Name", x->model ? x->names.served : NULL, x->model ? strlen(x->names.served) : 0 },
		{ "X-Gateway-Base-Model-Name", x->model ? x->names.base : NULL, x->model ? strlen(x->names.base) : 0 },
	};
	struct http_req_out o = {
		.path_prefix = x->backend->cfg->path_prefix,
		.host = x->backend->cfg->host_header,
		.content_length = x->body.held,
		.peer_address = x->peer,
		.trusted = x->c && x->c->trusted,
		.request_id = x->id,
		.extra = extra,
		.nextra = 2,
	};
	uint32_t want = x->head.len + HEAD_SLACK + (uint32_t)strlen(o.path_prefix);
	char text[HEAD_USUAL];
	ssize_t n;

	if (r->body == HTTP_BODY_NONE)
		o.body = HTTP_BODY_NONE;
	else if (x->body_complete || r->body == HTTP_BODY_LENGTH)
		o.body = HTTP_BODY_LENGTH;
	else
		o.body = HTTP_BODY_CHUNKED;
	if (!x->body_complete && r->body == HTTP_BODY_LENGTH)
		o.content_length = r->content_length;
	x->chunk_out = o.body == HTTP_BODY_CHUNKED;
	x->chunk_open = x->chunk_last = false;
	x->chunk_left = 0;
	iobuf_free(&x->out_head);
	n = http_write_request(text, sizeof(text), r, buf, &o);
	if (n > 0)
		return iobuf_append(&x->out_head, text, (uint32_t)n, 1u << 20);
	for (; n == -ENOBUFS; want *= 2) {
		if (iobuf_reserve(&x->out_head, want, 1u << 20))
			return -ENOMEM;
		n = http_write_request((char *)iobuf_tail(&x->out_head), iobuf_room(&x->out_head), r, buf, &o);
	}
	if (n < 0)
		return (int)n;
	iobuf_produced(&x->out_head, (uint32_t)n);
	return 0;
}

void exchange_connect(struct exchange *x, bool fresh)
{
	struct worker *w = x->w;
	int err;

	body_rewind(&x->body);
	x->sent = false;
	if (build_head(x)) {
		exchange_fail(x, REASON_OVERLOADED, "out of memory");
		return;
	}
	x->phase = EXCHANGE_CONNECTING;
	x->u = upstream_get(w, x->backend, x, fresh, &err);
	if (!x->u) {
		exchange_upstream_connected(x, err);
		return;
	}
	if (x->u->state == UPSTREAM_CONNECTING)
		exchange_deadline(x, w->now_ns + x->fleet->cfg->timeouts.connect_ns);
	else
		exchange_upstream_connected(x, 0);
}

/* Only the gateway's own shortage: says nothing about the backend. */
static bool own_shortage(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS || err == -EADDRNOTAVAIL || err == -EAGAIN;
}

/* Streams show their head at once; other answers have twice the time. */
static uint64_t head_timeout_ns(const struct exchange *x)
{
	return x->fleet->cfg->timeouts.first_token_ns * (x->wants_stream ? 1 : 2);
}

void exchange_upstream_connected(struct exchange *x, int err)
{
	size_t room = x->fleet->cfg->limits.headers;

	if (err) {
		if (own_shortage(err))
			exchange_fail(x, REASON_OVERLOADED, "the gateway is out of descriptors, ports or memory");
		else
			exchange_backend_failed(x, ROUTE_RESULT_CONNECT_FAILED, REASON_CONNECT_FAILED,
						"the backend refused the connection");
		return;
	}
	if (!x->answer) {
		x->answer = worker_parse_get(x->w, sizeof(*x->answer) + room * sizeof(struct http_field));
		if (!x->answer) {
			exchange_fail(x, REASON_OVERLOADED, "out of memory");
			return;
		}
	}
	struct http_limits hl = HTTP_LIMITS_DEFAULT;

	hl.head_bytes = (uint32_t)x->fleet->cfg->limits.head_bytes;
	hl.headers = (uint16_t)room;
	http_resp_init(&x->answer->resp, &hl, x->answer->fields, (uint16_t)room, x->method);
	x->interims = 0;
	x->phase = EXCHANGE_WAITING;
	exchange_deadline(x, x->w->now_ns + head_timeout_ns(x));
	worker_send_soon(x->w, x);
}

/* The next piece of our own chunked coding into out_head; false: wait for more body. */
static bool next_chunk(struct exchange *x)
{
	char text[HTTP_CHUNK_HEAD_MAX + 8];
	int n = 0;

	if (x->chunk_left || x->chunk_last)
		return true;
	if (!x->body.unsent && !x->body_complete)
		return false;
	if (x->chunk_open) {
		text[n++] = '\r';
		text[n++] = '\n';
	}
	if (x->body.unsent) {
		x->chunk_left = x->body.unsent;
		x->chunk_open = true;
		n += (int)http_chunk_head(text + n, x->chunk_left);
	} else {
		memcpy(text + n, HTTP_CHUNK_LAST, sizeof(HTTP_CHUNK_LAST) - 1);
		n += (int)sizeof(HTTP_CHUNK_LAST) - 1;
		x->chunk_last = true;
	}
	return iobuf_append(&x->out_head, text, (uint32_t)n, 1u << 20) == 0;
}

static bool all_sent(const struct exchange *x)
{
	return !x->out_head.len && !x->body.unsent && x->body_complete && (!x->chunk_out || x->chunk_last);
}

/* Vectors of what may go out now. */
static int gather(struct exchange *x, struct iovec *v)
{
	uint64_t most = UINT64_MAX;
	int n = 0;

	if (x->chunk_out) {
		next_chunk(x);
		most = x->chunk_left;
	}
	if (x->out_head.len)
		v[n++] = (struct iovec){ iobuf_head(&x->out_head), x->out_head.len };
	if (!x->chunk_out || most) {
		int k = (int)body_vectors(&x->body, v + n, SEND_VECTORS - (unsigned)n);

		for (int i = 0; i < k && most; i++, n++) {
			if (v[n].iov_len > most)
				v[n].iov_len = most;
			most -= v[n].iov_len;
		}
	}
	return n;
}

void exchange_send(struct exchange *x)
{
	struct worker *w = x->w;
	struct client *c = x->c;
	bool blocked = false, moved = false;

	if (!x->u || x->u->state != UPSTREAM_BUSY || x->sent)
		return;
	while (!all_sent(x)) {
		struct iovec v[SEND_VECTORS + 1];
		int n = gather(x, v);
		ssize_t sent;
		uint32_t head;

		if (!n)
			break; /* more of the body must come first */
		sent = conn_send(&x->u->conn, v, n);
		if (sent == -EAGAIN) {
			blocked = true;
			break;
		}
		if (sent < 0) {
			/* What the client still sends has no taker any more: it must not pile up here. */
			if (c && c->state == CLIENT_BODY)
				client_want(c, false, c->writing);
			/* it may have answered before it closed: read that first */
			io_want(w, &x->u->io, exchange_upstream_events(x));
			if (x->u->reused && !x->u->got_bytes)
				exchange_upstream_lost(x);
			else
				exchange_upstream_readable(x);
			return;
		}
		head = (uint64_t)sent < x->out_head.len ? (uint32_t)sent : x->out_head.len;
		if (head)
			iobuf_consume(&x->out_head, head);
		sent -= head;
		if (x->chunk_out)
			x->chunk_left -= (uint64_t)sent;
		body_sent(&x->body, &w->bodies, (uint64_t)sent);
		moved = true;
	}
	if (all_sent(x)) {
		x->sent = true;
		w->now_ns = clock_now_ns();
		x->sent_ns = w->now_ns;
		/* from the complete request on: of a streamed one or a second try it would tell something else */
		if (!x->streaming && x->tries == 1)
			hist_observe(&w->stats->added_request, &hist_bounds_added,
				     x->sent_ns - x->request_ns - x->queued_ns);
	}
	/* The backend's time begins with the end of the request, however long that is in coming. */
	if (moved && x->phase == EXCHANGE_WAITING)
		exchange_deadline(x, w->now_ns + head_timeout_ns(x));
	io_want(w, &x->u->io, exchange_upstream_events(x) | (blocked ? EPOLLOUT : 0));
	if (!c || c->state != CLIENT_BODY)
		return;
	if (x->body.unsent >= UNSENT_HIGH)
		client_want(c, false, c->writing);
	else if (x->body.unsent < UNSENT_LOW)
		client_resume_body(c);
}

void exchange_due(struct exchange *x)
{
	struct worker *w = x->w;
	uint64_t head_ns = x->head_ns;

	if (x->phase != EXCHANGE_DRAINING) {
		exchange_send(x);
		return;
	}
	exchange_drain(x);
	hist_observe(&w->stats->added_response, &hist_bounds_added, clock_now_ns() - head_ns);
}
