/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A worker's events, drains and sweep. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>

#include "datapath/splice_internal.h"

#define load(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

/* The event is a hint, the flow's row the truth: an event may be read after its stream was
 * cancelled, taken back and published again, or after the next answer was armed. */
static bool has_ended(const struct splice_backend *b)
{
	return b->kernel && load(b->rec->ended) == b->generation;
}

static bool has_passed(const struct splice_backend *b)
{
	return b->kernel && splice_backend_unread(b);
}

static void act(struct splice_worker *w, struct splice_backend *b, unsigned reason)
{
	b->suspect = false;
	if (has_ended(b)) {
		w->stats.ends++;
		w->ops->end(b, w->arg);
	} else if (has_passed(b)) {
		w->stats.takeovers[reason < SPLICE_WHY_MAX ? reason : SPLICE_WHY_NONE]++;
		w->ops->takeover(b, reason, w->arg);
	}
}

static int on_record(void *ctx, void *data, size_t len)
{
	const struct splice_event *ev = data;
	struct splice_worker *w = ctx;
	struct splice_backend *b;

	if (len < sizeof(*ev) || ev->flow >= w->s->max_flows)
		return 0;
	b = w->s->backends[ev->flow];
	if (b && b->w == w && b->armed && ev->generation == b->generation)
		act(w, b, ev->reason);
	return 0;
}

void splice_worker_events(struct splice_worker *w)
{
	ring_buffer__consume(w->ring);
}

unsigned splice_worker_drains(struct splice_worker *w)
{
	struct list *p, *tmp;
	unsigned due = 0;

	list_for_each_safe(p, tmp, &w->drains) {
		struct splice_client *c = list_entry(p, struct splice_client, link);

		w->stats.drain_polls++;
		if (!splice_client_drained(c)) {
			due++;
			continue;
		}
		splice_client_forget(c);
		w->ops->drained(c, w->arg);
		/* the callback may have changed the list in any way: the rest at the next call */
		if (tmp != &w->drains && !list_entry(tmp, struct splice_client, link)->draining)
			break;
	}
	return list_empty(&w->drains) ? 0 : due ? due : 1;
}

/* An event that is on its way may be seen here first, so that a flow counts only if it is found
 * in two sweeps in a row. */
void splice_worker_sweep(struct splice_worker *w)
{
	struct splice_counts counts;
	struct list *p, *tmp;
	uint64_t lost;

	splice_counts_read(w->s, &counts);
	lost = counts.lost_events - w->lost_seen;
	w->lost_seen = counts.lost_events;
	splice_worker_events(w);
	list_for_each_safe(p, tmp, &w->armed) {
		struct splice_backend *b = list_entry(p, struct splice_backend, link);

		if (!has_ended(b) && !has_passed(b)) {
			b->suspect = false;
			continue;
		}
		if (!b->suspect && !lost) {
			b->suspect = true;
			continue;
		}
		if (lost)
			w->stats.sweep_lost++;
		else
			w->stats.sweep_rescued++;
		act(w, b, SPLICE_WHY_NONE);
		/* the callback may have taken the next one off the list: the rest in a second */
		if (tmp != &w->armed && !list_entry(tmp, struct splice_backend, link)->armed)
			break;
	}
}

const struct splice_worker_stats *splice_worker_stats(const struct splice_worker *w)
{
	return &w->stats;
}

int splice_worker_fd(const struct splice_worker *w)
{
	return ring_buffer__epoll_fd(w->ring);
}

int splice_worker_open(struct splice *s, unsigned id, const struct splice_worker_ops *ops, void *arg,
		       struct splice_worker **out)
{
	struct splice_worker *w;

	*out = NULL;
	if (id >= s->workers)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->s = s;
	w->id = id;
	w->ops = ops;
	w->arg = arg;
	list_init(&w->armed);
	list_init(&w->drains);
	w->ring = ring_buffer__new(s->ring_fds[id], on_record, w, NULL);
	if (!w->ring) {
		int err = -errno;

		free(w);
		return err ? err : -ENOMEM;
	}
	*out = w;
	return 0;
}

void splice_worker_close(struct splice_worker *w)
{
	if (!w)
		return;
	splice_worker_reap(w);
	ring_buffer__free(w->ring);
	free(w->dead);
	free(w);
}
