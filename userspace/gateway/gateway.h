/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The gateway: listeners, workers, client and backend connections. This header
 * is all that control/ and cmd/ see of it. */
#ifndef KVSTEER_GATEWAY_GATEWAY_H
#define KVSTEER_GATEWAY_GATEWAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/fleet.h"
#include "gateway/stats.h"

struct config;
struct gateway;
struct route_explain_row;

/* Resolves backends (one without an address gets no request), binds listeners, allocates tables. Takes its own reference
 * of `cfg`. 0, or a negative errno with a one-line message in `err`. */
int gateway_create(struct gateway **out, struct config *cfg, char *err, size_t err_len);
/* Starts the workers and the scraper: from here requests are answered. */
int gateway_start(struct gateway *gw);

/* Swaps in a new configuration at once for new requests; requests under way
 * keep the old one. Pools and backends are matched by name and keep index,
 * learned speeds and in-flight. Nothing changes when it fails (negative errno,
 * message in `err`). `workers` and `limits.connections` need a restart. A backend whose
 * name can't be resolved now keeps the address that it had. Control thread only. */
int gateway_reload(struct gateway *gw, struct config *cfg, char *err, size_t err_len);

/* Asks again for the addresses of names that had none, in the background, every 10 s; takes in what
 * was found. To be called at or after the time that it returned last (UINT64_MAX: nothing to do
 * before the next reload). Control thread only. */
uint64_t gateway_resolve_again(struct gateway *gw, uint64_t now_ns);

/* Stops accepting, closes idle connections; requests under way go on until they
 * end or `timeouts.drain` is over, then they are cut visibly. Returns at once. */
void gateway_drain(struct gateway *gw);
bool gateway_draining(const struct gateway *gw);
/* True when every worker has ended after gateway_drain(). */
bool gateway_drained(const struct gateway *gw);
/* Cuts what is left, joins all threads, frees everything. */
void gateway_destroy(struct gateway *gw);

/* The present fleet: a reference that the caller gives back with fleet_put(). */
struct fleet *gateway_fleet_get(struct gateway *gw);

/* Statistics blocks to sum (n of them: the workers' and one of corrections), valid until gateway_destroy(). */
struct stats_worker *const *gateway_stats(const struct gateway *gw, unsigned *n);
/* Reads of the engines' counters since the start: those that gave figures, those that failed, by
 * reason, and the time that all of them took. Any thread. */
#define GATEWAY_SCRAPE_REASONS 4
struct gateway_scrape_view {
	uint64_t samples;
	struct {
		const char *reason;
		uint64_t count;
	} errors[GATEWAY_SCRAPE_REASONS];
	uint64_t duration_ns;
};
void gateway_scrape_view(const struct gateway *gw, struct gateway_scrape_view *out);
uint64_t gateway_start_ns(const struct gateway *gw);
/* True if it does not drain, and one backend at least of some pool can take requests: neither
 * excluded, without address, nor found with nobody listening when its counters were to be read. */
bool gateway_ready(struct gateway *gw);
/* Nobody listened at this row's backend when its counters were last to be read. Any thread. */
bool gateway_unreachable(const struct gateway *gw, uint32_t row);
/* Access log lines that their sink refused. Any thread. */
uint64_t gateway_log_lost(const struct gateway *gw);

/* Live request slots by the ledger and the sum of the rows' in_flight counters. Each is read
 * by itself, while requests come and go: gateway_ledger_mismatches() compares exactly. */
struct gateway_ledger_view {
	uint32_t live_slots;
	uint32_t in_flight;
	uint64_t refused_releases;
};
void gateway_ledger_view(struct gateway *gw, struct gateway_ledger_view *out);
/* Backends whose in_flight differs from their live slots, counted with each pool at rest:
 * 0, or something is wrong. O(slots) a pool under its lock: for doctor. */
uint32_t gateway_ledger_mismatches(struct gateway *gw);

/* The value of a request's first header of that name (any case) and its length; NULL: it has none. */
typedef const char *gateway_header_fn(const void *ctx, const char *name, size_t *len);

/* Routes the request body of a POST to `path` with the headers that header(ctx, ...) finds as a dry run.
 * On success *out is filled and the caller calls gateway_explain_free().
 * -ENOENT: no pool serves the model (err names it); -EINVAL: not an inference path. */
struct gateway_explain {
	struct fleet *fleet;
	struct fleet_pool *pool;
	uint32_t tokens;
	uint32_t blocks;
	unsigned n;
	struct route_explain_row *rows;
};
int gateway_explain(struct gateway *gw, const char *path, const uint8_t *body, size_t len, gateway_header_fn *header,
		    const void *ctx, struct gateway_explain *out, char *err, size_t err_len);
void gateway_explain_free(struct gateway_explain *e);

/* Sets or clears the drain mark of the backend named `name` (or its address)
 * in every pool that has it. -ENOENT if none has. */
int gateway_backend_drain(struct gateway *gw, const char *name, bool drain);
#endif
