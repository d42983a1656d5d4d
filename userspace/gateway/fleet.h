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
#include "gateway/stats.h"
#include "route/pool.h"
#include "route/queue.h"

/* The pools that any fleet still has, by statistics slot. */
struct fleet_registry {
	pthread_mutex_t lock;
	struct fleet_pool_state *by_slot[STATS_POOLS_MAX]; /* [0] unused */
};

/* What a pool keeps over reloads, matched by name. */
struct fleet_pool_state {
	uint32_t refs;            /* fleets and callers that have it; guarded by registry->lock */
	struct fleet_registry *registry;
	uint32_t slot;            /* of the statistics; 1.. */
	char name[128];
	struct route_pool *route;
	uint64_t releases;        /* atomic: slots given back; see exchange_requeue() */
	uint32_t waiting;         /* atomic: queue.len, for a look without the lock */
	bool queueless;           /* atomic: nothing may wait, queue.limit is 0 */
	pthread_mutex_t queue_lock;
	struct queue queue;       /* requests that wait for a slot; guarded by queue_lock */
};

struct fleet_backend {
	const struct config_backend *cfg;
	uint32_t node;            /* of the pool */
	uint32_t row;             /* of the backend table */
	struct sockaddr_storage addr;
	socklen_t addr_len;       /* 0: its name has no address */
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

/* The state in `slot` with a reference, or NULL. Any thread. */
struct fleet_pool_state *fleet_state_get(struct fleet_registry *r, uint32_t slot);
void fleet_state_put(struct fleet_pool_state *s);

void fleet_ref(struct fleet *f);
void fleet_put(struct fleet *f);

/* A request's model, resolved. Strings live as long as the fleet (or `model` itself). */
struct fleet_model {
	const char *served; /* the name that the engine knows: an alias resolved */
	const char *base;   /* the base model whose weights serve it */
	bool adapter;       /* `served` is an adapter */
	bool alias;         /* the client used an alias */
};

/* The pool that serves `model`. NULL or empty: the default pool. NULL is returned if no
 * pool serves it. */
struct fleet_pool *fleet_pool_for_model(const struct fleet *f, const char *model, struct fleet_model *m);
/* The same names in another snapshot of the pool `p`. */
void fleet_rename(const struct fleet *f, const struct fleet_pool *p, const char *model, struct fleet_model *m);
/* The backend of this pool in row `row`, or NULL. */
const struct fleet_backend *fleet_pool_backend(const struct fleet_pool *p, uint32_t row);
#endif
