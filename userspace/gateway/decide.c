/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From a request to a backend: model, key, policy, slot; the next backend where
 * one failed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/clock.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"

#define BODY_VECTORS 1024 /* 64 KiB each: limits.scan up to 64 MiB */
#define TRIES_MAX 3       /* backends a request may see */
/* Retries are a share of the requests: a fleet that fails as a whole is not asked twice for everything. */
#define RETRY_SHARE 0.2
#define RETRIES_PER_S 5.0 /* and so many whatever the load: at a few requests a second a share is nothing */

/* ---- the request as route/ sees it ---- */

/* The session headers that clients of today send, after the configured ones. */
static const char *const session_headers[] = { "x-session-id", "x-dynamo-session-id", "x-claude-code-session-id" };

static const char *request_header(const void *ctx, const char *name, size_t *len)
{
	const struct exchange *x = ctx;
	const struct http_req *r = &x->parse->req;
	const char *buf = (const char *)iobuf_head(&x->head);
	const struct http_field *f = http_field_named(r->fields, r->nfields, buf, name, strlen(name));

	*len = f ? f->value_len : 0;
	return f ? buf + f->value_off : NULL;
}

static uint64_t header_hash(gateway_header_fn *header, const void *ctx, const char *name)
{
	size_t len;
	const char *v = header(ctx, name, &len);

	return v && len ? prompt_id_hash(v, len) : 0;
}

uint64_t session_key(const struct config_pool *pool, const struct prompt_info *info, gateway_header_fn *header, const void *ctx)
{
	const struct config_strings *own = &pool->session_headers;
	uint64_t h = 0;

	for (unsigned i = 0; i < own->n && !h; i++)
		h = header_hash(header, ctx, own->v[i]);
	for (unsigned i = 0; i < sizeof(session_headers) / sizeof(*session_headers) && !h; i++)
		h = header_hash(header, ctx, session_headers[i]);
	if (!h)
		h = info->session_hash;
	if (!h)
		h = info->cache_key_hash;
	return h;
}

static int build_route_request(struct exchange *x, const struct prompt_info *info)
{
	const struct http_req *r = &x->parse->req;
	const char *buf = (const char *)iobuf_head(&x->head);
	const struct http_field *hint = http_field_first(r->fields, r->nfields, HTTP_F_X_AMZN_PREFIX_AWARE_ID);
	struct prompt_key_params params = { .model = x->names.served };
	struct iovec v[BODY_VECTORS];
	int n = (int)body_all_vectors(&x->body, v, BODY_VECTORS);

	if (hint && hint->value_len) {
		params.hint = buf + hint->value_off;
		params.hint_len = hint->value_len;
	}
	if (x->family != PROMPT_FAMILY_NONE && !(x->family_flags & (PROMPT_FAM_LOAD_ONLY | PROMPT_FAM_OPAQUE)) && x->body.held) {
		if (prompt_key_build(x->scan, &params, v, n, &x->key))
			return -ENOMEM;
		x->route.chain = (struct route_chain){
			.hash = x->key.hash,
			.bytes = x->key.bytes,
			.flags = x->key.flags,
			.nblocks = x->key.nblocks,
			.total_bytes = x->key.total_bytes,
		};
		x->route.class_id = x->key.class_id;
	}
	x->route.first_token_visible = info->stream;
	x->route.adapter = x->names.adapter ? x->names.served : NULL;
	x->route.placement_key = session_key(x->pool->cfg, info, request_header, x);
	if (x->pool->cfg->policy == CONFIG_POLICY_PREFIX_AWARE && x->body.held)
		x->route.prefix_key = prompt_prefix_hash(v, n, x->family, x->pool->cfg->prefix_length, params.hint, params.hint_len);
	x->route.worker = x->w->id;
	return 0;
}
_Static_assert(PROMPT_BLOCK_MESSAGE_START == ROUTE_BLOCK_MESSAGE_START && PROMPT_BLOCK_ASSISTANT == ROUTE_BLOCK_ASSISTANT &&
		       PROMPT_BLOCK_TRAILER == ROUTE_BLOCK_TRAILER,
	       "block flags are the same in both rooms");

