/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "route/top.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "route/pool_internal.h"

static double top_decayed(double count, uint64_t when_ns, uint64_t now_ns)
{
	return now_ns <= when_ns ? count : count * exp(-(double)(now_ns - when_ns) / (HEAT_TAU_S * 1e9));
}

/* Hottest first; entries that were counted by the same requests lie side by side. */
static int top_compare(const void *a, const void *b)
{
	const struct heat_entry *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	if (x->when_ns != y->when_ns)
		return x->when_ns > y->when_ns ? -1 : 1;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

int route_prefix_top(struct route_pool *pool, uint64_t now_ns, struct route_top_row *rows, uint32_t n)
{
	const uint32_t max = HEAT_SETS * HEAT_WAYS;
	struct heat_entry *v = malloc(max * sizeof(*v));
	uint32_t run[ROUTE_MAX_NODES], n_rows = 0;
	double total;

	if (!v)
		return -ENOMEM;
	pool_lock(pool);
	memcpy(v, pool->heat.set, max * sizeof(*v));
	total = top_decayed(pool->heat.total, pool->heat.when_ns, now_ns);
	pool_unlock(pool);
	for (uint32_t i = 0; i < max; i++)
		v[i].count = v[i].count > 0 ? top_decayed(v[i].count, v[i].when_ns, now_ns) : 0;
	qsort(v, max, sizeof(*v), top_compare);
	for (uint32_t i = 0; i < max && v[i].count > 0; i++) {
		struct route_top_row *r = n_rows ? &rows[n_rows - 1] : NULL;

		if (r && v[i].count == v[i - 1].count && v[i].when_ns == v[i - 1].when_ns) {
			r->blocks++;
			continue;
		}
		if (n_rows == n)
			break;
		rows[n_rows++] = (struct route_top_row){ .hash = v[i].hash,
							 .blocks = 1,
							 .requests = v[i].count,
							 .share = total > 0 ? fmin(1, v[i].count / total) : 0 };
	}
	free(v);
	pool_lock(pool);
	for (uint32_t i = 0; i < n_rows; i++) {
		index_match(&pool->index, &rows[i].hash, 1, run);
		for (uint32_t k = 0; k < pool->n_nodes; k++)
			rows[i].nodes += run[k] > 0;
	}
	pool_unlock(pool);
	return (int)n_rows;
}
