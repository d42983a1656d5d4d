/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

int view_open(struct view *v, struct gateway *gw)
{
	memset(v, 0, sizeof(*v));
	v->gw = gw;
	v->now_ns = clock_now_ns();
	v->fleet = gateway_fleet_get(gw);
	v->pools = calloc(v->fleet->npools ? v->fleet->npools : 1, sizeof(*v->pools));
	if (!v->pools) {
		view_close(v);
		return -ENOMEM;
	}
	v->workers = gateway_stats(gw, &v->n_workers);
	stats_worker_sum(v->workers, v->n_workers, &v->sum);
	v->sum.log_dropped += gateway_log_lost(gw);
	gateway_ledger_view(gw, &v->ledger);
	for (unsigned i = 0; i < v->fleet->npools; i++) {
		struct fleet_pool *p = &v->fleet->pools[i];
		struct view_pool *vp = &v->pools[i];

		vp->backends = calloc(ROUTE_MAX_NODES, sizeof(*vp->backends));
		if (!vp->backends) {
			view_close(v);
			return -ENOMEM;
		}
		v->n_pools = i + 1;
		vp->cfg = p->cfg;
		vp->slot = p->state->slot;
		vp->n_backends = route_pool_status(p->state->route, v->now_ns, &vp->status, vp->backends,
						   ROUTE_MAX_NODES);
		pthread_mutex_lock(&p->state->queue_lock);
		vp->queued = p->state->queue.len;
		pthread_mutex_unlock(&p->state->queue_lock);
	}
	return 0;
}

void view_close(struct view *v)
{
	for (unsigned i = 0; v->pools && i < v->n_pools; i++)
		free(v->pools[i].backends);
	free(v->pools);
	if (v->fleet)
		fleet_put(v->fleet);
	memset(v, 0, sizeof(*v));
}

const char *view_state_name(uint32_t state)
{
	static const char *const names[] = {
		[BACKEND_FREE] = "free",
		[BACKEND_READY] = "ready",
		[BACKEND_DRAINING] = "draining",
		[BACKEND_EXCLUDED] = "excluded",
		[BACKEND_GONE] = "gone",
		[BACKEND_PROBING] = "probing",
		[BACKEND_UNRESOLVED] = "unresolved",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "unknown";
}
