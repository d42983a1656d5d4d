/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The answer on its way to the client: head, held start of a stream, body, end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"
#include "http/write.h"
#include "signals/refusal.h"

#define HEAD_SLACK 1024
#define INTERIMS_MAX 8             /* 1xx answers to one request */
#define PINGS_MAX 10               /* comments in a row that count as life */
#define REFUSAL_BYTES (16u << 10)  /* of a 503 held for a look at its message */
#define PUMPS_PER_TURN 4

static void exchange_flowed(struct exchange *x, enum flow_result r);

static uint64_t idle_deadline(const struct exchange *x)
{
	return x->w->now_ns + x->fleet->cfg->timeouts.stream_idle_ns;
}

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
	if (sse_activity(&x->activity, (const char *)p, n))
		x->pings = 0;
	else
		x->pings++;
	if (x->sse)
		watch_events(x, p, n);
}

/* ---- the head ---- */

static int reason_text(const struct exchange *x, char *buf, size_t cap)
{
	const struct route_plan *p = &x->plan;
	int n = snprintf(buf, cap, "policy=%s match=%u of=%u wait_ms=%.1f ttft_ms=%.1f", config_policy_name(x->pool->cfg->policy),
			 p->match_tokens, p->prompt_tokens, p->wait_ms, p->ttft_ms);

	if (x->queued_ns)
		n += snprintf(buf + n, cap - (size_t)n, " queued_ms=%.1f", (double)x->queued_ns * 1e-6);
	if (p->overflow)
		n += snprintf(buf + n, cap - (size_t)n, " overflow=1");
	if (x->tries > 1)
		n += snprintf(buf + n, cap - (size_t)n, " retry=1");
	return n;
}

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
	char reason[256], date[HTTP_DATE_MAX];
	struct http_extra extra[3] = { { "x-request-id", x->id, strlen(x->id) } };
	struct http_resp_out o = { .extra = extra, .nextra = 1, .date = date };
	struct iobuf out = x->flow.out;
	uint64_t sent = x->flow.sent_bytes;
	uint32_t want = r->head_bytes + HEAD_SLACK;
	ssize_t n;

	http_format_date(date, (int64_t)(clock_wall_ns() / NSEC_PER_SEC));
	if (x->fleet->cfg->response_headers) {
		extra[o.nextra++] = (struct http_extra){ "x-kvsteer-backend", x->backend->cfg->name, strlen(x->backend->cfg->name) };
		extra[o.nextra++] = (struct http_extra){ "x-kvsteer-reason", reason, (size_t)reason_text(x, reason, sizeof(reason)) };
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
	for (;; want *= 2) {
		if (iobuf_reserve(&x->flow.out, want, 1u << 20))
			return -ENOMEM;
		n = http_write_response((char *)iobuf_tail(&x->flow.out), iobuf_room(&x->flow.out), r, buf, &o);
		if (n != -ENOBUFS)
			break;
	}
	if (n < 0)
		return (int)n;
	iobuf_produced(&x->flow.out, (uint32_t)n);
	return 0;
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
	if (r->status != 503) /* its message decides: see answer_ended() */
		route_node_result(route, x->ticket.node, route_result_of_status(r->status, false), w->now_ns);
	if (write_head(x, (const char *)buf)) {
		exchange_fail(x, REASON_BACKEND_BAD_RESPONSE, "the backend's head could not be passed on");
		return;
	}
	x->phase = EXCHANGE_ANSWERING;
	stat_set(&w->stats->flows_relay, w->stats->flows_relay + 1);
	x->flowing = true;
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
		x->flow.observe = r->event_stream ? observe : NULL;
		exchange_deadline(x, idle_deadline(x));
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
		flow_flush(&x->flow); /* what does not go out now goes before the head */
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

/* ---- the body ---- */

void exchange_upstream_readable(struct exchange *x)
{
	struct worker *w = x->w;

	if (x->phase == EXCHANGE_WAITING) {
		read_head(x);
		return;
	}
	for (unsigned i = 0; i < PUMPS_PER_TURN && x->phase == EXCHANGE_ANSWERING; i++) {
		ssize_t n = conn_recv(&x->u->conn, w->scratch, sizeof(w->scratch));

		if (n == -EAGAIN)
			return;
		if (n <= 0)
			exchange_flowed(x, flow_eof(&x->flow, n < 0));
		else
			exchange_flowed(x, flow_feed(&x->flow, w->scratch, (uint32_t)n));
		if (n < (ssize_t)sizeof(w->scratch))
			return;
	}
}

void exchange_upstream_lost(struct exchange *x)
{
	if (x->phase == EXCHANGE_ANSWERING) {
		exchange_flowed(x, flow_eof(&x->flow, true));
		return;
	}
	if (x->u->reused && !x->u->got_bytes && !x->streaming && !x->fresh_retry && x->parse) {
		/* an idle connection that the backend had closed: says nothing about it (RFC 9112 9.3.1) */
		x->fresh_retry = true;
		upstream_close(x->w, x->u);
		x->u = NULL;
		exchange_connect(x, true);
		return;
	}
	exchange_backend_failed(x, ROUTE_RESULT_RESET, REASON_BACKEND_RESET,
				"the backend closed the connection before it answered");
}

void exchange_reset_answer(struct exchange *x)
{
	exchange_flow_over(x);
	iobuf_free(&x->flow.out);
	x->flow.hold = false;
	free(x->sse);
	x->sse = NULL;
	x->want_retry = x->hold_error = x->failed_stream = x->busy_stream = false;
	x->status = 0;
	x->head_ns = 0;
}

void exchange_release_hold(struct exchange *x)
{
	x->flow.hold = x->hold_error = false;
	exchange_flowed(x, FLOW_MORE);
}

/* A complete 503, held back: what did the engine mean? */
static bool refused_elsewhere(struct exchange *x)
{
	const struct iobuf *out = &x->flow.out;
	enum refusal why = refusal_of_503((const char *)iobuf_head(out), out->len);
	enum route_result result = why == REFUSAL_BUSY    ? ROUTE_RESULT_NEUTRAL :
				   why == REFUSAL_LOADING ? ROUTE_RESULT_CONNECT_FAILED :
							    ROUTE_RESULT_HTTP_5XX;

	bool retry = exchange_may_retry(x);

	if (x->c && retry) {
		exchange_backend_failed(x, result, REASON_BACKEND_BUSY, "every backend that was asked is busy");
		return true;
	}
	x->hold_error = x->flow.hold = false;
	route_node_result(x->pool->state->route, x->ticket.node, result, x->w->now_ns);
	x->reason = REASON_BACKEND_BUSY;
	return false;
}

static enum route_outcome outcome_of(const struct exchange *x)
{
	if (x->failed_stream)
		return x->busy_stream ? ROUTE_END_REFUSED : ROUTE_END_BACKEND_FAILED;
	if (x->status < 300)
		return ROUTE_END_OK;
	return x->status < 500 || x->status == 501 || x->status == 503 ? ROUTE_END_REFUSED : ROUTE_END_BACKEND_FAILED;
}

/* How long the connection may wait for its next request, 0: not at all. */
static uint64_t keep_ns(const struct exchange *x)
{
	uint64_t idle = x->fleet->cfg->timeouts.upstream_idle_ns;
	uint32_t hint_s = x->answer->resp.keep_alive_timeout_s;

	if (!x->upstream_keep || !x->sent || x->flow.surplus)
		return 0;
	/* a second less than the engine says: its clock started before ours */
	if (hint_s && (hint_s - 1) * NSEC_PER_SEC < idle)
		idle = (hint_s - 1) * NSEC_PER_SEC;
	return idle;
}

static void answer_ended(struct exchange *x)
{
	struct worker *w = x->w;
	bool whole = x->parse != NULL; /* nothing of it has gone out yet */
	uint64_t t0 = w->now_ns;

	if (x->hold_error && refused_elsewhere(x))
		return;
	x->flow.hold = false;
	exchange_flow_over(x);
	w->now_ns = clock_now_ns();
	upstream_put(w, x->u, keep_ns(x));
	x->u = NULL;
	exchange_release_slot(x, outcome_of(x));
	exchange_commit_answer(x);
	if (x->c) {
		x->c->state = CLIENT_ANSWER;
		client_deadline(x->c, 0);
	}
	exchange_drain(x);
	if (whole)
		hist_observe(&w->stats->added_response, &hist_bounds_added, clock_now_ns() - t0);
}

/* The backend ended inside its answer. */
static void answer_broken(struct exchange *x, bool malformed)
{
	enum reason reason = malformed ? REASON_BACKEND_BAD_RESPONSE : REASON_BACKEND_RESET;

	if (x->flow.hold && x->c) {
		if (exchange_may_retry(x) || !malformed) {
			exchange_backend_failed(x, ROUTE_RESULT_RESET, reason, "the backend broke off before the answer began");
		} else {
			exchange_fail(x, reason, "the backend's answer is malformed");
		}
		return;
	}
	route_node_result(x->pool->state->route, x->ticket.node, ROUTE_RESULT_RESET, x->w->now_ns);
	flow_flush(&x->flow);
	exchange_cut(x, malformed ? REASON_BACKEND_BAD_RESPONSE : REASON_STREAM_CUT);
}

static void exchange_flowed(struct exchange *x, enum flow_result r)
{
	struct worker *w = x->w;
	struct client *c = x->c;

	if (x->want_retry) {
		exchange_backend_failed(x, x->busy_stream ? ROUTE_RESULT_NEUTRAL : ROUTE_RESULT_HTTP_5XX, REASON_BACKEND_BUSY,
					"every backend that was asked failed at once");
		return;
	}
	/* too much to hold: it goes out as it is */
	if (x->flow.hold && r <= FLOW_BLOCKED && x->flow.out.len >= (x->hold_error ? REFUSAL_BYTES : x->flow.out_limit)) {
		x->flow.hold = x->hold_error = false;
	}
	if (r <= FLOW_BLOCKED && !x->flow.hold && x->parse) { /* the answer begins */
		r = flow_flush(&x->flow);
		hist_observe(&w->stats->added_response, &hist_bounds_added, clock_now_ns() - w->now_ns);
		if (r != FLOW_CLIENT_GONE && x->body_complete)
			exchange_commit_answer(x);
	}
	switch (r) {
	case FLOW_MORE:
		if (x->flow.hold)
			return;
		if (!x->first_token && x->sse) /* the head is out, the first token is still due */
			exchange_deadline(x, x->sent_ns + x->fleet->cfg->timeouts.first_token_ns);
		else if (x->pings <= PINGS_MAX)
			x->deadline_ns = idle_deadline(x);
		if (c && c->writing && !x->flow.out.len)
			client_want(c, c->reading, false);
		else if (c && x->flow.out.len && !c->writing)
			client_want(c, c->reading, true);
		return;
	case FLOW_BLOCKED:
		/* The backend waits with us: no interest but the errors that epoll always reports. */
		if (x->flow.out.len >= x->flow.out_limit)
			io_want(w, &x->u->io, x->u->io.events & EPOLLOUT);
		if (c)
			client_want(c, c->reading, true);
		return;
	case FLOW_END:
		answer_ended(x);
		return;
	case FLOW_CUT:
	case FLOW_MALFORMED:
		answer_broken(x, r == FLOW_MALFORMED);
		return;
	case FLOW_CLIENT_GONE:
		c->x = NULL;
		exchange_client_gone(x);
		client_close(c, true);
		return;
	case FLOW_NO_MEMORY:
		exchange_cut(x, REASON_OVERLOADED);
		return;
	}
}
