/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reads the load counters of all backends, in one thread of its own.
 *
 * Each target is read once per interval, at a time of its own within it
 * (jittered, so that the reads of a fleet never bunch up), with at most one
 * request outstanding: a target that stalls delays nobody and piles nothing
 * up. Always GET: vLLM answers HEAD with 405. */
#ifndef KVSTEER_SIGNALS_SCRAPER_H
#define KVSTEER_SIGNALS_SCRAPER_H
#include <stddef.h>
#include <stdint.h>

#include "signals/engine.h"

#define SCRAPE_BODY_MAX_BYTES (4u << 20)
#define SCRAPE_INTERVAL_MIN_NS 250000000ull
#define SCRAPE_TIMEOUT_MAX_NS 5000000000ull
#define SCRAPE_TARGETS_MAX 16384

enum scrape_error {
	SCRAPE_REFUSED,    /* nobody listens, no route, name not found, reset before an answer */
	SCRAPE_TIMEOUT,
	SCRAPE_STATUS,     /* an HTTP status other than 200 */
	SCRAPE_UNPARSABLE, /* no metrics, no load counters in them, or over SCRAPE_BODY_MAX_BYTES */
	SCRAPE_ERRORS,
};
/* "refused", "timeout", "status", "unparsable": values of the metric's label `reason`. */
const char *scrape_error_name(enum scrape_error err);

struct scraper_target {
	const char *url;        /* http://host:port/path of the metrics page */
	uint64_t interval_ns;   /* raised to SCRAPE_INTERVAL_MIN_NS */
	uint64_t timeout_ns;    /* 0: min(4 * interval, SCRAPE_TIMEOUT_MAX_NS) */
	enum engine_kind engine; /* hint; ENGINE_AUTO: recognised from the metrics */
	uint64_t cookie;        /* the caller's name of the backend, handed back */
};

struct scraper_ops {
	/* Both run on the scraper's thread, must not block and must not call the
	 * scraper. `now_ns` is clock_now_ns() at the end of the read. */
	void (*on_sample)(void *ctx, uint64_t cookie, const struct signal_sample *sample, uint64_t now_ns);
	void (*on_error)(void *ctx, uint64_t cookie, enum scrape_error err, uint64_t now_ns);
};

/* Counters since start; `targets` and `outstanding` are gauges. */
struct scraper_stats {
	uint64_t targets;
	uint64_t outstanding;
	uint64_t samples;
	uint64_t errors[SCRAPE_ERRORS];
	uint64_t restarts_seen;  /* samples with `restarted` */
	uint64_t bytes;          /* of bodies */
	uint64_t skipped;        /* turns that came while the read before was still under way */
	uint64_t duration_ns;    /* sum over finished reads, good or bad */
};

struct scraper;

/* Starts the thread, with no targets. Returns 0 or a negative errno. `ops` is
 * copied; `ctx` must outlive the scraper. */
int scraper_create(struct scraper **out, const struct scraper_ops *ops, void *ctx);

/* Replaces the list of targets (all strings are copied). A target with the same
 * cookie and URL as before keeps its memory (engine, counters), schedule and
 * connection. When this returns, no callback for a cookie that is not in the
 * new list runs or will run. Returns 0, -E2BIG beyond SCRAPE_TARGETS_MAX, or
 * -ENOMEM: the old list then stays. The caller must hold no lock that the
 * callbacks take. */
int scraper_set_targets(struct scraper *s, const struct scraper_target *targets, size_t n);

/* A consistent enough copy of the counters, any thread. */
void scraper_stats_get(const struct scraper *s, struct scraper_stats *out);

/* Stops and joins the thread; reads under way are dropped without a callback.
 * Returns within milliseconds. NULL is allowed. */
void scraper_destroy(struct scraper *s);
#endif
