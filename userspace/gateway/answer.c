/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The beginning of an answer: its head and the first events of a stream. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"
#include "gateway/splice.h"
#include "http/usage.h"
#include "http/write.h"
#include "signals/refusal.h"

#define HEAD_SLACK 1024
#define HEAD_USUAL 2048 /* nearly every head fits */
#define WHOLE_BYTES (16u << 10)
#define INTERIMS_MAX 8 /* 1xx answers to one request */

/* ---- the first events of a stream ---- */

static void first_token(struct exchange *x)
{
	struct stats_backend *sb = stats_backend_get(x->w->stats, x->backend->row);

	x->first_token = true;
	x->first_ns = clock_now_ns();
	route_first_token(x->pool->state->route, &x->ticket, x->first_ns, ROUTE_TOKENS_UNKNOWN);
	if (sb)
		hist_observe(&sb->ttft, &hist_bounds_ttft, x->first_ns - x->request_ns);
}

static void watch_events(struct exchange *x, const uint8_t *p, uint32_t n)
{
	while (n && x->sse && !x->want_retry) {
		struct sse_event ev;
		size_t used;

		if (!sse_feed(x->sse, (const char *)p, n, &used, &ev))
			return;
		p += used;
		n -= (uint32_t)used;
		if (ev.kind == SSE_ERROR) {
			x->failed_stream = true;
			if (x->flow.hold && exchange_may_retry(x)) {
				x->want_retry = true;
				x->busy_stream = ev.error_code == 503 ||
						 refusal_of_503(ev.data, ev.data_len) == REFUSAL_BUSY;
				return;
			}
		}
		if (ev.first_token && !x->failed_stream)
			first_token(x);
		/* Comments and pings decide nothing: an engine may ping and then refuse. */
		if (ev.kind == SSE_COMMENT || ev.kind == SSE_PING || ev.kind == SSE_EMPTY)
			continue;
		x->flow.hold = false; /* whatever it is, the client may see it */
		if (x->first_token || ev.kind == SSE_DONE || ev.kind == SSE_ERROR) {
			free(x->sse);
			x->sse = NULL;
		}
	}
}

static void observe(struct flow *f, const uint8_t *p, uint32_t n)
{
	struct exchange *x = container_of(f, struct exchange, flow);

	/* comments alone are life for a while, not for ever */
	if (sse_activity(&x->activity, (const char *)p, n)) {
		x->pings = 0;
		x->events++; /* engines send one chunk a token */
	} else {
		x->pings++;
	}
	if (x->usage)
		usage_tail_feed(x->usage, (const char *)p, n);
	if (x->sse)
		watch_events(x, p, n);
}

/* ---- the head ---- */

static enum flow_form form_of(const struct http_resp *r, const struct http_resp_out *o)
{
	if (r->body == HTTP_BODY_UNTIL_CLOSE && o->body == HTTP_BODY_CHUNKED)
		return FLOW_CHUNK;
	if (r->body == HTTP_BODY_CHUNKED && o->body != HTTP_BODY_CHUNKED)
		return FLOW_PAYLOAD;
	return FLOW_AS_FRAMED;
}

/* The client's head into flow.out. */
static int write_head(struct exchange *x, const char *buf)
{
	struct client *c = x->c;
	const struct http_resp *r = &x->answer->resp;
	char reason[256], text[HEAD_USUAL];
	struct http_extra extra[3] = { { "x-request-id", x->id, strlen(x->id) } };
	struct http_resp_out o = { .extra = extra, .nextra = 1, .date = worker_date(x->w) };
	struct iobuf out = x->flow.out;
	uint64_t sent = x->flow.sent_bytes;
	uint32_t want = r->head_bytes + HEAD_SLACK;
	ssize_t n;

	if (x->fleet->cfg->response_headers) {
		extra[o.nextra++] = (struct http_extra){ "x-kvsteer-backend", x->backend->cfg->name, strlen(x->backend->cfg->name) };
		extra[o.nextra++] = (struct http_extra){ "x-kvsteer-reason", reason, exchange_explain(x, reason, sizeof(reason)) };
	}
	if (!c) {
		flow_init(&x->flow, &x->u->conn, NULL, r->body, r->content_length, FLOW_DISCARD, UINT32_MAX);
		return 0;
	}
	/* an answer before the request's end: the rest of the request is never read */
	if (!x->sent || !x->body_complete)
		c->close_after = true;
	http_resp_plan(&o, r, &x->parse->req, c->close_after || x->w->draining);
	if (o.close)
		c->close_after = true;
	flow_init(&x->flow, &x->u->conn, &c->conn, r->body, r->content_length, form_of(r, &o),
		  (uint32_t)x->fleet->cfg->limits.client_buffer_bytes);
	x->flow.out = out; /* an interim answer may still wait there */
	x->flow.sent_bytes = sent;
	/* By way of the stack: what is kept is then as large as the head. */
	n = http_write_response(text, sizeof(text), r, buf, &o);
	if (n > 0)
		return iobuf_append(&x->flow.out, text, (uint32_t)n, 1u << 20);
	for (; n == -ENOBUFS; want *= 2) {
		if (iobuf_reserve(&x->flow.out, want, 1u << 20))
			return -ENOMEM;
		n = http_write_response((char *)iobuf_tail(&x->flow.out), iobuf_room(&x->flow.out), r, buf, &o);
	}
	if (n < 0)
		return (int)n;
	iobuf_produced(&x->flow.out, (uint32_t)n);
	return 0;
}

/* The head's read has brought the whole answer, and a small one. */
static bool all_here(const struct http_resp *r, uint32_t len)
{
	uint32_t body = len - r->head_bytes;

	return r->body == HTTP_BODY_LENGTH && r->content_length <= body && body <= WHOLE_BYTES;
}

