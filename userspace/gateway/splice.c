/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/splice.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/internal.h"

#define WORTH_BYTES (1u << 20) /* of an answer that is no stream: what fits the client's socket is soon relayed */
#define COMMENTS_MAX 10         /* in a row that count as life */
#define SPARE_FLOWS 1024        /* idle backend connections beside those of clients */

/* ---- start and end ---- */

static const struct splice_worker_ops splice_ops;

static void ring_event(struct worker *w, struct io *io, uint32_t events)
{
	/* read at the begin of each turn already */
}

static void drain_timer(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, drain_timer);

	if (splice_worker_drains(w->splice))
		timer_arm(&w->timers, t, now_ns + SPLICE_DRAIN_POLL_MS * NSEC_PER_MSEC);
}

static int worker_splice_open(struct worker *w)
{
	int err = splice_worker_open(w->gw->splice, w->id, &splice_ops, w, &w->splice), fd;

	if (err)
		return err;
	w->drain_timer.fn = drain_timer;
	/* the ring's own descriptor ends with the ring */
	fd = fcntl(splice_worker_fd(w->splice), F_DUPFD_CLOEXEC, 0);
	w->splice_io = (struct io){ .fd = fd, .on_event = ring_event };
	if (fd < 0 || io_add(w, &w->splice_io, EPOLLIN)) {
		if (fd >= 0)
			close(fd);
		w->splice_io.fd = -1;
		worker_splice_close(w);
		return -ENOMEM;
	}
	return 0;
}

void worker_splice_close(struct worker *w)
{
	if (!w->splice)
		return;
	if (w->splice_io.fd >= 0)
		io_close(w, &w->splice_io);
	splice_worker_close(w->splice);
	w->splice = NULL;
}

static int open_and_test(struct gateway *gw, const struct config *cfg, char *why, size_t len)
{
	struct splice_opts o = {
		.pin_dir = cfg->bpf.pin,
		.instance = cfg->bpf.instance,
		.max_clients = (uint32_t)gw->max_connections,
		.max_flows = (uint32_t)gw->max_connections + SPARE_FLOWS,
		.workers = gw->n_workers,
	};
	int err = splice_open(&gw->splice, &o, why, len);
	char test[240];

	if (err)
		return err;
	if (*why)
		log_warn("splice_pin", "reason=\"%s\"", why);
	err = splice_selftest(gw->splice, test, sizeof(test));
	if (err)
		snprintf(why, len, "the self-test failed: %s", test);
	for (unsigned i = 0; i < gw->n_workers && !err; i++) {
		err = worker_splice_open(gw->workers[i]);
		if (err)
			snprintf(why, len, "worker %u has no ring: %s", i, strerror(-err));
	}
	return err;
}

int gateway_splice_open(struct gateway *gw, const struct config *cfg, char *err, size_t err_len)
{
	int rc;

	/* The kernel path is asked for by name until a supervisor keeps its streams over a crash. */
	if (cfg->datapath != CONFIG_DATAPATH_SPLICE) {
		snprintf(gw->splice_why, sizeof(gw->splice_why), "configured");
		return 0;
	}
	rc = open_and_test(gw, cfg, gw->splice_why, sizeof(gw->splice_why));
	if (!rc)
		return 0;
	for (unsigned i = 0; i < gw->n_workers; i++)
		worker_splice_close(gw->workers[i]);
	splice_close(gw->splice);
	gw->splice = NULL;
	snprintf(err, err_len, "datapath: splice is not possible here: %s", gw->splice_why);
	return rc;
}

void worker_splice_events(struct worker *w)
{
	if (w->splice)
		splice_worker_events(w->splice);
}

void worker_splice_reap(struct worker *w)
{
	if (w->splice)
		splice_worker_reap(w->splice);
}

void worker_splice_tick(struct worker *w)
{
	if (!w->splice || w->now_ns < w->sweep_ns)
		return;
	w->sweep_ns = w->now_ns + SPLICE_SWEEP_MS * NSEC_PER_MSEC;
	splice_worker_sweep(w->splice);
}

/* ---- connections ---- */

