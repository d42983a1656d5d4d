/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fleet: one immutable snapshot of the configuration together with what
 * lives longer than it (pools with their index, rows of the backend table).
 * A reload makes a new fleet; requests keep the one they started with. */
#ifndef KVSTEER_GATEWAY_FLEET_H
#define KVSTEER_GATEWAY_FLEET_H
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "config/config.h"
#include "route/pool.h"
#include "route/queue.h"

/* What a pool keeps over reloads, matched by name. */
struct fleet_pool_state {
	uint32_t refs;
	uint32_t slot;            /* of the statistics; 1.. */
	char name[128];
	struct route_pool *route;
	pthread_mutex_t queue_lock;
	struct route_queue queue; /* requests that wait for a slot; guarded by queue_lock */
};

struct fleet_backend {
	const struct config_backend *cfg;
	uint32_t row;             /* of the backend table */
	struct sockaddr_storage addr;
	socklen_t addr_len;
};

struct fleet_pool {
	const struct config_pool *cfg;
	struct fleet_pool_state *state;
	struct fleet_backend *backends; /* in the order of the configuration, as route_pool's nodes */
	unsigned nbackends;
};

struct fleet {
	uint32_t refs;
	uint64_t version;
	struct config *cfg;
	struct fleet_pool *pools;
	unsigned npools;
};

void fleet_ref(struct fleet *f);
void fleet_put(struct fleet *f);

/* The pool that serves `model`, and as what: `*served` is the name that the
 * engine knows it by (an alias resolved), `*base` the base model's weights,
 * `*adapter` true if `served` is an adapter of the pool. An empty model goes to the default pool
 * or to the only one. NULL: no pool serves it. */
struct fleet_pool *fleet_pool_for_model(const struct fleet *f, const char *model, const char **served, const char **base,
					bool *adapter);
/* The backend of this fleet in row `row`, or NULL. */
const struct fleet_backend *fleet_backend_by_row(const struct fleet *f, uint32_t row);
#endif