/* An alias in the body becomes the name that the engine knows. */
static int rewrite_model(struct exchange *x, const struct prompt_info *info)
{
	size_t len = strlen(x->names.served);
	char *text = malloc(2 * len + 3);
	size_t n = 0;
	int err;

	if (!text)
		return -ENOMEM;
	text[n++] = '"';
	for (size_t i = 0; i < len; i++) {
		if (x->names.served[i] == '"' || x->names.served[i] == '\\')
			text[n++] = '\\';
		text[n++] = x->names.served[i];
	}
	text[n++] = '"';
	err = body_replace(&x->body, &x->w->bodies, info->model_off, info->model_raw_len, text, (uint32_t)n);
	free(text);
	return err;
}

static void refill_retries(struct worker *w)
{
	w->retry_budget += RETRY_SHARE + (double)(w->now_ns - w->retry_refill_ns) * 1e-9 * RETRIES_PER_S;
	w->retry_refill_ns = w->now_ns;
	if (w->retry_budget > WORKER_RETRY_BUDGET)
		w->retry_budget = WORKER_RETRY_BUDGET;
}

void exchange_scan_begin(struct exchange *x, const struct config_pool *pool)
{
	struct prompt_limits limits = { 0 };

	if (pool) {
		limits.volatile_heads = pool->volatile_heads.v;
		limits.n_volatile_heads = pool->volatile_heads.n;
	}
	prompt_scan_begin(x->scan, x->family, &limits);
}

/* The model has named a pool whose keys leave volatile heads out: what is kept of the body once more. */
static void scan_again(struct exchange *x)
{
	struct iovec v[BODY_VECTORS];
	unsigned n = body_all_vectors(&x->body, v, BODY_VECTORS);

	exchange_scan_begin(x, x->pool->cfg);
	for (unsigned i = 0; i < n; i++)
		prompt_scan_feed(x->scan, v[i].iov_base, v[i].iov_len);
	prompt_scan_end(x->scan, !x->body_complete);
}

void exchange_decide(struct exchange *x)
{
	const struct prompt_info *info;

	x->w->now_ns = clock_now_ns();
	x->request_ns = x->w->now_ns;
	refill_retries(x->w);
	prompt_scan_end(x->scan, !x->body_complete);
	info = prompt_scan_info(x->scan);
	if (info->has_model)
		x->model = strdup(info->model);
	x->pool = fleet_pool_for_model(x->fleet, info->has_model ? x->model : NULL, &x->names);
	if (!x->pool) {
		char text[PROMPT_MODEL_MAX + 160];

		if (info->has_model)
			snprintf(text, sizeof(text), "The model `%s` does not exist.", info->model);
		else if (x->streaming)
			snprintf(text, sizeof(text), "No model is named in the body's first %llu bytes (limits.scan), and there is "
				 "no default pool.", (unsigned long long)x->body.held);
		else
			snprintf(text, sizeof(text), "The request names no model and there is no default pool.");
		exchange_fail(x, REASON_MODEL_NOT_FOUND, text);
		return;
	}
	if (x->fleet->npools > 1 && x->pool->cfg->volatile_heads.n)
		scan_again(x);
	if (x->names.alias && x->pool->cfg->rewrite_model && info->has_model && rewrite_model(x, info)) {
		exchange_fail(x, REASON_OVERLOADED, "out of memory");
		return;
	}
	if (build_route_request(x, info)) {
		exchange_fail(x, REASON_OVERLOADED, "out of memory");
		return;
	}
	/* streams show their first token; other answers have twice the time until their head */
	x->wants_stream = info->stream;
	if (x->streaming)
		body_drop_sent(&x->body, &x->w->bodies);
	worker_scan_put(x->w, x->scan);
	x->scan = NULL;
	exchange_assign(x, false);
}

/* ---- assignment ---- */

/* The backend of the plan, from a newer fleet if this one does not have it yet. */
static const struct fleet_backend *plan_backend(struct exchange *x)
{
	const struct fleet_backend *b = fleet_pool_backend(x->pool, x->plan.row);

	if (b)
		return b;
	/* a reload has added it since; its publication waits for the same lock */
	struct fleet *f = gateway_fleet_get(x->w->gw);

	for (unsigned i = 0; i < f->npools; i++)
		if (f->pools[i].state == x->pool->state) {
			struct fleet *old = x->fleet;

			x->pool = &f->pools[i];
			x->fleet = f;
			fleet_rename(f, x->pool, x->model, &x->names);
			x->route.adapter = x->names.adapter ? x->names.served : NULL;
			fleet_put(old);
			return fleet_pool_backend(x->pool, x->plan.row);
		}
	fleet_put(f);
	return NULL;
}

