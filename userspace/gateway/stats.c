/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/stats.h"

#include <stddef.h>
#include <stdlib.h>

struct stats_backend *stats_backend_get(struct stats_worker *s, uint32_t row)
{
	struct stats_backend *b;

	if (row >= sizeof(s->backend) / sizeof(*s->backend))
		return NULL;
	b = s->backend[row];
	if (!b) {
		b = calloc(1, sizeof(*b));
		/* release: a reader that sees the pointer sees zeroed counters */
		__atomic_store_n(&s->backend[row], b, __ATOMIC_RELEASE);
	}
	return b;
}

struct stats_pool *stats_pool_get(struct stats_worker *s, uint32_t slot)
{
	struct stats_pool *p;

	if (slot >= STATS_POOLS_MAX)
		return NULL;
	p = s->pool[slot];
	if (!p) {
		p = calloc(1, sizeof(*p));
		__atomic_store_n(&s->pool[slot], p, __ATOMIC_RELEASE);
	}
	return p;
}

static void add_counters(uint64_t *to, const uint64_t *from, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		to[i] += stat_get(&from[i]);
}

void stats_backend_sum(struct stats_worker *const *workers, unsigned n, uint32_t row, struct stats_backend *out)
{
	for (unsigned i = 0; i < n; i++) {
		const struct stats_backend *b = __atomic_load_n(&workers[i]->backend[row], __ATOMIC_ACQUIRE);

		if (!b)
			continue;
		add_counters(out->requests, b->requests, STATS_CODES);
		add_counters(&out->prompt_tokens, &b->prompt_tokens, 5);
		hist_add(&out->ttft, &b->ttft);
	}
}

void stats_pool_sum(struct stats_worker *const *workers, unsigned n, uint32_t slot, struct stats_pool *out)
{
	for (unsigned i = 0; i < n; i++) {
		const struct stats_pool *p = __atomic_load_n(&workers[i]->pool[slot], __ATOMIC_ACQUIRE);

		if (!p)
			continue;
		add_counters(out->errors, p->errors, REASON_COUNT);
		add_counters(out->retries, p->retries, REASON_COUNT);
		add_counters(out->local, p->local, STATS_CODES);
		hist_add(&out->queue, &p->queue);
	}
}

void stats_worker_sum(struct stats_worker *const *workers, unsigned n, struct stats_worker *out)
{
	for (unsigned i = 0; i < n; i++) {
		const struct stats_worker *w = workers[i];

		hist_add(&out->decision, &w->decision);
		hist_add(&out->added_request, &w->added_request);
		hist_add(&out->added_response, &w->added_response);
		add_counters(&out->accepted, &w->accepted,
			     (offsetof(struct stats_worker, backend) - offsetof(struct stats_worker, accepted)) / sizeof(uint64_t));
	}
}

/* All members of these blocks are uint64_t; sums are modulo 2^64, so that a negative count cancels. */
static void take_off(void *correction, const void *sum, size_t bytes)
{
	const uint64_t *from = sum;
	uint64_t *to = correction;

	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		__atomic_store_n(&to[i], to[i] - from[i], __ATOMIC_RELAXED);
}

void stats_backend_restart(struct stats_worker *const *workers, unsigned n, struct stats_worker *correction, uint32_t row)
{
	struct stats_backend *sum = calloc(1, sizeof(*sum)), *c = stats_backend_get(correction, row);

	if (sum && c) {
		stats_backend_sum(workers, n, row, sum);
		take_off(c, sum, sizeof(*sum));
	}
	free(sum);
}

void stats_pool_restart(struct stats_worker *const *workers, unsigned n, struct stats_worker *correction, uint32_t slot)
{
	struct stats_pool *sum = calloc(1, sizeof(*sum)), *c = stats_pool_get(correction, slot);

	if (sum && c) {
		stats_pool_sum(workers, n, slot, sum);
		take_off(c, sum, sizeof(*sum));
	}
	free(sum);
}

void stats_worker_free(struct stats_worker *s)
{
	for (unsigned i = 0; i < sizeof(s->backend) / sizeof(*s->backend); i++)
		free(s->backend[i]);
	for (unsigned i = 0; i < STATS_POOLS_MAX; i++)
		free(s->pool[i]);
	free(s);
}
