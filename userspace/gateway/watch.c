/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tells the log what becomes of backends: from ten looks a second, since what changes a backend's
 * state (an answer, a scrape, the clock) has other things to do than to log. */
#include "base/clock.h"
#include "base/log.h"
#include "gateway/internal.h"

static void watch_row(struct watch_row *seen, const char *pool, const struct route_health_row *now)
{
	if (now->excluded_until_ns && now->excluded_until_ns != seen->excluded_until_ns)
		log_warn("backend_excluded", "pool=%s backend=%s reason=%s for_s=%.1f", pool, now->name, now->why,
			 (double)now->excluded_ns / (double)NSEC_PER_SEC);
	else if (!now->excluded_until_ns && seen->excluded_until_ns)
		log_info("backend_back", "pool=%s backend=%s", pool, now->name);
	if (now->stale && !seen->stale)
		log_warn("backend_stale", "pool=%s backend=%s its load counters are too old, own counts go on", pool, now->name);
	else if (!now->stale && seen->stale)
		log_info("backend_fresh", "pool=%s backend=%s", pool, now->name);
	seen->excluded_until_ns = now->excluded_until_ns;
	seen->stale = now->stale;
}

void watch_pool(struct gateway *gw, struct fleet_pool *pool, uint64_t now_ns)
{
	struct route_health_row rows[ROUTE_MAX_NODES];
	uint32_t n = route_pool_health(pool->state->route, now_ns, rows, ROUTE_MAX_NODES);

	for (uint32_t i = 0; i < n; i++) {
		struct watch_row *seen = &gw->watch[rows[i].row];
		uint64_t identity = __atomic_load_n(&gw->row_identity[rows[i].row], __ATOMIC_RELAXED);

		if (seen->identity != identity)
			*seen = (struct watch_row){ .identity = identity };
		watch_row(seen, pool->cfg->name, &rows[i]);
	}
}
