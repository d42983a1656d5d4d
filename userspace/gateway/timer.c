/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/timer.h"

#include <errno.h>
#include <stdlib.h>

static void place(struct timer_heap *h, uint32_t pos, struct timer *t)
{
	h->v[pos] = t;
	t->pos = pos;
}

static void sift_up(struct timer_heap *h, uint32_t pos, struct timer *t)
{
	while (pos > 1 && h->v[pos / 2]->at_ns > t->at_ns) {
		place(h, pos, h->v[pos / 2]);
		pos /= 2;
	}
	place(h, pos, t);
}

static void sift_down(struct timer_heap *h, uint32_t pos, struct timer *t)
{
	for (uint32_t kid; (kid = pos * 2) <= h->n; pos = kid) {
		if (kid < h->n && h->v[kid + 1]->at_ns < h->v[kid]->at_ns)
			kid++;
		if (h->v[kid]->at_ns >= t->at_ns)
			break;
		place(h, pos, h->v[kid]);
	}
	place(h, pos, t);
}

int timer_arm(struct timer_heap *h, struct timer *t, uint64_t at_ns)
{
	if (t->pos) {
		bool later = at_ns > t->at_ns;

		t->at_ns = at_ns;
		if (later)
			sift_down(h, t->pos, t);
		else
			sift_up(h, t->pos, t);
		return 0;
	}
	if (h->n + 2 > h->cap) {
		uint32_t cap = h->cap ? h->cap * 2 : 64;
		struct timer **v = realloc(h->v, cap * sizeof(*v));

		if (!v)
			return -ENOMEM;
		h->v = v;
		h->cap = cap;
	}
	t->at_ns = at_ns;
	sift_up(h, ++h->n, t);
	return 0;
}

void timer_cancel(struct timer_heap *h, struct timer *t)
{
	struct timer *last;
	uint32_t pos = t->pos;

	if (!pos)
		return;
	t->pos = 0;
	last = h->v[h->n--];
	if (last == t)
		return;
	if (pos > 1 && h->v[pos / 2]->at_ns > last->at_ns)
		sift_up(h, pos, last);
	else
		sift_down(h, pos, last);
}

void timer_run(struct timer_heap *h, uint64_t now_ns)
{
	while (h->n && h->v[1]->at_ns <= now_ns) {
		struct timer *t = h->v[1];

		timer_cancel(h, t);
		t->fn(t, now_ns);
	}
}

uint64_t timer_next_ns(const struct timer_heap *h)
{
	return h->n ? h->v[1]->at_ns : UINT64_MAX;
}

void timer_heap_free(struct timer_heap *h)
{
	free(h->v);
	h->v = NULL;
	h->n = h->cap = 0;
}