void upstream_splice(struct upstream *u, struct worker *w)
{
	const struct sockaddr_in6 *v6 = (const void *)&u->addr;
	const struct sockaddr_in *v4 = (const void *)&u->addr;
	char ip[INET6_ADDRSTRLEN], name[INET6_ADDRSTRLEN + 10];

	if (!w->splice || !u->conn.ops->plain)
		return;
	if (u->addr.ss_family == AF_INET6)
		snprintf(name, sizeof(name), "[%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof(ip)), ntohs(v6->sin6_port));
	else
		snprintf(name, sizeof(name), "%s:%u", inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof(ip)), ntohs(v4->sin_port));
	u->splice_err = splice_backend_add(w->splice, &u->splice, u->io.fd, name);
	if (!u->splice_err)
		u->conn = (struct conn){ .fd = u->io.fd, .ops = &conn_ops_splice_backend, .priv = &u->splice };
}

static void await(struct client *c)
{
	struct worker *w = c->w;

	splice_client_await(&c->splice);
	if (!timer_armed(&w->drain_timer))
		timer_arm(&w->timers, &w->drain_timer, w->now_ns + SPLICE_DRAIN_POLL_MS * NSEC_PER_MSEC);
}

bool client_splice_draining(struct client *c)
{
	if (!c->splice.w || splice_client_drained(&c->splice))
		return false;
	await(c);
	return true;
}

bool worker_splice_drains(struct worker *w, struct client *c)
{
	if (!c->splice.draining)
		return false;
	splice_worker_drains(w->splice);
	return !c->splice.draining;
}

/* ---- answers ---- */

static void fall_back(struct exchange *x, enum stats_fallback why)
{
	stat_add(&x->w->stats->fallback[why], 1);
	x->may_splice = false;
}

void exchange_splice_plan(struct exchange *x)
{
	const struct http_resp *r = &x->answer->resp;
	struct client *c = x->c;

	x->may_splice = c && (r->event_stream || r->body == HTTP_BODY_CHUNKED || r->body == HTTP_BODY_UNTIL_CLOSE ||
			      (r->body == HTTP_BODY_LENGTH && r->content_length >= WORTH_BYTES));
	if (!x->may_splice)
		return;
	if (x->usage)
		fall_back(x, FALLBACK_USAGE);
	else if (!x->w->splice)
		fall_back(x, x->fleet->cfg->datapath != CONFIG_DATAPATH_SPLICE ? FALLBACK_CONFIGURED : FALLBACK_UNAVAILABLE);
	else if (x->flow.form == FLOW_PAYLOAD)
		fall_back(x, FALLBACK_HTTP10);
	else if (r->body == HTTP_BODY_UNTIL_CLOSE)
		fall_back(x, FALLBACK_CLOSE_DELIMITED);
	else if (!c->conn.ops->plain || !x->u->conn.ops->plain)
		fall_back(x, FALLBACK_TLS);
	else if (!x->u->splice.w)
		fall_back(x, x->u->splice_err == -ENOSPC ? FALLBACK_TABLE_FULL : FALLBACK_INSERT_REFUSED);
}

/* What is over soon is over before the hand-over pays. */
static bool worth_it(const struct exchange *x)
{
	const struct http_framing *f = &x->flow.framing;

	if (x->spliced)
		return true;
	if (x->answer->resp.event_stream)
		return x->first_token && !x->sse && !x->failed_stream;
	return f->state == HTTP_FS_LENGTH ? f->left >= WORTH_BYTES : f->payload_bytes >= WORTH_BYTES;
}

/* Events that the kernel moved since the last look: about the stream's tokens. */
static void count_events(struct exchange *x)
{
	uint64_t events = __atomic_load_n(&x->u->splice.rec->events, __ATOMIC_RELAXED);

	x->events += (uint32_t)(events - x->kernel_events);
	x->kernel_events = events;
}

static void in_hand(struct exchange *x, enum splice_hand hand)
{
	x->hand = hand;
	if (hand == SPLICE_HAND_DRAIN)
		await(x->c);
}

