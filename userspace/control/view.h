/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One look at the running gateway: what metrics, status, page and doctor are made
 * from, so that each of them tells of one moment. */
#ifndef KVSTEER_CONTROL_VIEW_H
#define KVSTEER_CONTROL_VIEW_H
#include <stdint.h>

#include "gateway/gateway.h"
#include "route/pool.h"

struct view_pool {
	const struct config_pool *cfg;
	uint32_t slot;	/* of the statistics */
	uint32_t queued;
	struct route_pool_status status;
	struct route_backend_status *backends;
	unsigned n_backends;
};

struct view {
	struct gateway *gw;
	struct fleet *fleet; /* a reference */
	uint64_t now_ns;
	struct view_pool *pools;
	unsigned n_pools;
	struct stats_worker *const *workers;
	unsigned n_workers;
	struct stats_worker sum; /* of all workers; its pointers are unused */
	struct gateway_ledger_view ledger;
};

/* 0 or -ENOMEM. Locks each pool for microseconds. Free with view_close(). */
int view_open(struct view *v, struct gateway *gw);
void view_close(struct view *v);

/* "ready", "draining", "excluded", "gone", "probing", "unresolved". */
const char *view_state_name(uint32_t state);
#endif