static void head_done(struct exchange *x, const uint8_t *buf, uint32_t len)
{
	struct worker *w = x->w;
	struct http_resp *r = &x->answer->resp;
	struct route_pool *route = x->pool->state->route;
	bool good = r->status < 300;

	w->now_ns = clock_now_ns();
	x->head_ns = w->now_ns;
	x->status = r->status;
	x->upstream_keep = r->keep_alive;
	x->u->uses_left = r->keep_alive_max == UINT32_MAX ? UINT32_MAX : r->keep_alive_max;
	/* A 503's message decides (see answer_ended()); a stream's head says nothing, for engines
	 * send it before they know: its first token does. */
	if (r->status != 503 && !(good && r->event_stream))
		route_node_result(route, x->ticket.node, route_result_of_status(r->status, false), w->now_ns);
	if (write_head(x, (const char *)buf)) {
		exchange_fail(x, REASON_BACKEND_BAD_RESPONSE, "the backend's head could not be passed on");
		return;
	}
	x->phase = EXCHANGE_ANSWERING;
	stat_set(&w->stats->flows_relay, w->stats->flows_relay + 1);
	x->flowing = true;
	exchange_usage_begin(x);
	exchange_splice_plan(x);
	if (x->c && r->status == 503) {
		x->hold_error = x->flow.hold = true;
		exchange_deadline(x, w->now_ns + x->fleet->cfg->timeouts.head_hold_ns);
	} else if (x->c && good && r->event_stream) {
		x->sse = malloc(sizeof(*x->sse));
		if (x->sse)
			sse_init(x->sse, x->family == PROMPT_FAMILY_RESPONSES ? SSE_TOKEN_DELTA : SSE_TOKEN_ANY);
		x->flow.hold = x->sse != NULL;
		x->flow.observe = observe;
		exchange_deadline(x, w->now_ns + x->fleet->cfg->timeouts.head_hold_ns);
	} else {
		x->flow.observe = r->event_stream || x->usage ? observe : NULL;
		x->flow.hold = x->c && all_here(r, len); /* goes out at the end of the turn: see answer_ended() */
		exchange_progress(x);
	}
	exchange_flowed(x, flow_feed(&x->flow, buf + r->head_bytes, len - r->head_bytes));
}

/* One 1xx head at the front of buf. False: the exchange is over. */
static bool interim_done(struct exchange *x, const uint8_t *buf)
{
	struct http_resp *r = &x->answer->resp;

	if (++x->interims > INTERIMS_MAX) {
		exchange_fail(x, REASON_BACKEND_BAD_RESPONSE, "the backend sent too many interim answers");
		return false;
	}
	/* the client got its own 100 (Continue) when it asked for one */
	if (x->c && !x->http10 && r->status != 100) {
		ssize_t n;

		if (iobuf_reserve(&x->flow.out, r->head_bytes + 64, 1u << 18))
			return true;
		n = http_write_interim((char *)iobuf_tail(&x->flow.out), iobuf_room(&x->flow.out), r, (const char *)buf);
		if (n > 0)
			iobuf_produced(&x->flow.out, (uint32_t)n);
		return exchange_flush_interim(x);
	}
	return true;
}

/* Parses buf[0..len), the answer from its first byte. Keeps what is incomplete in u->in. */
static void parse_head(struct exchange *x, const uint8_t *buf, uint32_t len)
{
	struct response_parse *a = x->answer;
	struct upstream *u = x->u;

	for (;;) {
		enum http_result r = http_resp_parse(&a->resp, (const char *)buf, len);
		uint32_t used = a->resp.head_bytes;

		if (r == HTTP_MORE)
			break;
		if (r == HTTP_FAULT) {
			route_node_result(x->pool->state->route, x->ticket.node, ROUTE_RESULT_HTTP_5XX, x->w->now_ns);
			exchange_fail(x, REASON_BACKEND_BAD_RESPONSE, a->resp.fault.message);
			return;
		}
		if (r == HTTP_DONE) {
			struct iobuf in = u->in;

			memset(&u->in, 0, sizeof(u->in)); /* head_done() may close u while buf is in use */
			head_done(x, buf, len);
			iobuf_free(&in);
			return;
		}
		if (!interim_done(x, buf))
			return;
		struct http_limits limits = a->resp.head.limits;

		buf += used;
		len -= used;
		if (u->in.len)
			iobuf_consume(&u->in, used);
		http_resp_init(&a->resp, &limits, a->fields, a->resp.head.fields_cap, x->method);
		if (!len)
			return;
	}
	if (!u->in.len && iobuf_append(&u->in, buf, len, WORKER_SCRATCH_BYTES * 2))
		exchange_fail(x, REASON_BACKEND_BAD_RESPONSE, "the backend's head is too long");
}

static void read_head(struct exchange *x)
{
	struct worker *w = x->w;
	struct upstream *u = x->u;
	ssize_t n = conn_recv(&u->conn, w->scratch, sizeof(w->scratch));

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		exchange_upstream_lost(x);
		return;
	}
	u->got_bytes = true;
	if (!u->in.len) {
		parse_head(x, w->scratch, (uint32_t)n);
	} else if (iobuf_append(&u->in, w->scratch, (uint32_t)n, WORKER_SCRATCH_BYTES * 2)) {
		exchange_fail(x, REASON_BACKEND_BAD_RESPONSE, "the backend's head is too long");
	} else {
		parse_head(x, iobuf_head(&u->in), u->in.len);
	}
}

void exchange_upstream_readable(struct exchange *x)
{
	if (x->phase == EXCHANGE_WAITING)
		read_head(x);
	else
		exchange_pump(x);
}
