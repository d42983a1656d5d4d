/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Histogram of durations with logarithmic buckets: 128 a power of two, so a
 * percentile is off by at most 0.4 %. Fixed size, whatever it holds. */
#ifndef KVSTEER_LOAD_HIST_H
#define KVSTEER_LOAD_HIST_H
#include <stdint.h>

#define LOAD_HIST_SUB_BITS 7
#define LOAD_HIST_BUCKETS (31 << LOAD_HIST_SUB_BITS)

struct load_hist {
	uint64_t count;
	double sum_us;
	uint64_t min_us;
	uint64_t max_us;
	uint64_t bucket[LOAD_HIST_BUCKETS]; /* of microseconds; the last one takes all that is longer */
};

/* A zeroed histogram is an empty one. */
void load_hist_add(struct load_hist *h, uint64_t ns);
/* The value at or below which a share `p` (0..1) of the samples lies, in
 * milliseconds (nearest rank); 0 when empty: ask count. */
double load_hist_percentile_ms(const struct load_hist *h, double p);
double load_hist_mean_ms(const struct load_hist *h);
#endif
