/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fixed-bucket histograms, one writer each (a worker), summed by readers. */
#ifndef KVSTEER_BASE_HIST_H
#define KVSTEER_BASE_HIST_H
#include <stdint.h>

#define HIST_BUCKETS_MAX 20

/* Upper bounds in nanoseconds, ascending; observations above the last fall into +Inf. */
struct hist_bounds {
	unsigned n;
	uint64_t le_ns[HIST_BUCKETS_MAX];
};
extern const struct hist_bounds hist_bounds_ttft;     /* 1 ms .. 300 s */
extern const struct hist_bounds hist_bounds_queue;    /* the same */
extern const struct hist_bounds hist_bounds_decision; /* 1 us .. 10 ms */
extern const struct hist_bounds hist_bounds_added;    /* 10 us .. 100 ms */

struct hist {
	uint64_t bucket[HIST_BUCKETS_MAX + 1]; /* not cumulative; [bounds.n] is +Inf */
	uint64_t sum_ns;
	uint64_t count;
};

/* Counts one observation. Single writer; readers may read at any time. */
void hist_observe(struct hist *h, const struct hist_bounds *b, uint64_t value_ns);
/* Adds `from` (written by another thread) to `to` (the caller's). */
void hist_add(struct hist *to, const struct hist *from);

/* A counter with one writing thread and any number of readers. */
static inline void stat_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}
static inline void stat_set(uint64_t *gauge, uint64_t value)
{
	__atomic_store_n(gauge, value, __ATOMIC_RELAXED);
}
static inline uint64_t stat_get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}
#endif
