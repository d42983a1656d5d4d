/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A node joins seven, one of eight leaves, one of seven leaves: how many prefixes (or conversations) change their node, what the hit rate and
 * the tail do meanwhile. Where seven nodes just hold a
 * workload's prefixes, six do not, and no policy brings the tail back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/ask.h"
#include "replay/must.h"
#include "replay/series.h"

#define WINDOW_S 60.0       /* before and after, for homes */
#define SETTLE_S 5.0        /* requests right after the change do not count for homes: no one asked yet */
#define HIT_WINDOW_S 10.0
#define TAIL_WINDOW_S 5.0
#define CHANGES 3           /* 7 -> 8, 8 -> 7, 7 -> 6 */
#define TAIL_WINDOWS 20     /* after the change */
#define BACK_RATIO 1.2
#define CHANGE_AFTER_S 70.0 /* after the warm-up */
#define AFTER_S 120.0

struct seen {
	double at_s, ttft_s;
	uint32_t key, node, cached, prompt;
};

struct log {
	struct seen *v;
	uint32_t n, room;
};

struct verdict {
	double moved, moved_idle;       /* share of those with requests in both windows; the same without a change */
	double moved_others;            /* leaving: of those that were not at home on the node that left */
	double hit_before, hit_least;
	double tail_before_s, tail_worst_s, back_s; /* back_s: from the change on; INFINITY never */
	double tail_s[TAIL_WINDOWS];    /* of the windows after the change */
};

static void on_request(void *ctx, const struct replay_request *q, uint64_t now_ns, bool done)
{
	struct log *l = ctx;

	if (done)
		return;
	if (l->n == l->room)
		l->v = must_grow(l->v, &l->room, sizeof(*l->v));
	l->v[l->n++] = (struct seen){ .at_s = (double)q->at_ns * 1e-9 - 1000, .ttft_s = (double)(now_ns - q->at_ns) * 1e-9,
				      .key = q->talk->prefix == REPLAY_NO_PREFIX ? (uint32_t)q->talk->id : q->talk->prefix,
				      .node = q->node, .cached = q->cached_tokens, .prompt = q->prompt_tokens };
}

/* Where most requests of each key went between two times; UINT32_MAX: none. The caller frees it. */
static uint32_t *homes(const struct log *l, uint32_t keys, double from_s, double to_s)
{
	uint32_t (*count)[REPLAY_NODES_MAX] = must_calloc(keys, sizeof(*count));
	uint32_t *home = must_calloc(keys, sizeof(*home));

	for (uint32_t i = 0; i < l->n; i++)
		if (l->v[i].at_s >= from_s && l->v[i].at_s < to_s)
			count[l->v[i].key][l->v[i].node]++;
	for (uint32_t k = 0; k < keys; k++) {
		home[k] = UINT32_MAX;
		for (uint32_t n = 0; n < REPLAY_NODES_MAX; n++)
			if (count[k][n] && (home[k] == UINT32_MAX || count[k][n] > count[k][home[k]]))
				home[k] = n;
	}
	free(count);
	return home;
}

static double moved_share(const uint32_t *before, const uint32_t *after, uint32_t keys, uint32_t but)
{
	uint32_t moved = 0, n = 0;

	for (uint32_t k = 0; k < keys; k++) {
		if (before[k] == UINT32_MAX || after[k] == UINT32_MAX || before[k] == but)
			continue;
		n++;
		moved += before[k] != after[k];
	}
	return n ? (double)moved / n : NAN;
}

static double hit_between(const struct log *l, double from_s, double to_s)
{
	uint64_t cached = 0, prompt = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		if (l->v[i].at_s < from_s || l->v[i].at_s >= to_s)
			continue;
		cached += l->v[i].cached;
		prompt += l->v[i].prompt;
	}
	return prompt ? (double)cached / (double)prompt : NAN;
}

static double tail_between(const struct log *l, double from_s, double to_s)
{
	struct replay_series s = { 0 };
	double p99;

	for (uint32_t i = 0; i < l->n; i++)
		if (l->v[i].at_s >= from_s && l->v[i].at_s < to_s)
			replay_series_add(&s, l->v[i].ttft_s);
	p99 = replay_series_quantile(&s, .99);
	free(s.v);
	return p99;
}

static void judge(const struct log *l, double change_s, uint32_t left, struct verdict *v)
{
	uint32_t keys = 0, n = 0, *earlier, *before, *after;
	double tails[64], t;

	for (uint32_t i = 0; i < l->n; i++)
		keys = l->v[i].key >= keys ? l->v[i].key + 1 : keys;
	earlier = homes(l, keys, change_s - 2 * WINDOW_S - SETTLE_S, change_s - WINDOW_S - SETTLE_S);
	before = homes(l, keys, change_s - WINDOW_S, change_s);
	after = homes(l, keys, change_s + SETTLE_S, change_s + SETTLE_S + WINDOW_S);
	v->moved_idle = moved_share(earlier, before, keys, UINT32_MAX);
	v->moved = moved_share(before, after, keys, UINT32_MAX);
	v->moved_others = moved_share(before, after, keys, left);
	free(earlier);
	free(before);
	free(after);
	v->hit_before = hit_between(l, change_s - WINDOW_S, change_s);
	v->hit_least = 1;
	for (t = change_s; t < change_s + AFTER_S - HIT_WINDOW_S; t += HIT_WINDOW_S / 2)
		v->hit_least = fmin(v->hit_least, hit_between(l, t, t + HIT_WINDOW_S));
	for (t = change_s - WINDOW_S; t < change_s; t += TAIL_WINDOW_S)
		tails[n++] = tail_between(l, t, t + TAIL_WINDOW_S);
	v->tail_before_s = replay_median(tails, n);
	v->tail_worst_s = 0;
	v->back_s = INFINITY;
	for (int i = 0; i < TAIL_WINDOWS; i++) {
		t = change_s + i * TAIL_WINDOW_S;
		v->tail_s[i] = tail_between(l, t, t + TAIL_WINDOW_S);
		v->tail_worst_s = fmax(v->tail_worst_s, v->tail_s[i]);
		if (v->tail_s[i] <= BACK_RATIO * v->tail_before_s && !isfinite(v->back_s) && i)
			v->back_s = t - change_s;
	}
}

