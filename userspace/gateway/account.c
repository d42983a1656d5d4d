/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is said of a request: its id, its line in the access log, its counters. */
#include <stdlib.h>

#include "gateway/access_log.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"
#include "http/write.h"

static char *put_hex(char *to, uint64_t v, unsigned digits)
{
	while (digits--)
		*to++ = "0123456789abcdef"[v >> 4 * digits & 15];
	return to;
}

/* Start of the process, worker, number. */
void exchange_make_id(struct exchange *x)
{
	struct worker *w = x->w;
	char *p = put_hex(x->id, w->gw->id_seed, 8);

	*p++ = '-';
	p = put_hex(p, w->id, 2);
	*p++ = '-';
	p = put_hex(p, ++w->request_seq, 10);
	*p = 0;
}

void exchange_keep_line(struct exchange *x, const char *buf)
{
	const struct http_req *r = &x->parse->req;

	x->method = (enum http_method)r->method;
	x->http10 = r->version_minor == 0;
	x->head_only = r->method == HTTP_M_HEAD;
	x->log_path_len = r->path.len > 256 ? 256 : r->path.len;
	x->log_path = malloc(x->log_path_len + 1);
	if (x->log_path) {
		memcpy(x->log_path, http_at(buf, r->path), x->log_path_len);
		x->log_path[x->log_path_len] = 0;
	}
}

/* Sets what the log and the answers need of the head. */
void exchange_keep_for_log(struct exchange *x)
{
	const struct http_req *r = &x->parse->req;
	const char *buf = (const char *)iobuf_head(&x->head);
	const struct http_field *id = http_field_first(r->fields, r->nfields, HTTP_F_X_REQUEST_ID);

	exchange_keep_line(x, buf);
	if (id && http_request_id_ok(buf + id->value_off, id->value_len)) {
		memcpy(x->id, buf + id->value_off, id->value_len);
		x->id[id->value_len] = 0;
	}
}

static double ms(uint64_t ns)
{
	return (double)ns * 1e-6;
}

void exchange_account(struct exchange *x)
{
	struct worker *w = x->w;
	struct stats_pool *sp = stats_pool_get(w->stats, x->pool ? x->pool->state->slot : 0);
	struct stats_backend *sb = x->backend && x->head_ns ? stats_backend_get(w->stats, x->backend->row) : NULL;
	uint64_t *codes = sb ? sb->requests : sp ? sp->local : NULL;
	struct access_entry e;

	if (codes && x->status >= STATS_CODE_MIN && x->status < STATS_CODE_MIN + STATS_CODES)
		stat_add(&codes[x->status - STATS_CODE_MIN], 1);
	if (sp && x->reason)
		stat_add(&sp->errors[x->reason], 1);
	stat_add(&w->stats->bytes_out, x->flow.sent_bytes);
	if (!w->gw->access_log)
		return;
	e = (struct access_entry){
		.id = x->id,
		.client = x->peer,
		.method = x->log_path ? http_method_text(x->method) : NULL,
		.path = x->log_path,
		.path_len = x->log_path_len,
		.pool = x->pool ? x->pool->cfg->name : NULL,
		.model = x->model,
		.backend = x->backend ? x->backend->cfg->name : NULL,
		.policy = x->pool ? config_policy_name(x->pool->cfg->policy) : NULL,
		.status = x->status,
		.reason = x->reason,
		.tokens = x->plan.prompt_tokens,
		.match_tokens = x->plan.match_tokens,
		.ttft_predicted_ms = x->backend ? x->plan.ttft_ms : -1,
		.ttft_ms = x->first_ns ? ms(x->first_ns - x->request_ns) : -1,
		.queued_ms = ms(x->queued_ns),
		.duration_ms = ms(w->now_ns - x->begin_ns),
		.bytes_in = x->body_bytes,
		.bytes_out = x->flow.sent_bytes,
		.retries = x->tries > 1 ? x->tries - 1 : 0,
	};
	if (!access_log_write(w->gw->access_log, &e))
		stat_add(&w->stats->log_dropped, 1);
}
