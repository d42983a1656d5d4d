/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/hist.h"

#include <math.h>

#define SUB (1u << LOAD_HIST_SUB_BITS)

static uint32_t bucket_of(uint64_t us)
{
	uint32_t shift;
	uint64_t index;

	if (us < SUB)
		return (uint32_t)us;
	shift = 63 - LOAD_HIST_SUB_BITS - (uint32_t)__builtin_clzll(us);
	index = ((uint64_t)(shift + 1) << LOAD_HIST_SUB_BITS) + (us >> shift) - SUB;
	return index < LOAD_HIST_BUCKETS ? (uint32_t)index : LOAD_HIST_BUCKETS - 1;
}

/* The middle of a bucket. */
static double bucket_us(uint32_t i)
{
	uint32_t shift;
	uint64_t low;

	if (i < SUB)
		return i;
	shift = (i >> LOAD_HIST_SUB_BITS) - 1;
	low = (uint64_t)((i & (SUB - 1)) + SUB) << shift;
	return (double)low + (double)((1ull << shift) - 1) / 2;
}

void load_hist_add(struct load_hist *h, uint64_t ns)
{
	uint64_t us = ns / 1000;

	if (!h->count || us < h->min_us)
		h->min_us = us;
	if (us > h->max_us)
		h->max_us = us;
	h->count++;
	h->sum_us += (double)ns / 1000;
	h->bucket[bucket_of(us)]++;
}

double load_hist_percentile_ms(const struct load_hist *h, double p)
{
	uint64_t rank, seen = 0;
	double us = 0;

	if (!h->count)
		return 0;
	rank = (uint64_t)ceil(p * (double)h->count);
	if (rank < 1)
		rank = 1;
	if (rank > h->count)
		rank = h->count;
	for (uint32_t i = 0; i < LOAD_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank) {
			us = bucket_us(i);
			break;
		}
	}
	if (us < (double)h->min_us)
		us = (double)h->min_us;
	if (us > (double)h->max_us)
		us = (double)h->max_us;
	return us / 1000;
}

double load_hist_mean_ms(const struct load_hist *h)
{
	return h->count ? h->sum_us / (double)h->count / 1000 : 0;
}
