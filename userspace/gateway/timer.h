/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Timers of one worker: a binary heap of intrusive entries. Deadlines that move
 * with every packet are kept lazily: the owner stores the new deadline, lets the
 * old timer fire and arms it again, so that the heap is not touched per packet. */
#ifndef KVSTEER_GATEWAY_TIMER_H
#define KVSTEER_GATEWAY_TIMER_H
#include <stdbool.h>
#include <stdint.h>

struct timer {
	uint64_t at_ns;
	uint32_t pos; /* 1-based place in the heap; 0: not armed */
	void (*fn)(struct timer *t, uint64_t now_ns);
};

struct timer_heap {
	struct timer **v;
	uint32_t n, cap;
};

/* Arms or moves `t` (t->fn set by the caller). -ENOMEM: unchanged. */
int timer_arm(struct timer_heap *h, struct timer *t, uint64_t at_ns);
/* Harmless if not armed. */
void timer_cancel(struct timer_heap *h, struct timer *t);
static inline bool timer_armed(const struct timer *t)
{
	return t->pos != 0;
}
/* Runs what is due. Timers may arm and cancel any timer, themselves included. */
void timer_run(struct timer_heap *h, uint64_t now_ns);
/* The earliest deadline, UINT64_MAX if there is none. */
uint64_t timer_next_ns(const struct timer_heap *h);
void timer_heap_free(struct timer_heap *h);
#endif
