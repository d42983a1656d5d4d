/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/client.h"
#include "gateway/exchange.h"
#include "gateway/internal.h"
#include "gateway/listener.h"
#include "gateway/splice.h"
#include "gateway/upstream.h"
#include "prompt/prompt.h"

#define EVENTS_PER_TURN 256
#define TICK_NS (100 * NSEC_PER_MSEC)

void worker_bury(struct worker *w, void *mem)
{
	struct dead *d = mem;

	d->next = w->dead;
	w->dead = d;
}

static void worker_burials(struct worker *w)
{
	while (w->dead) {
		struct dead *d = w->dead;

		w->dead = d->next;
		free(d);
	}
}

void worker_send_soon(struct worker *w, struct exchange *x)
{
	if (list_empty(&x->due))
		list_add_tail(&w->due, &x->due);
}

static void worker_send_due(struct worker *w)
{
	while (!list_empty(&w->due)) {
		struct exchange *x = list_entry(w->due.next, struct exchange, due);

		list_del(&x->due);
		exchange_due(x);
	}
}

void worker_wake(struct worker *w)
{
	uint64_t one = 1;

	(void)!write(w->mail_fd, &one, sizeof(one));
}

void worker_post(struct worker *w, struct mail *m)
{
	bool first;

	m->next = NULL;
	pthread_mutex_lock(&w->mail_lock);
	first = !w->mail_head;
	if (first)
		w->mail_head = m;
	else
		w->mail_tail->next = m;
	w->mail_tail = m;
	pthread_mutex_unlock(&w->mail_lock);
	if (first)
		worker_wake(w);
}

static void worker_mail(struct worker *w, struct io *io, uint32_t events)
{
	struct mail *m;
	uint64_t n;

	(void)!read(w->mail_fd, &n, sizeof(n));
	pthread_mutex_lock(&w->mail_lock);
	m = w->mail_head;
	w->mail_head = w->mail_tail = NULL;
	pthread_mutex_unlock(&w->mail_lock);
	while (m) {
		struct mail *next = m->next;

		m->fn(w, m);
		m = next;
	}
}

struct prompt_scan *worker_scan_get(struct worker *w)
{
	return w->n_scans ? w->scans[--w->n_scans] : prompt_scan_new();
}

void worker_scan_put(struct worker *w, struct prompt_scan *scan)
{
	if (!scan)
		return;
	if (w->n_scans < WORKER_SCANS_SPARE) {
		prompt_scan_begin(scan, PROMPT_FAMILY_NONE, NULL); /* gives large buffers back */
		w->scans[w->n_scans++] = scan;
	} else {
		prompt_scan_free(scan);
	}
}

void *worker_parse_get(struct worker *w, size_t bytes)
{
	struct parse_block *p = w->parses;

	if (p && p->bytes >= bytes) {
		w->parses = p->next;
		w->n_parses--;
		return p;
	}
	p = malloc(bytes);
	if (p)
		p->bytes = bytes;
	return p;
}

void worker_parse_put(struct worker *w, void *parse)
{
	struct parse_block *p = parse;

	if (!p)
		return;
	/* limits.headers may have grown: what is too small for a request now is not kept */
	if (w->n_parses == WORKER_PARSES_SPARE || (w->parses && w->parses->bytes > p->bytes)) {
		free(p);
		return;
	}
	p->next = w->parses;
	w->parses = p;
	w->n_parses++;
}

const char *worker_date(struct worker *w)
{
	int64_t now_s = (int64_t)(clock_wall_ns() / NSEC_PER_SEC);

	if (w->date_s != now_s) {
		w->date_s = now_s;
		http_format_date(w->date, now_s);
	}
	return w->date;
}

struct fleet *worker_fleet(struct worker *w)
{
	if (w->fleet->version != __atomic_load_n(&w->gw->fleet_version, __ATOMIC_ACQUIRE)) {
		struct fleet *old = w->fleet;

		w->fleet = gateway_fleet_get(w->gw);
		fleet_put(old);
	}
	return w->fleet;
}

/* Ten times a second: requests whose time in the queue is over, upstream idle
 * limits, the gauges, and the end of a drain. */
