/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the files of gateway/ share and nobody else sees. */
#ifndef KVSTEER_GATEWAY_INTERNAL_H
#define KVSTEER_GATEWAY_INTERNAL_H
#include <pthread.h>

#include "gateway/gateway.h"
#include "gateway/worker.h"
#include "route/ledger.h"

struct access_log;
struct scraper;
struct splice;

#define GATEWAY_WORKERS_MAX LEDGER_MAX_WORKERS

struct listener_change;
struct name_lookup;
struct prompt_info;

/* What the log was last told of a backend (watch.c). */
struct watch_row {
	uint64_t identity;
	uint64_t excluded_until_ns;
	bool stale;
};

struct gateway {
	struct ledger ledger;
	struct fleet_registry registry;

	pthread_mutex_t fleet_lock; /* fleet, and the time between a pool's update and its fleet's publication */
	struct fleet *fleet;
	uint64_t fleet_version; /* atomic, == fleet->version */

	struct worker *workers[GATEWAY_WORKERS_MAX];
	struct stats_worker *stats[GATEWAY_WORKERS_MAX + 1]; /* the workers', then stats_correction */
	struct stats_worker *stats_correction;
	uint64_t row_identity[BACKENDS_MAX_ROWS]; /* atomic: which backend a row's counts belong to */
	uint64_t slot_identity[STATS_POOLS_MAX]; /* which pool a slot's counts belong to */
	bool unreachable[BACKENDS_MAX_ROWS]; /* atomic: nobody listened there when its counters were last to be read */
	struct watch_row watch[BACKENDS_MAX_ROWS]; /* worker 0's: what was last said of the backend */
	unsigned n_workers;
	uint64_t max_connections;
	uint64_t connections; /* atomic: client connections of all workers */

	struct scraper *scraper;
	struct access_log *access_log;
	struct splice *splice;         /* NULL: relay */
	char splice_why[320];          /* why there is none, or what is not as it should be */
	struct name_lookup *resolving; /* names being asked for again; control thread */
	uint64_t resolve_next_ns;
	uint64_t start_ns;
	uint32_t id_seed; /* of request ids: differs from start to start */
	bool draining;    /* atomic */
	bool drain_over;  /* atomic: cut what is left */
	uint64_t drain_until_ns;
	uint64_t requests_cut; /* atomic: by the end of a drain */
	unsigned rebinding; /* atomic: workers that have not yet come to their change of listeners */
};

/* Once per 100 ms and pool, by worker 0: timers of route/, waiting requests. */
void gateway_pool_tick(struct gateway *gw, struct fleet_pool *pool, uint64_t now_ns);
/* True when the worker's loop has nothing left to do. Applies the gateway's drain state to the worker. */
bool worker_done(struct worker *w);

/* Builds the fleet of `cfg` and makes it the present one; drops the gateway's reference of `old`.
 * Control thread. On error everything is as before. */
int gateway_publish(struct gateway *gw, struct config *cfg, struct fleet *old, char *err, size_t err_len);

/* ---- rebind.c ---- */
/* Binds what `cfg` has and `old` (NULL: nothing) had not, once per worker, into changes[0..n_workers). */
int listeners_bind(struct gateway *gw, struct config *cfg, const struct config *old, struct listener_change **changes,
		   char *err, size_t err_len);
/* Gives the worker its new listeners and takes those that `cfg` has not. `running`: its loop does it. */
void listeners_apply(struct worker *w, struct listener_change *ch, struct config *cfg, bool running);
void listeners_forget(struct listener_change *ch);

/* ---- watch.c ---- */
/* Logs what has become of the pool's backends since the last call. Worker 0. */
void watch_pool(struct gateway *gw, struct fleet_pool *pool, uint64_t now_ns);

/* ---- resolve.c ---- */
/* Resolves the backends' names, once; logs those that have no address. Blocks. */
void gateway_resolve(struct config *cfg);
/* The address that the names asked for again have got meanwhile; false: none. */
bool resolve_found(const struct gateway *gw, const struct config_backend *b, struct sockaddr_storage *sa, socklen_t *len);
void resolve_abandon(struct gateway *gw);

/* ---- decide.c ---- */
/* The placement key that a request brings itself: the first session header that it has, else what its body
 * says; 0: none. */
uint64_t session_key(const struct config_pool *pool, const struct prompt_info *info, gateway_header_fn *header, const void *ctx);

/* A new snapshot for `cfg` (takes a reference). The caller holds fleet_lock;
 * `old` is the present fleet or NULL. On error everything is as before. */
int fleet_build(struct gateway *gw, struct config *cfg, struct fleet *old, struct fleet **out, char *err, size_t err_len);
#endif
