/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The body of a request from the client's connection into the exchange. */
#include <errno.h>

#include "gateway/client.h"
#include "gateway/exchange.h"

#define READS_PER_TURN 4 /* before others get their turn */

void client_body_buffered(struct client *c)
{
	struct exchange *x = c->x;

	while (c->in.len && c->state == CLIENT_BODY) {
		const uint8_t *p = iobuf_head(&c->in);
		struct http_span span;
		enum http_result r = http_body_step(&x->decode, (const char *)p, c->in.len, &span);

		if (r == HTTP_FAULT) {
			exchange_fault(x, &x->decode.fault);
			return;
		}
		if (span.len) {
			if (body_append(&x->body, &c->w->bodies, p + span.off, (uint32_t)span.len)) {
				exchange_fail(x, REASON_OVERLOADED, "out of memory");
				return;
			}
			exchange_body_filled(x, p + span.off, (uint32_t)span.len);
		}
		iobuf_consume(&c->in, (uint32_t)span.consumed);
		if (r == HTTP_DONE) {
			x->body_complete = true;
			c->state = CLIENT_ANSWER;
			client_deadline(c, 0);
		} else if (!span.consumed) {
			break;
		}
	}
	exchange_body_progress(x);
}

/* Reads straight into the body's chunks: Content-Length framing has nothing else on the wire. */
static ssize_t client_read_length(struct client *c)
{
	struct exchange *x = c->x;
	struct http_span span;
	uint32_t room;
	uint8_t *to = body_space(&x->body, &c->w->bodies, x->decode.framing.left, &room);
	ssize_t n;

	if (!to)
		return -ENOMEM;
	n = conn_recv(&c->conn, to, room);
	if (n <= 0)
		return n;
	http_body_step(&x->decode, (const char *)to, (size_t)n, &span);
	body_filled(&x->body, (uint32_t)n);
	exchange_body_filled(x, to, (uint32_t)n);
	if (http_body_ended(&x->decode)) {
		x->body_complete = true;
		c->state = CLIENT_ANSWER;
		client_deadline(c, 0);
	}
	return n;
}

void client_read_body(struct client *c)
{
	struct worker *w = c->w;

	for (unsigned i = 0; i < READS_PER_TURN && c->state == CLIENT_BODY && c->reading; i++) {
		struct exchange *x = c->x;
		bool length = x->decode.framing.state == HTTP_FS_LENGTH;
		ssize_t n = length ? client_read_length(c) : conn_recv(&c->conn, w->scratch, CLIENT_READ_BYTES);

		if (n == -EAGAIN)
			return;
		if (n == 0 || (n < 0 && n != -ENOMEM)) { /* the rest of the body will never come */
			client_gone(c);
			return;
		}
		if (c->state == CLIENT_BODY) /* not for a body that this read has completed */
			client_deadline(c, w->now_ns + w->fleet->cfg->timeouts.head_ns);
		if (n > 0 && !length)
			n = iobuf_append(&c->in, w->scratch, (uint32_t)n, 2 * CLIENT_READ_BYTES) ? -ENOMEM : n;
		if (n < 0) {
			exchange_fail(x, REASON_OVERLOADED, "out of memory");
			return;
		}
		if (length)
			exchange_body_progress(x);
		else
			client_body_buffered(c);
		if (n < (ssize_t)CLIENT_READ_BYTES)
			return; /* the socket is empty, or nearly */
	}
}

void client_resume_body(struct client *c)
{
	if (c->reading)
		return;
	client_want(c, true, c->writing);
	client_deadline(c, c->w->now_ns + c->w->fleet->cfg->timeouts.head_ns);
}