static void add_json(struct replay_ask *a, yyjson_mut_val *row, const struct replay_run *r, const struct verdict *v)
{
	yyjson_mut_val *windows;

	yyjson_mut_obj_add_str(a->doc, row, "workload", r->w->name);
	yyjson_mut_obj_add_str(a->doc, row, "policy", r->policy->name);
	yyjson_mut_obj_add_str(a->doc, row, "change", r->join ? "join" : r->nodes > REPLAY_NODES ? "leave_8" : "leave_7");
	yyjson_mut_obj_add_uint(a->doc, row, "seed", r->seed);
	yyjson_mut_obj_add_real(a->doc, row, "moved", v->moved);
	yyjson_mut_obj_add_real(a->doc, row, "moved_without_change", v->moved_idle);
	yyjson_mut_obj_add_real(a->doc, row, "moved_others", v->moved_others);
	yyjson_mut_obj_add_real(a->doc, row, "hit_before", v->hit_before);
	yyjson_mut_obj_add_real(a->doc, row, "hit_least", v->hit_least);
	yyjson_mut_obj_add_real(a->doc, row, "ttft_p99_before_s", v->tail_before_s);
	yyjson_mut_obj_add_real(a->doc, row, "ttft_p99_worst_s", v->tail_worst_s);
	yyjson_mut_obj_add_real(a->doc, row, "back_after_s", v->back_s);
	windows = yyjson_mut_obj_add_arr(a->doc, row, "ttft_p99_after_s");
	for (int i = 0; i < TAIL_WINDOWS; i++)
		yyjson_mut_arr_add_real(a->doc, windows, v->tail_s[i]);
}

int replay_do_scaling(struct replay_ask *a)
{
	static const char *const policies[] = { "cost", "oracle", "consistent_hash", "gie_322", NULL };
	static const char *const workloads[] = { "support", "chat", NULL };
	yyjson_mut_val *rows = a->json ? yyjson_mut_obj_add_arr(a->doc, yyjson_mut_doc_get_root(a->doc), "scaling") : NULL;
	uint32_t done = 0;

	replay_ask_defaults(a, policies, workloads);
	if (!a->json)
		printf("%-9s %-16s %-5s  %6s (%5s) %6s   %5s %5s   %7s %7s %7s\n", "workload", "policy", "nodes", "moved",
		       "idle", "others", "hit", "least", "p99 s", "worst", "back s");
	for (uint32_t i = 0; i < a->workloads * a->policies * CHANGES; i++) {
		const struct replay_workload *w = a->workload[i / (a->policies * CHANGES)];
		struct replay_run r = replay_ask_run(a, w, a->policy[i / CHANGES % a->policies]);
		struct replay_figures f;
		struct verdict v = { 0 };
		struct log l = { 0 };

		if (replay_ask_skips(a, w))
			continue;
		if (!r.warmup_s)
			r.warmup_s = w->warmup_s;
		/* Time for two windows before. */
		r.warmup_s = fmax(r.warmup_s, 2 * WINDOW_S + SETTLE_S);
		r.change_s = r.warmup_s + CHANGE_AFTER_S;
		r.measure_s = CHANGE_AFTER_S + AFTER_S;
		r.join = i % CHANGES == 0;
		r.nodes = REPLAY_NODES + (i % CHANGES == 1);
		r.request = on_request;
		r.ctx = &l;
		replay_progress(done++, a->workloads * a->policies * CHANGES, "%s %s", w->name, r.policy->name);
		if (replay_run(&r, &f) < 0)
			return 1;
		judge(&l, r.change_s, r.join ? UINT32_MAX : r.nodes - 1, &v);
		free(l.v);
		replay_progress_end();
		if (a->json)
			add_json(a, yyjson_mut_arr_add_obj(a->doc, rows), &r, &v);
		else
			printf("%-9s %-16s %-5s  %5.1f%% (%4.1f%%) %5.1f%%   %.3f %.3f   %7.3f %7.3f %7.0f\n", w->name,
			       r.policy->name, r.join ? "7->8" : r.nodes > REPLAY_NODES ? "8->7" : "7->6", v.moved * 100, v.moved_idle * 100,
			       v.moved_others * 100, v.hit_before, v.hit_least, v.tail_before_s, v.tail_worst_s, v.back_s);
	}
	return 0;
}
