/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/access_log.h"
#include "gateway/internal.h"
#include "gateway/splice.h"
#include "http/write.h"

static void exchange_timer(struct timer *t, uint64_t now_ns);

struct exchange *exchange_new(struct client *c)
{
	struct worker *w = c->w;
	const struct config_limits *limits = &w->fleet->cfg->limits;
	struct exchange *x = calloc(1, sizeof(*x));
	struct http_limits hl = HTTP_LIMITS_DEFAULT;

	if (!x)
		return NULL;
	hl.head_bytes = (uint32_t)limits->head_bytes;
	hl.headers = (uint16_t)limits->headers;
	hl.body_bytes = limits->body_bytes;
	if (hl.line_bytes > hl.head_bytes)
		hl.line_bytes = hl.head_bytes;
	x->parse = worker_parse_get(w, sizeof(*x->parse) + hl.headers * sizeof(struct http_field));
	if (!x->parse) {
		free(x);
		return NULL;
	}
	http_req_init(&x->parse->req, &hl, x->parse->fields, hl.headers);
	x->w = w;
	x->c = c;
	list_init(&x->due);
	x->timer.fn = exchange_timer;
	x->begin_ns = w->now_ns;
	x->ticket.node = ROUTE_NO_NODE;
	flow_init(&x->flow, NULL, &c->conn, HTTP_BODY_NONE, 0, FLOW_AS_FRAMED,
		  (uint32_t)limits->client_buffer_bytes);
	memcpy(x->peer, c->peer, sizeof(x->peer));
	exchange_make_id(x);
	return x;
}

void exchange_deadline(struct exchange *x, uint64_t at_ns)
{
	x->deadline_ns = at_ns;
	if (at_ns && (!timer_armed(&x->timer) || x->timer.at_ns > at_ns))
		timer_arm(&x->w->timers, &x->timer, at_ns);
}

static void exchange_timer(struct timer *t, uint64_t now_ns)
{
	struct exchange *x = container_of(t, struct exchange, timer);

	if (!x->deadline_ns)
		return;
	if (now_ns < x->deadline_ns) {
		timer_arm(&x->w->timers, t, x->deadline_ns);
		return;
	}
	switch (x->phase) {
	case EXCHANGE_QUEUED:
		exchange_queue_timeout(x);
		break;
	case EXCHANGE_CONNECTING:
		exchange_backend_failed(x, ROUTE_RESULT_CONNECT_FAILED, REASON_CONNECT_FAILED,
					"the backend did not accept a connection in time");
		break;
	case EXCHANGE_WAITING:
		route_node_result(x->pool->state->route, x->ticket.node, ROUTE_RESULT_TIMEOUT, now_ns);
		exchange_fail(x, REASON_FIRST_TOKEN_TIMEOUT, "the backend did not begin its answer in time");
		break;
	case EXCHANGE_ANSWERING:
		if (exchange_splice_alive(x, now_ns))
			break;
		if (x->flow.hold) {
			exchange_release_hold(x);
		} else if (!x->first_token && x->sse) {
			route_node_result(x->pool->state->route, x->ticket.node, ROUTE_RESULT_TIMEOUT, now_ns);
			exchange_cut(x, REASON_FIRST_TOKEN_TIMEOUT);
		} else {
			/* a client that takes nothing holds its backend up: its own fault, not the backend's */
			exchange_cut(x, x->flow.out.len || x->hand == SPLICE_HAND_DRAIN ? REASON_CLIENT_GONE : REASON_STREAM_IDLE);
		}
		break;
	case EXCHANGE_DRAINING:
		exchange_cut(x, REASON_CLIENT_GONE);
		break;
	default:
		break;
	}
}