static void worker_tick(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, tick_timer);
	struct fleet *f = worker_fleet(w);

	for (unsigned i = 0; w->id == 0 && i < f->npools; i++)
		gateway_pool_tick(w->gw, &f->pools[i], now_ns);
	upstream_expire_idle(w);
	worker_splice_tick(w);
	stat_set(&w->stats->clients, w->n_clients);
	stat_set(&w->stats->buffer_bytes, w->bodies.bytes + (uint64_t)w->bodies.n_spare * BODY_CHUNK_BYTES);
	timer_arm(&w->timers, t, now_ns + TICK_NS);
}

static int worker_timeout_ms(const struct worker *w)
{
	uint64_t next = timer_next_ns(&w->timers), now = clock_now_ns();

	if (next <= now)
		return 0;
	/* rounded up: waking a fraction too early would spin */
	next = (next - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return next > 1000 ? 1000 : (int)next;
}

static void *worker_loop(void *arg)
{
	struct worker *w = arg;
	struct epoll_event ev[EVENTS_PER_TURN];

	w->now_ns = clock_now_ns();
	timer_arm(&w->timers, &w->tick_timer, w->now_ns + TICK_NS);
	while (!worker_done(w)) {
		int n = epoll_wait(w->epfd, ev, EVENTS_PER_TURN, worker_timeout_ms(w));

		w->now_ns = clock_now_ns();
		worker_splice_events(w); /* an END is in the ring before the backend's FIN is in epoll */
		for (int i = 0; i < n; i++) {
			uint32_t fd = (uint32_t)ev[i].data.u64, gen = (uint32_t)(ev[i].data.u64 >> 32);
			struct io *io = fd < w->n_ios ? w->ios[fd] : NULL;

			if (io && io->gen == gen)
				io->on_event(w, io, ev[i].events);
		}
		timer_run(&w->timers, w->now_ns);
		worker_send_due(w);
		worker_splice_reap(w);
		worker_burials(w);
	}
	client_close_all(w);
	upstream_close_all(w);
	worker_mail(w, &w->mail_io, EPOLLIN); /* wake-ups of requests that have gone: their memory waits for them */
	worker_burials(w);
	__atomic_store_n(&w->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

int worker_create(struct worker **out, struct gateway *gw, unsigned id)
{
	struct worker *w = calloc(1, sizeof(*w));

	*out = NULL;
	if (!w)
		return -ENOMEM;
	w->gw = gw;
	w->id = id;
	w->retry_budget = WORKER_RETRY_BUDGET;
	list_init(&w->due);
	list_init(&w->clients);
	list_init(&w->upstreams);
	for (unsigned i = 0; i < BACKENDS_MAX_ROWS; i++)
		list_init(&w->idle[i]);
	pthread_mutex_init(&w->mail_lock, NULL);
	w->tick_timer.fn = worker_tick;
	w->stats = calloc(1, sizeof(*w->stats));
	w->epfd = epoll_create1(EPOLL_CLOEXEC);
	w->mail_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	w->mail_io = (struct io){ .fd = w->mail_fd, .on_event = worker_mail };
	if (!w->stats || w->epfd < 0 || w->mail_fd < 0 || io_add(w, &w->mail_io, EPOLLIN)) {
		worker_destroy(w);
		return -ENOMEM;
	}
	*out = w;
	return 0;
}

int worker_start(struct worker *w)
{
	int err = pthread_create(&w->thread, NULL, worker_loop, w);

	if (err)
		return -err;
	w->started = true;
	return 0;
}

void worker_destroy(struct worker *w)
{
	if (!w)
		return;
	if (w->started)
		pthread_join(w->thread, NULL);
	if (w->fleet)
		worker_mail(w, &w->mail_io, EPOLLIN); /* a reload that came after the end of the loop */
	worker_burials(w);
	worker_splice_close(w);
	listener_close_all(w);
	while (w->n_scans)
		prompt_scan_free(w->scans[--w->n_scans]);
	while (w->parses) {
		struct parse_block *p = w->parses;

		w->parses = p->next;
		free(p);
	}
	body_pool_free(&w->bodies);
	timer_heap_free(&w->timers);
	if (w->fleet)
		fleet_put(w->fleet);
	if (w->epfd >= 0)
		close(w->epfd);
	if (w->mail_fd >= 0)
		close(w->mail_fd);
	if (w->stats)
		stats_worker_free(w->stats);
	free(w->ios);
	pthread_mutex_destroy(&w->mail_lock);
	free(w);
}