void exchange_offer(struct exchange *x)
{
	struct worker *w = x->w;
	struct client *c = x->c;

	if (!x->may_splice || x->hand != SPLICE_HAND_DAEMON || !c || !x->u || !x->begun || !x->sent || x->flow.hold ||
	    x->flow.out.len || x->flow.framing.state == HTTP_FS_END || !worth_it(x))
		return;
	if (!c->splice.w) {
		int err = splice_client_add(w->splice, &c->splice, c->io.fd);

		if (err) {
			fall_back(x, err == -ENOSPC ? FALLBACK_TABLE_FULL : FALLBACK_INSERT_REFUSED);
			return;
		}
		c->conn = (struct conn){ .fd = c->io.fd, .ops = &conn_ops_splice_client, .priv = &c->splice };
	}
	if (!x->spliced) {
		x->spliced = true;
		x->kernel_events = x->u->splice.rec->events;
		stat_set(&w->stats->flows_relay, w->stats->flows_relay - 1);
		stat_set(&w->stats->flows_splice, w->stats->flows_splice + 1);
	}
	in_hand(x, splice_offer(&x->u->splice, &c->splice, &x->flow, SPLICE_LIMIT_DEFAULT));
}

void exchange_splice_back(struct exchange *x)
{
	struct splice_backend *b = x->u ? &x->u->splice : NULL;

	x->may_splice = false;
	if (!b || !b->w || !b->armed)
		return;
	if (b->kernel)
		count_events(x);
	x->flow.sent_bytes += splice_cancel(b, &x->flow.framing);
	x->hand = SPLICE_HAND_DAEMON;
	if (!splice_backend_clean(b) && x->flow.framing.state == HTTP_FS_END)
		x->flow.surplus = 1;
}

static void on_end(struct splice_backend *b, void *arg)
{
	struct exchange *x = container_of(b, struct upstream, splice)->x;

	exchange_splice_back(x);
	exchange_flowed(x, FLOW_END);
}

void client_splice_settle(struct client *c)
{
	struct exchange *x = c->x;

	if (!c->splice.w || !x)
		return;
	/* the END may be in the ring still: this turn looked before it came */
	if (x->hand == SPLICE_HAND_KERNEL && splice_backend_ended(&x->u->splice))
		on_end(&x->u->splice, c->w);
	x = c->x;
	if (x && x->phase == EXCHANGE_DRAINING && !x->flow.out.len && splice_client_complete(&c->splice))
		exchange_drain(x);
}

static void on_takeover(struct splice_backend *b, unsigned reason, void *arg)
{
	struct upstream *u = container_of(b, struct upstream, splice);
	struct exchange *x = u->x;

	count_events(x);
	in_hand(x, splice_retake(b, &x->flow));
	exchange_progress(x);
	io_want(x->w, &u->io, exchange_upstream_events(x));
}

static void on_drained(struct splice_client *s, void *arg)
{
	struct client *c = container_of(s, struct client, splice);
	struct exchange *x = c->x;

	if (!x)
		return;
	if (x->phase == EXCHANGE_DRAINING) {
		exchange_drain(x);
	} else if (x->hand == SPLICE_HAND_DRAIN) {
		x->hand = SPLICE_HAND_DAEMON;
		exchange_progress(x);
		if (x->u)
			io_want(x->w, &x->u->io, exchange_upstream_events(x));
	}
}

static const struct splice_worker_ops splice_ops = {
	.end = on_end,
	.takeover = on_takeover,
	.drained = on_drained,
};

void exchange_splice_fin(struct exchange *x)
{
	struct upstream *u = x->u;

	/* what came with the FIN may have ended the body, or been passed */
	if (splice_backend_ended(&u->splice)) {
		on_end(&u->splice, x->w);
		return;
	}
	exchange_splice_back(x);
	if (x->flow.framing.state == HTTP_FS_END) {
		exchange_flowed(x, FLOW_END);
		return;
	}
	in_hand(x, splice_client_drained(&x->c->splice) ? SPLICE_HAND_DAEMON : SPLICE_HAND_DRAIN);
	io_want(x->w, &u->io, exchange_upstream_events(x));
}

bool exchange_splice_alive(struct exchange *x, uint64_t now_ns)
{
	uint64_t idle_ns = x->fleet->cfg->timeouts.stream_idle_ns, last_ns;
	const struct splice_flow *r;

	if (x->hand != SPLICE_HAND_KERNEL)
		return false;
	r = x->u->splice.rec;
	last_ns = r->comments <= COMMENTS_MAX ? r->last_ns : r->payload_ns;
	if (last_ns + idle_ns <= now_ns)
		return false;
	exchange_deadline(x, last_ns + idle_ns);
	return true;
}