void exchange_fault(struct exchange *x, const struct http_fault *fault)
{
	/* A fault in the head: its bytes are still the client's, and of it the first line alone is sure. */
	if (!x->log_path && !x->head.mem && x->parse->req.path.len) {
		exchange_keep_line(x, (const char *)iobuf_head(&x->c->in));
		if (x->log_path) /* the error has the shape of the API that was asked */
			prompt_family_of(x->log_path, x->log_path_len, &x->family_flags);
	}
	exchange_fail(x, reason_from_name(fault->code), fault->message);
}

void exchange_head_done(struct exchange *x)
{
	struct client *c = x->c;
	const struct http_req *r = &x->parse->req;
	const char *path = http_at((const char *)iobuf_head(&x->head), r->path);

	x->fleet = worker_fleet(x->w);
	fleet_ref(x->fleet);
	exchange_keep_for_log(x);
	if (!r->keep_alive)
		c->close_after = true;
	if (r->asterisk) {
		exchange_reply(x, 200, NULL, "", 0);
		return;
	}
	if (exchange_local(x, path, r->path.len))
		return;
	x->family = prompt_family_of(path, r->path.len, &x->family_flags);
	if (x->family == PROMPT_FAMILY_NONE && !config_path_allowed(x->fleet->cfg, path, r->path.len)) {
		exchange_fail(x, REASON_PATH_NOT_ALLOWED, "this path is not forwarded; see allow_paths in the configuration");
		return;
	}
	if (x->family != PROMPT_FAMILY_NONE)
		x->allow = x->family_flags & PROMPT_FAM_GET ? "GET, HEAD, POST, OPTIONS" : "POST, OPTIONS";
	/* No policy of ours on who may ask from where: without Access-Control fields a browser refuses. */
	if (x->family != PROMPT_FAMILY_NONE && r->method == HTTP_M_OPTIONS) {
		exchange_reply(x, 204, x->family_flags & PROMPT_FAM_GET ? "allow: GET, HEAD, POST, OPTIONS\r\n" : "allow: POST, OPTIONS\r\n",
			       "", 0);
		return;
	}
	if (x->family != PROMPT_FAMILY_NONE && r->method != HTTP_M_POST &&
	    !((x->family_flags & PROMPT_FAM_GET) && (r->method == HTTP_M_GET || r->method == HTTP_M_HEAD))) {
		exchange_fail(x, REASON_METHOD_NOT_ALLOWED, "this path takes POST");
		return;
	}
	x->scan = worker_scan_get(x->w);
	if (!x->scan) {
		exchange_fail(x, REASON_OVERLOADED, "out of memory");
		return;
	}
	exchange_scan_begin(x, x->fleet->npools == 1 ? x->fleet->pools[0].cfg : NULL);
	if (r->expect_continue && !x->body_complete && !c->in.len) {
		if (iobuf_append(&x->flow.out, HTTP_CONTINUE, sizeof(HTTP_CONTINUE) - 1, UINT32_MAX)) {
			exchange_fail(x, REASON_OVERLOADED, "out of memory");
			return;
		}
		if (!exchange_flush_interim(x))
			return;
	}
	if (x->body_complete)
		exchange_body_progress(x);
}

void exchange_body_filled(struct exchange *x, const uint8_t *p, uint32_t n)
{
	x->body_bytes += n;
	stat_add(&x->w->stats->bytes_in, n);
	/* A body beyond limits.scan is decided by its start: the rest is not looked at. */
	if (x->scan && !x->streaming)
		prompt_scan_feed(x->scan, p, n);
}

#define UNSENT_MAX (256u << 10)

void exchange_body_progress(struct exchange *x)
{
	struct client *c = x->c;

	if (x->phase == EXCHANGE_DRAINING || x->phase == EXCHANGE_DONE)
		return;
	if (x->phase == EXCHANGE_REQUEST) {
		bool opaque = x->family == PROMPT_FAMILY_NONE || (x->family_flags & PROMPT_FAM_OPAQUE);

		/* What needs no look is forwarded as it comes, once there is something. */
		if (!x->body_complete && x->body.held < (opaque ? 1 : x->fleet->cfg->limits.scan_bytes))
			return;
		x->streaming = !x->body_complete;
		exchange_decide(x);
		return;
	}
	if (x->u && x->u->state == UPSTREAM_BUSY)
		exchange_send(x);
	else if (x->body.unsent >= UNSENT_MAX && c && c->state == CLIENT_BODY)
		client_want(c, false, c->writing);
}