static void exchange_assigned(struct exchange *x)
{
	struct worker *w = x->w;
	struct stats_backend *sb;

	x->assigned = true;
	x->assigned_ns = w->now_ns;
	x->tries++;
	x->backend = plan_backend(x);
	if (!x->backend) {
		exchange_fail(x, REASON_NO_BACKEND, "the chosen backend has just left the configuration");
		return;
	}
	sb = stats_backend_get(w->stats, x->backend->row);
	if (sb) {
		stat_add(&sb->prompt_tokens, x->plan.prompt_tokens);
		stat_add(&sb->cached_predicted, x->plan.match_tokens);
	}
	/* An idle connection may turn out to be dead; what can't be sent twice does not try it. */
	exchange_connect(x, x->streaming);
}

void exchange_assign(struct exchange *x, bool woken)
{
	struct worker *w = x->w;
	struct fleet_pool_state *s = x->pool->state;
	bool may_queue = x->pool->cfg->queue_max_requests > 0;
	uint64_t t0 = clock_now_ns(), seen = __atomic_load_n(&s->releases, __ATOMIC_SEQ_CST);
	int err;

	if (!woken && may_queue && pool_waiting(s)) {
		exchange_enqueue(x); /* nobody overtakes */
		return;
	}
	err = route_assign(s->route, &x->route, t0, &x->ticket, &x->plan);
	w->now_ns = clock_now_ns();
	hist_observe(&w->stats->decision, &hist_bounds_decision, w->now_ns - t0);
	switch (err) {
	case 0:
		if (woken || x->phase == EXCHANGE_QUEUED) {
			struct stats_pool *sp = stats_pool_get(w->stats, s->slot);

			x->queued_ns = w->now_ns - x->request_ns;
			if (sp)
				hist_observe(&sp->queue, &hist_bounds_queue, x->queued_ns);
			pool_wake_next(s); /* there may be room for more than one */
		}
		exchange_assigned(x);
		break;
	case -EAGAIN:
		if (woken)
			exchange_requeue(x, seen);
		else if (may_queue)
			exchange_enqueue(x);
		else
			exchange_fail(x, REASON_QUEUE_FULL, "every backend is at its concurrency threshold");
		break;
	case -EHOSTUNREACH:
		exchange_fail(x, REASON_NO_BACKEND, "no backend of this model can take requests now");
		if (woken) /* nor for those behind it: they need not wait for their time to run out */
			pool_wake_next(s);
		break;
	default:
		exchange_fail(x, REASON_OVERLOADED, "the gateway is at its limit of requests");
		break;
	}
}

/* ---- failover ---- */

bool exchange_may_retry(const struct exchange *x)
{
	return !x->streaming && !x->interim_cut && x->parse && x->assigned && x->tries < TRIES_MAX && x->w->retry_budget >= 1 &&
	       !(x->phase == EXCHANGE_ANSWERING && !x->flow.hold);
}

/* The last backend that was asked, where clients may know its name. */
static void fail_of_backend(struct exchange *x, enum reason reason, const char *message)
{
	char text[BACKEND_NAME_BYTES + 160];

	if (x->backend && x->fleet->cfg->response_headers) {
		snprintf(text, sizeof(text), "%s (backend %s)", message, x->backend->cfg->name);
		message = text;
	}
	exchange_fail(x, reason, message);
}

void exchange_backend_failed(struct exchange *x, enum route_result result, enum reason reason, const char *message)
{
	struct worker *w = x->w;
	struct route_pool *route = x->pool->state->route;
	struct stats_pool *sp = stats_pool_get(w->stats, x->pool->state->slot);
	uint32_t node = x->ticket.node;

	if (x->u) {
		upstream_close(w, x->u);
		x->u = NULL;
	}
	route_node_result(route, node, result, w->now_ns);
	if (!exchange_may_retry(x) || !x->c) {
		fail_of_backend(x, reason, message);
		return;
	}
	w->retry_budget -= 1;
	if (route_retry(route, &x->ticket, w->now_ns, &x->plan)) {
		x->assigned = false; /* the ticket has ended */
		pool_wake(x->pool->state);
		fail_of_backend(x, reason, message);
		return;
	}
	if (sp)
		stat_add(&sp->retries[reason], 1);
	pool_wake(x->pool->state); /* the slot on the failed node is free */
	exchange_reset_answer(x);
	x->fresh_retry = false;
	exchange_assigned(x);
}
