/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The closed loop: what the engine says of a sample of its answers, against what
 * was predicted. The request is never changed for it: answers that carry no usage
 * teach nothing. */
#include <stdlib.h>

#include "gateway/exchange.h"
#include "http/usage.h"

void exchange_usage_begin(struct exchange *x)
{
	struct worker *w = x->w;
	double share = x->pool->cfg->usage_sample;

	if (x->status >= 300 || !share || x->head_only)
		return;
	/* evenly spread: every 20th answer at 5 % */
	w->usage_due += share;
	if (w->usage_due < 1)
		return;
	w->usage_due -= 1;
	x->usage = malloc(sizeof(*x->usage));
	if (x->usage)
		usage_tail_init(x->usage);
}

static uint32_t tokens(bool known, uint64_t n)
{
	return known && n < ROUTE_TOKENS_UNKNOWN ? (uint32_t)n : ROUTE_TOKENS_UNKNOWN;
}

void exchange_usage_end(struct exchange *x)
{
	struct stats_backend *sb = stats_backend_get(x->w->stats, x->backend->row);
	struct http_usage u;

	if (!x->usage || !x->assigned || x->failed_stream || !usage_tail_read(x->usage, &u))
		return;
	route_usage(x->pool->state->route, &x->ticket, tokens(u.has_prompt, u.prompt_tokens),
		    tokens(u.has_cached, u.cached_tokens));
	if (u.has_completion)
		x->events = tokens(true, u.completion_tokens);
	if (!u.has_cached || !sb)
		return;
	stat_add(&sb->usage_sampled, 1);
	stat_add(&sb->cached_reported, u.cached_tokens);
	stat_add(&sb->cached_predicted_sampled, x->plan.match_tokens);
}
