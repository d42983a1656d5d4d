/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/hist.h"

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull

#define SECONDS_SCALE                                                                                  \
	{ 1 * MS, 2500 * US, 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1 * S,     \
	  2500 * MS, 5 * S, 10 * S, 30 * S, 60 * S, 120 * S, 300 * S }

const struct hist_bounds hist_bounds_ttft = { 17, SECONDS_SCALE };
const struct hist_bounds hist_bounds_queue = { 17, SECONDS_SCALE };
const struct hist_bounds hist_bounds_decision = {
	13,
	{ 1 * US, 2 * US, 5 * US, 10 * US, 20 * US, 50 * US, 100 * US, 200 * US, 500 * US, 1 * MS, 2 * MS, 5 * MS, 10 * MS }
};
const struct hist_bounds hist_bounds_added = {
	13,
	{ 10 * US, 20 * US, 50 * US, 100 * US, 200 * US, 500 * US, 1 * MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS }
};

void hist_observe(struct hist *h, const struct hist_bounds *b, uint64_t value_ns)
{
	unsigned i = 0;

	while (i < b->n && value_ns > b->le_ns[i])
		i++;
	stat_add(&h->bucket[i], 1);
	stat_add(&h->sum_ns, value_ns);
	stat_add(&h->count, 1);
}

void hist_add(struct hist *to, const struct hist *from)
{
	for (unsigned i = 0; i <= HIST_BUCKETS_MAX; i++)
		to->bucket[i] += stat_get(&from->bucket[i]);
	to->sum_ns += stat_get(&from->sum_ns);
	to->count += stat_get(&from->count);
}
