/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The rest of an answer: its body on the way to the client, back-pressure, its end. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"
#include "gateway/splice.h"
#include "signals/refusal.h"

#define PINGS_MAX 10              /* comments in a row that count as life */
#define REFUSAL_BYTES (16u << 10) /* of a 503 held for a look at its message */
#define PUMPS_PER_TURN 4

uint32_t exchange_upstream_events(const struct exchange *x)
{
	if (x->hand != SPLICE_HAND_DAEMON)
		return x->hand == SPLICE_HAND_KERNEL ? EPOLLRDHUP : 0;
	return x->flowing && x->flow.out.len >= x->flow.out_limit ? 0 : EPOLLIN | EPOLLRDHUP;
}

void exchange_pump(struct exchange *x)
{
	struct worker *w = x->w;

	for (unsigned i = 0; i < PUMPS_PER_TURN && x->phase == EXCHANGE_ANSWERING && exchange_upstream_events(x) & EPOLLIN; i++) {
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

void exchange_progress(struct exchange *x)
{
	const struct config_timeouts *t = &x->fleet->cfg->timeouts;

	if (!x->first_token && x->sse) /* the head is out, the first token is still due */
		exchange_deadline(x, (x->sent ? x->sent_ns : x->w->now_ns) + t->first_token_ns);
	else if (x->pings <= PINGS_MAX)
		exchange_deadline(x, x->w->now_ns + t->stream_idle_ns);
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
	free(x->usage);
	x->sse = NULL;
	x->usage = NULL;
	x->want_retry = x->hold_error = x->failed_stream = x->busy_stream = false;
	x->events = x->pings = 0;
	x->begun = false;
	x->pings = 0;
	memset(&x->activity, 0, sizeof(x->activity));
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
	enum route_result result = why == REFUSAL_BUSY    ? ROUTE_RESULT_BUSY :
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

	if (x->hold_error && refused_elsewhere(x))
		return;
	x->flow.hold = false;
	exchange_splice_back(x);
	exchange_flow_over(x);
	w->now_ns = clock_now_ns();
	upstream_put(w, x->u, keep_ns(x));
	x->u = NULL;
	exchange_usage_end(x);
	exchange_release_slot(x, outcome_of(x));
	exchange_commit_answer(x);
	if (x->c) {
		x->c->state = CLIENT_ANSWER;
		client_deadline(x->c, 0);
	}
	if (x->begun || !x->c) {
		exchange_drain(x);
		return;
	}
	x->phase = EXCHANGE_DRAINING;
	worker_send_soon(w, x);
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

void exchange_flowed(struct exchange *x, enum flow_result r)
{
	struct worker *w = x->w;
	struct client *c = x->c;

	if (x->want_retry) {
		exchange_backend_failed(x, x->busy_stream ? ROUTE_RESULT_BUSY : ROUTE_RESULT_HTTP_5XX, REASON_BACKEND_BUSY,
					"every backend that was asked failed at once");
		return;
	}
	/* too much to hold: it goes out as it is */
	if (x->flow.hold && r <= FLOW_BLOCKED && x->flow.out.len >= (x->hold_error ? REFUSAL_BYTES : x->flow.out_limit)) {
		x->flow.hold = x->hold_error = false;
	}
	if (r <= FLOW_BLOCKED && !x->flow.hold && !x->begun) {
		x->begun = true;
		r = flow_flush(&x->flow);
		hist_observe(&w->stats->added_response, &hist_bounds_added, clock_now_ns() - w->now_ns);
	}
	/* Not before the request is out: what an early answer leaves unsent must not be
	 * forgotten, or the connection would look as if it were free for another request. */
	if (r <= FLOW_BLOCKED && x->begun && x->sent && x->parse)
		exchange_commit_answer(x);
	switch (r) {
	case FLOW_MORE:
	case FLOW_BLOCKED:
		if (r == FLOW_MORE && x->flow.hold)
			return;
		if (r == FLOW_MORE)
			exchange_offer(x);
		/* A full buffer lets the backend wait: no interest but the errors that epoll always reports. */
		io_want(w, &x->u->io, (x->u->io.events & EPOLLOUT) | exchange_upstream_events(x));
		if (c)
			client_want(c, c->reading, x->flow.out.len && !x->flow.hold);
		exchange_progress(x);
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
		/* read on for nobody, and it is all here already */
		if (x->phase == EXCHANGE_ANSWERING && x->flow.framing.state == HTTP_FS_END)
			answer_ended(x);
		return;
	case FLOW_NO_MEMORY:
		exchange_cut(x, REASON_OVERLOADED);
		return;
	}
}
