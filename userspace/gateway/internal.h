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

struct gateway {
	struct ledger ledger;
	struct fleet_registry registry;

	pthread_mutex_t fleet_lock; /* fleet, and the time between a pool's update and its fleet's publication */
	struct fleet *fleet;
	uint64_t fleet_version; /* atomic, == fleet->version */

	struct worker *workers[GATEWAY_WORKERS_MAX];
	struct stats_worker *stats[GATEWAY_WORKERS_MAX + 1]; /* the workers', then stats_correction */
	struct stats_worker *stats_correction;
	uint64_t row_identity[BACKENDS_MAX_ROWS]; /* which backend a row's counts belong to */
	unsigned n_workers;
	uint64_t max_connections;
	uint64_t connections; /* atomic: client connections of all workers */

	struct scraper *scraper;
	struct access_log *access_log; /* NULL: off */
	struct splice *splice;         /* NULL: relay */
	char splice_why[320];          /* why there is none, or what is not as it should be */
	uint64_t start_ns;
	uint32_t id_seed; /* of request ids: differs from start to start */
	bool draining;    /* atomic */
	bool drain_over;  /* atomic: cut what is left */
	uint64_t drain_until_ns;
};

/* Once per 100 ms and pool, by worker 0: timers of route/, waiting requests. */
void gateway_pool_tick(struct gateway *gw, struct fleet_pool *pool, uint64_t now_ns);
/* True when the worker's loop has nothing left to do. Applies the gateway's drain state to the worker. */
bool worker_done(struct worker *w);

/* A new snapshot for `cfg` (takes a reference). The caller holds fleet_lock;
 * `old` is the present fleet or NULL. On error everything is as before. */
int fleet_build(struct gateway *gw, struct config *cfg, struct fleet *old, struct fleet **out, char *err, size_t err_len);
#endif
