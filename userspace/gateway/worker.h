/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One worker: an epoll loop with its own listeners, connections, timers and
 * idle backend connections. Workers share nothing but the pools. */
#ifndef KVSTEER_GATEWAY_WORKER_H
#define KVSTEER_GATEWAY_WORKER_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "gateway/body.h"
#include "gateway/fleet.h"
#include "gateway/stats.h"
#include "gateway/timer.h"
#include "http/write.h"
#include "kvsteer/backends_abi.h"

struct gateway;
struct exchange;
struct prompt_scan;
struct worker;
struct splice_worker;

/* A descriptor in the loop. epoll carries {generation, descriptor}, never a
 * pointer: an event for a descriptor that was closed and reused in the same
 * batch finds another generation and is dropped. */
struct io {
	int fd; /* -1: closed */
	uint32_t gen;
	uint32_t events; /* what epoll watches now */
	void (*on_event)(struct worker *w, struct io *io, uint32_t events);
};

/* Memory that goes back at the end of a loop turn: objects that an event of the
 * same turn may still name. */
struct dead {
	struct dead *next;
};

/* The head of a parser's memory, which goes round: each request needs two of them. */
struct parse_block {
	struct parse_block *next;
	size_t bytes;
};

struct mail {
	struct mail *next;
	void (*fn)(struct worker *w, struct mail *m);
};

#define WORKER_SCRATCH_BYTES (64u << 10)
#define WORKER_SCANS_SPARE 16
#define WORKER_PARSES_SPARE 32
#define WORKER_RETRY_BUDGET 20.0 /* retries saved up at most, and at the start */

struct listener;

struct worker {
	struct gateway *gw;
	unsigned id;
	pthread_t thread;
	bool started;
	bool ended;     /* atomic: the loop has returned */

	int epfd, mail_fd;
	struct io mail_io;
	struct io **ios; /* by descriptor */
	uint32_t n_ios, io_gen;
	uint64_t now_ns; /* read once per turn, again after long work */
	struct timer_heap timers;
	struct dead *dead;

	pthread_mutex_t mail_lock;
	struct mail *mail_head, *mail_tail;

	struct fleet *fleet;
	struct listener *listeners;
	struct timer accept_timer; /* out of descriptors: accept again later */
	struct timer tick_timer;
	bool draining, drain_over;

	struct list due;           /* exchanges that have something to send at the end of the turn */
	struct list clients;       /* all client connections */
	uint32_t n_clients;
	struct list upstreams;     /* all backend connections */
	struct list idle[BACKENDS_MAX_ROWS]; /* idle ones by row, newest first */
	struct body_pool bodies;
	struct prompt_scan *scans[WORKER_SCANS_SPARE];
	unsigned n_scans;
	struct parse_block *parses; /* spare */
	unsigned n_parses;
	uint64_t request_seq;
	int64_t date_s;            /* the second of `date` */
	char date[HTTP_DATE_MAX];
	double usage_due;          /* share of an answer whose usage is to be read next */
	double retry_budget;       /* retries that may be spent: a share of the requests */
	uint64_t retry_refill_ns;

	/* the kernel datapath; NULL: relay */
	struct splice_worker *splice;
	struct io splice_io;
	struct timer drain_timer;
	uint64_t sweep_ns;

	struct stats_worker *stats;
	uint8_t scratch[WORKER_SCRATCH_BYTES]; /* one read; nobody keeps it */
};

/* Allocates worker `id`; listeners are opened by worker_listen(). */
int worker_create(struct worker **out, struct gateway *gw, unsigned id);
int worker_start(struct worker *w);
void worker_destroy(struct worker *w);

/* Hands `m` to the worker's thread, which calls m->fn once; m belongs to fn then. Any thread. */
void worker_post(struct worker *w, struct mail *m);

/* Makes the loop turn: flags were set that it looks at. Any thread. */
void worker_wake(struct worker *w);

/* Starts to watch io->fd. -errno on failure, the descriptor stays the caller's. */
int io_add(struct worker *w, struct io *io, uint32_t events);
/* Changes what is watched; no system call if it is the same. */
void io_want(struct worker *w, struct io *io, uint32_t events);
/* Stops watching and closes. Harmless if closed already. */
void io_close(struct worker *w, struct io *io);

/* free(mem) at the end of the turn; mem is at least sizeof(struct dead). */
void worker_bury(struct worker *w, void *mem);

/* exchange_due(x) at the end of the turn. All reads and decisions first, then all sends in a row:
 * a peer that the first one has woken is still awake for the others. */
void worker_send_soon(struct worker *w, struct exchange *x);

/* A scanner from the spares or a new one; NULL without memory. */
struct prompt_scan *worker_scan_get(struct worker *w);
void worker_scan_put(struct worker *w, struct prompt_scan *scan);
/* Memory of `bytes` that begins with a parse_block, from the spares or new; NULL without memory. */
void *worker_parse_get(struct worker *w, size_t bytes);
void worker_parse_put(struct worker *w, void *parse);
/* The Date field's value of now; valid until the next call. */
const char *worker_date(struct worker *w);
/* The newest fleet; stays the worker's. */
struct fleet *worker_fleet(struct worker *w);
#endif
