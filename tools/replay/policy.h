/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The policies that a replay compares: the daemon's own (policy_route.c) and the baselines, by their
 * published parameters. A gateway is one instance of a policy with what that gateway can know;
 * the oracle and the pool see the fleet itself. */
#ifndef KVSTEER_REPLAY_POLICY_H
#define KVSTEER_REPLAY_POLICY_H
#include <stdbool.h>
#include <stdint.h>

#include "load/rng.h"
#include "node/node.h"
#include "replay/source.h"
#include "replay/workload.h"
#include "route/pool.h"

struct replay_fleet {
	const struct replay_workload *w;
	struct node *node[REPLAY_NODES_MAX];
	uint64_t step_end_ns[REPLAY_NODES_MAX]; /* UINT64_MAX: idle */
	bool member[REPLAY_NODES_MAX];          /* new requests may go there */
	double speed[REPLAY_NODES_MAX];
	uint32_t nodes;                         /* numbers in use */
	uint32_t kv_tokens;
};

struct replay_request {
	struct replay_talk *talk;
	uint64_t at_ns, first_ns;
	const uint64_t *block;          /* full 16-token blocks of the prompt */
	uint32_t blocks;
	uint32_t prompt_tokens, output_tokens, cached_tokens;
	uint32_t gateway, node;
	bool first, measured;
	uint32_t prev, next;            /* list of those that run, oldest first */
	/* The policy's. */
	struct route_ticket ticket;
	uint32_t uncached_tokens;
	uint64_t order;
};

struct replay_gateway;

struct replay_policy {
	const char *name;
	const char *what;
	bool one_cache;                 /* the nodes' caches are one */
	bool omniscient;                /* sees the truth: one instance decides for all gateways */
	bool exchange;                  /* gateways learn of each other's decisions */
	uint32_t scrape_ms;             /* how often metrics are read; 0: REPLAY_SCRAPE_MS */
	int variant;                    /* the policy's own: a weight, an enum route_policy */
	void (*open)(struct replay_gateway *g);
	void (*close)(struct replay_gateway *g);
	/* Picks a member and commits. */
	uint32_t (*pick)(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
	/* The rest may be NULL. */
	void (*first)(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
	void (*end)(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
	void (*snapshot)(struct replay_gateway *g, uint32_t node, const struct node_stats *st, uint64_t now_ns);
	void (*members)(struct replay_gateway *g, uint64_t now_ns);
};

struct replay_gateway {
	const struct replay_policy *policy;
	const struct replay_fleet *fleet;
	uint32_t number, gateways;
	struct load_rng rng;
	/* Where events for the other gateways go. */
	void (*event)(void *ctx, uint32_t gateway, const struct route_event *ev);
	void *event_ctx;
	/* What every gateway keeps, whatever its policy: own requests and the last metrics. */
	uint32_t in_flight[REPLAY_NODES_MAX];
	uint32_t waiting[REPLAY_NODES_MAX], running[REPLAY_NODES_MAX];
	double kv_used[REPLAY_NODES_MAX];
	void *state;
};

extern const struct replay_policy replay_policies[];
extern const uint32_t replay_n_policies;
/* NULL if there is no such name. */
const struct replay_policy *replay_policy_find(const char *name);

/* The member of least cost; equal ones at random. */
uint32_t replay_pick_least(struct replay_gateway *g, const double *cost);

/* policy_route.c: what another gateway did, as it arrives. */
void replay_route_apply(struct replay_gateway *g, uint32_t from, const struct route_event *ev, uint64_t now_ns);

/* Parameters of the baselines. */
#define REPLAY_KEY_TOKENS 256           /* consistent_hash, chwbl: the key is so much of the prompt */
#define REPLAY_RING_NODES 100           /* consistent_hash: virtual nodes of a node */
#define REPLAY_CHWBL_NODES 256
#define REPLAY_CHWBL_FACTOR 1.25
#define REPLAY_SGLANG_ABSOLUTE 64       /* imbalanced: max - min above this and */
#define REPLAY_SGLANG_RELATIVE 1.5      /* max above this x min */
#define REPLAY_SGLANG_MATCH 0.3
#define REPLAY_SGLANG_TOKENS 4000000u   /* the tree holds, LRU */
#define REPLAY_GIE_PREFIX 3
#define REPLAY_GIE_QUEUE 2
#define REPLAY_GIE_KV 2
#define REPLAY_GIE_ADAPTER 1
#define REPLAY_GIE_BLOCK_TOKENS 64u
#define REPLAY_GIE_BLOCKS 31250u        /* of a node, LRU */
#define REPLAY_DYNAMO_TTL_S 120
#define REPLAY_ORACLE_KAPPA 1.0
#define REPLAY_ORACLE_PHI 0.02
#define REPLAY_ORACLE_OMEGA 1.0

void replay_route_open(struct replay_gateway *g);
void replay_route_close(struct replay_gateway *g);
uint32_t replay_route_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
void replay_route_first(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
void replay_route_end(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
void replay_route_snapshot(struct replay_gateway *g, uint32_t node, const struct node_stats *st, uint64_t now_ns);
void replay_route_members(struct replay_gateway *g, uint64_t now_ns);

uint32_t replay_p2c_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
uint32_t replay_random_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
uint32_t replay_metrics_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);

void replay_hash_open(struct replay_gateway *g);
void replay_hash_close(struct replay_gateway *g);
uint32_t replay_hash_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);

void replay_sglang_open(struct replay_gateway *g);
void replay_gie_open(struct replay_gateway *g);
void replay_dynamo_open(struct replay_gateway *g);
void replay_match_close(struct replay_gateway *g);
uint32_t replay_sglang_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
uint32_t replay_gie_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
uint32_t replay_dynamo_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
void replay_dynamo_first(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
void replay_dynamo_end(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);

void replay_oracle_open(struct replay_gateway *g);
void replay_oracle_close(struct replay_gateway *g);
uint32_t replay_oracle_pick(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
void replay_oracle_first(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
void replay_oracle_end(struct replay_gateway *g, struct replay_request *q, uint64_t now_ns);
#endif
