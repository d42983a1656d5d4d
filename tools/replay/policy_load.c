/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Baselines that look at load alone. */
#include "replay/policy.h"

static uint32_t random_member(struct replay_gateway *g, uint32_t but)
{
	uint32_t node, n = 0;

	for (uint32_t i = 0; i < g->fleet->nodes; i++)
		n += g->fleet->member[i] && i != but;
	if (!n)
		return but;
	n = (uint32_t)(load_rng_unit(&g->rng) * n);
	for (node = 0;; node++)
		if (g->fleet->member[node] && node != but && !n--)
			return node;
}

uint32_t replay_random_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	return random_member(g, UINT32_MAX);
}

uint32_t replay_p2c_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	uint32_t a = random_member(g, UINT32_MAX), b = random_member(g, a);

	return g->in_flight[b] < g->in_flight[a] ? b : a;
}

uint32_t replay_metrics_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns)
{
	double cost[REPLAY_NODES_MAX];

	for (uint32_t i = 0; i < g->fleet->nodes; i++)
		cost[i] = g->waiting[i] * 1e6 + g->running[i];
	return replay_pick_least(g, cost);
}
