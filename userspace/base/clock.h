/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Time. Only base, gateway, signals and control read clocks; route and prompt
 * are handed the time as an argument. */
#ifndef KVSTEER_BASE_CLOCK_H
#define KVSTEER_BASE_CLOCK_H
#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

/* CLOCK_MONOTONIC, nanoseconds: never 0, the same clock as bpf_ktime_get_ns(). */
static inline uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* CLOCK_REALTIME, nanoseconds since the epoch: for logs only. */
static inline uint64_t clock_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}
#endif
