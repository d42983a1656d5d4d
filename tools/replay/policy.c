/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/policy.h"

#include <math.h>
#include <string.h>

#define ROUTE(kind)                                                                                                  \
	.scrape_ms = REPLAY_SCRAPE_DAEMON_MS, .variant = ROUTE_POLICY_##kind, .open = replay_route_open,              \
	.close = replay_route_close,                                                                                 \
	.pick = replay_route_pick, .first = replay_route_first, .end = replay_route_end,                             \
	.snapshot = replay_route_snapshot, .members = replay_route_members
#define DYNAMO(weight)                                                                                               \
	.variant = (weight), .open = replay_dynamo_open, .close = replay_match_close, .pick = replay_dynamo_pick,     \
	.first = replay_dynamo_first, .end = replay_dynamo_end
#define ORACLE                                                                                                       \
	.omniscient = true, .open = replay_oracle_open, .close = replay_oracle_close, .pick = replay_oracle_pick,                        \
	.first = replay_oracle_first, .end = replay_oracle_end

const struct replay_policy replay_policies[] = {
	{ "cost", "the daemon's: predicted time plus the price of congestion", .exchange = true, ROUTE(COST) },
	{ "cost_alone", "the same; several gateways know nothing of each other", ROUTE(COST) },
	{ "round_robin", "the daemon's", ROUTE(ROUND_ROBIN) },
	{ "least_request", "the daemon's: own requests in flight", ROUTE(LEAST_REQUEST) },
	{ "weighted", "the daemon's: six weighted signals", ROUTE(WEIGHTED) },
	{ "prefix_aware", "the daemon's: hash of the first 1024 bytes, threshold 64", ROUTE(PREFIX_AWARE) },
	{ "random", "any node", .pick = replay_random_pick },
	{ "p2c", "the less busy of two random nodes, own requests in flight", .pick = replay_p2c_pick },
	{ "least_metrics", "scraped waiting, then running", .pick = replay_metrics_pick },
	{ "consistent_hash", "ring of 100 virtual nodes, first 256 tokens", .open = replay_hash_open,
	  .close = replay_hash_close, .pick = replay_hash_pick, .variant = false },
	{ "chwbl", "ring of 256 virtual nodes with load bound 1.25", .open = replay_hash_open,
	  .close = replay_hash_close, .pick = replay_hash_pick, .variant = true },
	{ "sglang_cache_aware", "longest match above 0.3 unless imbalanced", .open = replay_sglang_open,
	  .close = replay_match_close, .pick = replay_sglang_pick },
	{ "gie_322", "Gateway API Inference Extension scorers 3/2/2", .open = replay_gie_open,
	  .close = replay_match_close, .pick = replay_gie_pick },
	{ "dynamo_w1", "Dynamo's cost, weight 1", DYNAMO(1) },
	{ "dynamo_w8", "Dynamo's cost, weight 8", DYNAMO(8) },
	{ "oracle", "greedy on true caches, queues and speeds", ORACLE },
	{ "pool", "the oracle on one cache that all nodes share", .one_cache = true, ORACLE },
};
const uint32_t replay_n_policies = sizeof(replay_policies) / sizeof(replay_policies[0]);

const struct replay_policy *replay_policy_find(const char *name)
{
	for (uint32_t i = 0; i < replay_n_policies; i++)
		if (!strcmp(replay_policies[i].name, name))
			return &replay_policies[i];
	return NULL;
}

uint32_t replay_pick_least(struct replay_gateway *g, const double *cost)
{
	uint32_t best = UINT32_MAX, equal = 0;

	for (uint32_t i = 0; i < g->fleet->nodes; i++) {
		if (!g->fleet->member[i])
			continue;
		if (best == UINT32_MAX || cost[i] < cost[best]) {
			best = i;
			equal = 1;
		} else if (cost[i] == cost[best] && load_rng_unit(&g->rng) * ++equal < 1) {
			best = i;
		}
	}
	return best;
}
