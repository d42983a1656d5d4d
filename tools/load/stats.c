/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/stats.h"

#include <string.h>

#include "base/clock.h"

void load_counters_add(struct load_counters *c, const char *name)
{
	for (uint32_t i = 0; i < c->n; i++) {
		if (!strcmp(c->list[i].name, name)) {
			c->list[i].count++;
			return;
		}
	}
	if (c->n == LOAD_COUNTERS_MAX - 1)
		name = "other";
	if (c->n == LOAD_COUNTERS_MAX) {
		c->list[c->n - 1].count++;
		return;
	}
	strncpy(c->list[c->n].name, name, sizeof(c->list[c->n].name) - 1);
	c->list[c->n++].count = 1;
}

void load_stats_begin(struct load_stats *s, const struct load_call *call)
{
	if (!call->measured)
		return;
	if (!s->begun++)
		s->first_intended_ns = call->intended_ns;
	s->last_intended_ns = call->intended_ns;
	load_hist_add(&s->late, call->start_ns > call->intended_ns ? call->start_ns - call->intended_ns : 0);
}

void load_stats_end(struct load_stats *s, const struct load_call *call, const struct load_answer *a)
{
	if (!call->error && call->end_ns >= s->from_ns && call->end_ns < s->until_ns)
		s->successes_in_window++;
	if (!call->measured)
		return;
	s->requests++;
	/* An error may be the router's own answer; only a success without a name is direct. */
	if (call->backend[0])
		load_counters_add(&s->backends, call->backend);
	else if (!call->error)
		load_counters_add(&s->backends, "direct");
	if (call->error) {
		s->errors++;
		load_counters_add(&s->reasons, call->error);
		return;
	}
	s->last_end_ns = call->end_ns;
	if (call->first_ns)
		load_hist_add(&s->ttft, call->first_ns - call->intended_ns);
	load_hist_add(&s->e2e, call->end_ns - call->intended_ns);
	if (call->gaps)
		load_hist_add(&s->tpot, (call->last_token_ns - call->first_token_ns) / call->gaps);
	if (a->prompt_tokens >= 0) {
		s->usage_seen++;
		s->prompt_tokens += (uint64_t)a->prompt_tokens;
	}
	if (a->output_tokens >= 0)
		s->output_tokens += (uint64_t)a->output_tokens;
	/* Engines leave the field out when nothing was cached. */
	if (a->prompt_tokens >= 0 && a->cached_tokens >= 0) {
		s->cached_seen++;
		s->cached_tokens += (uint64_t)a->cached_tokens;
	}
}

double load_stats_rate_rps(const struct load_stats *s)
{
	uint64_t n = s->requests - s->errors, end_ns = s->last_end_ns;

	if (s->until_ns != UINT64_MAX) {
		n = s->successes_in_window;
		end_ns = s->until_ns;
	}
	return end_ns > s->from_ns ? (double)n * NSEC_PER_SEC / (double)(end_ns - s->from_ns) : 0;
}

double load_stats_offered_rps(const struct load_stats *s)
{
	uint64_t span_ns = s->last_intended_ns - s->first_intended_ns;

	if (s->until_ns != UINT64_MAX)
		return (double)s->begun * NSEC_PER_SEC / (double)(s->until_ns - s->from_ns);
	return s->begun > 1 && span_ns ? (double)(s->begun - 1) * NSEC_PER_SEC / (double)span_ns : 0;
}

double load_stats_hit_rate(const struct load_stats *s)
{
	return s->cached_seen && s->prompt_tokens ? (double)s->cached_tokens / (double)s->prompt_tokens : -1;
}