/* The answer is written into flow.out, the exchange then only waits until it is gone. */
void exchange_drain(struct exchange *x)
{
	struct client *c = x->c;
	enum flow_result r;

	x->phase = EXCHANGE_DRAINING;
	x->flow.hold = false;
	if (!c) {
		exchange_finish(x);
		return;
	}
	r = flow_flush(&x->flow);
	if (r == FLOW_CLIENT_GONE) {
		c->x = NULL;
		exchange_client_gone(x);
		client_close(c, true);
	} else if (r == FLOW_BLOCKED) {
		client_want(c, false, true);
		exchange_deadline(x, x->w->now_ns + x->w->fleet->cfg->timeouts.stream_idle_ns);
	} else if (client_splice_draining(c)) {
		/* Its last bytes are between the sockets: a write would overtake them, a close lose them. */
		exchange_deadline(x, x->w->now_ns + x->w->fleet->cfg->timeouts.stream_idle_ns);
	} else {
		exchange_finish(x);
	}
}

bool exchange_flush_interim(struct exchange *x)
{
	struct client *c = x->c;
	enum flow_result r = flow_flush(&x->flow);

	if (r == FLOW_CLIENT_GONE) {
		c->x = NULL;
		exchange_client_gone(x);
		client_close(c, true);
	} else if (r == FLOW_BLOCKED) { /* behind what the client has not read of the answer before */
		x->interim_cut = true;
		client_want(c, c->reading, true);
	}
	return x->phase != EXCHANGE_DONE;
}

void exchange_flow_over(struct exchange *x)
{
	uint64_t *gauge = x->spliced ? &x->w->stats->flows_splice : &x->w->stats->flows_relay;

	if (x->flowing)
		stat_set(gauge, *gauge - 1);
	x->flowing = x->spliced = x->may_splice = false;
	x->hand = SPLICE_HAND_DAEMON;
}

static enum route_outcome outcome_of(enum reason reason)
{
	switch (reason) {
	case REASON_CLIENT_GONE:
	case REASON_REQUEST_TIMEOUT:
		return ROUTE_END_CLIENT_GONE;
	case REASON_BACKEND_BUSY:
	case REASON_BAD_REQUEST:
	case REASON_BODY_TOO_LARGE:
		return ROUTE_END_REFUSED;
	default:
		return ROUTE_END_BACKEND_FAILED;
	}
}

void exchange_let_go(struct exchange *x, enum reason reason)
{
	if (x->u) {
		upstream_close(x->w, x->u);
		x->u = NULL;
	}
	exchange_release_slot(x, outcome_of(reason));
	if (x->phase == EXCHANGE_QUEUED)
		x->zombie = exchange_leave_queue(x);
	exchange_deadline(x, 0);
}

void exchange_cut(struct exchange *x, enum reason reason)
{
	struct client *c = x->c;
	/* Where only the close ends the body, FIN would look like its end (RFC 9112 6.3). */
	bool reset = !c || x->flow.form == FLOW_PAYLOAD || x->flow.framing.state == HTTP_FS_UNTIL_CLOSE ||
		     x->flow.out.len || x->phase == EXCHANGE_DRAINING;

	x->reason = reason;
	exchange_let_go(x, reason);
	if (c) {
		c->x = NULL;
		/* a close would throw away what is between the sockets, and look orderly */
		client_close(c, reset || (c->splice.w && !splice_client_drained(&c->splice)));
	}
	x->c = NULL;
	exchange_finish(x);
}

