/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Answers that the gateway gives itself: errors, and what needs no backend. */
#include <stdio.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "http/write.h"

#define ERROR_BYTES_MAX 4096

/* True if bytes of an answer may have reached the client. */
static bool answer_begun(const struct exchange *x)
{
	return x->interim_cut || x->phase == EXCHANGE_DRAINING || (x->phase == EXCHANGE_ANSWERING && !x->flow.hold);
}

void exchange_fail(struct exchange *x, enum reason reason, const char *message)
{
	struct client *c = x->c;
	struct http_error_out e = { 0 };
	ssize_t n;

	if (answer_begun(x)) {
		exchange_cut(x, reason);
		return;
	}
	x->reason = reason;
	x->head_ns = 0; /* no backend's answer */
	exchange_let_go(x, reason);
	if (!c) {
		exchange_finish(x);
		return;
	}
	/* What the client still sends of this request can't be told from another one. */
	if (!x->body_complete)
		c->close_after = true;
	c->state = CLIENT_ANSWER;
	client_deadline(c, 0);
	x->status = reason_status(reason);
	e.status = (uint16_t)x->status;
	e.code = reason_name(reason);
	e.message = message;
	e.flavour = (x->family_flags & PROMPT_FAM_ANTHROPIC) ? HTTP_FLAVOUR_ANTHROPIC : HTTP_FLAVOUR_OPENAI;
	e.request_id = x->id;
	e.close = c->close_after || x->w->draining;
	e.http10 = x->http10;
	e.head_only = x->head_only;
	e.date = worker_date(x->w);
	e.allow = x->allow;
	if (reason == REASON_MODEL_NOT_FOUND)
		e.param = "model";
	if (reason == REASON_QUEUE_FULL || reason == REASON_QUEUE_TIMEOUT) {
		uint64_t max_s = (x->pool->cfg->queue_timeout_ns + NSEC_PER_SEC - 1) / NSEC_PER_SEC;

		pthread_mutex_lock(&x->pool->state->queue_lock);
		e.retry_after_s = queue_retry_after_s(&x->pool->state->queue, x->w->now_ns, (unsigned)max_s);
		pthread_mutex_unlock(&x->pool->state->queue_lock);
	} else if (reason == REASON_OVERLOADED || reason == REASON_DRAINING || reason == REASON_NO_BACKEND) {
		e.retry_after_s = 1;
	}
	iobuf_free(&x->flow.out);
	x->flow.hold = false;
	if (iobuf_reserve(&x->flow.out, ERROR_BYTES_MAX, ERROR_BYTES_MAX)) {
		exchange_cut(x, reason);
		return;
	}
	n = http_write_error((char *)iobuf_tail(&x->flow.out), iobuf_room(&x->flow.out), &e);
	if (n < 0) {
		exchange_cut(x, reason);
		return;
	}
	iobuf_produced(&x->flow.out, (uint32_t)n);
	exchange_drain(x);
}

void exchange_reply(struct exchange *x, int status, const char *fields, const char *body, size_t len)
{
	struct client *c = x->c;
	char head[640], length[48] = "";
	bool close;
	int n;

	if (!x->body_complete) /* a body nobody wants: cheaper to part than to read it */
		c->close_after = true;
	close = c->close_after || x->w->draining;
	c->state = CLIENT_ANSWER;
	client_deadline(c, 0);
	x->status = status;
	if (status != 204) /* RFC 9110 8.6: none there */
		snprintf(length, sizeof(length), "content-length: %zu\r\n", len);
	n = snprintf(head, sizeof(head), "HTTP/1.1 %d %s\r\ndate: %s\r\n%s%sx-request-id: %s\r\n%s%s\r\n", status,
		     http_reason((uint16_t)status), worker_date(x->w), fields ? fields : "", length, x->id,
		     close ? "connection: close\r\n" : "",
		     !close && x->http10 ? "connection: keep-alive\r\n" : "");
	if (iobuf_append(&x->flow.out, head, (uint32_t)n, UINT32_MAX) ||
	    (!x->head_only && len && iobuf_append(&x->flow.out, body, (uint32_t)len, UINT32_MAX))) {
		exchange_cut(x, REASON_OVERLOADED);
		return;
	}
	exchange_drain(x);
}