void exchange_client_gone(struct exchange *x)
{
	bool read_on = x->pool && x->pool->cfg->on_abort == CONFIG_ON_ABORT_DRAIN && x->sent &&
		       (x->phase == EXCHANGE_WAITING || x->phase == EXCHANGE_ANSWERING);

	exchange_splice_back(x);
	x->c = NULL;
	if (x->phase == EXCHANGE_REQUEST && !http_req_started(&x->parse->req)) {
		x->reason = REASON_NONE; /* an idle connection ended: no request was lost, nothing to log */
		x->phase = EXCHANGE_DONE;
	} else if (!x->reason) {
		x->reason = REASON_CLIENT_GONE;
	}
	if (read_on) {
		x->flow.form = FLOW_DISCARD;
		x->flow.hold = x->hold_error = false;
		iobuf_free(&x->flow.out);
		if (x->u && x->u->state == UPSTREAM_BUSY)
			io_want(x->w, &x->u->io, EPOLLIN | EPOLLRDHUP);
		/* the kernel had just moved the last of it */
		if (x->phase == EXCHANGE_ANSWERING && x->spliced && x->flow.framing.state == HTTP_FS_END)
			exchange_flowed(x, FLOW_END);
		return;
	}
	exchange_let_go(x, REASON_CLIENT_GONE);
	exchange_finish(x);
}

void exchange_client_writable(struct exchange *x)
{
	struct client *c = x->c;
	uint64_t before = x->flow.sent_bytes;
	enum flow_result r;

	if (x->phase == EXCHANGE_DRAINING) {
		exchange_drain(x);
		return;
	}
	r = flow_flush(&x->flow);
	if (r == FLOW_CLIENT_GONE) {
		c->x = NULL;
		exchange_client_gone(x);
		client_close(c, true);
		return;
	}
	if (r == FLOW_MORE)
		client_want(c, c->reading, false);
	if (!x->flow.out.len)
		x->interim_cut = false;
	/* a slow client is not an idle one */
	if (x->phase == EXCHANGE_ANSWERING && x->flow.sent_bytes != before)
		exchange_progress(x);
	if (r == FLOW_MORE && x->phase == EXCHANGE_ANSWERING)
		exchange_offer(x);
	if (x->u && x->u->state == UPSTREAM_BUSY)
		io_want(x->w, &x->u->io, (x->u->io.events & EPOLLOUT) | exchange_upstream_events(x));
}

void exchange_commit_answer(struct exchange *x)
{
	body_free(&x->body, &x->w->bodies);
	iobuf_free(&x->head);
	iobuf_free(&x->out_head);
	worker_parse_put(x->w, x->parse);
	x->parse = NULL;
	worker_scan_put(x->w, x->scan);
	x->scan = NULL;
}

void exchange_release_slot(struct exchange *x, enum route_outcome outcome)
{
	if (!x->assigned)
		return;
	x->assigned = false;
	route_end(x->pool->state->route, &x->ticket, x->w->now_ns, outcome, x->events);
	pool_wake(x->pool->state);
}

void exchange_free(struct exchange *x)
{
	if (x->fleet)
		fleet_put(x->fleet);
	worker_bury(x->w, x);
}

void exchange_finish(struct exchange *x)
{
	struct client *c = x->c;

	if (x->phase != EXCHANGE_DONE) {
		x->w->now_ns = clock_now_ns();
		exchange_account(x);
	}
	x->phase = EXCHANGE_DONE;
	x->c = NULL;
	timer_cancel(&x->w->timers, &x->timer);
	list_del(&x->due);
	exchange_flow_over(x);
	exchange_commit_answer(x);
	prompt_key_free(&x->key);
	flow_free(&x->flow);
	worker_parse_put(x->w, x->answer);
	free(x->sse);
	free(x->usage);
	free(x->log_path);
	free(x->model);
	x->answer = NULL;
	x->sse = NULL;
	x->usage = NULL;
	x->log_path = x->model = NULL;
	if (!x->zombie)
		exchange_free(x);
	if (c)
		client_answered(c);
}
