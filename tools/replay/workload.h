/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The workloads: what arrives, how often, at which fleet. Arrivals are Poisson and lengths
 * lognormal unless said otherwise; caches are cold at the start. */
#ifndef KVSTEER_REPLAY_WORKLOAD_H
#define KVSTEER_REPLAY_WORKLOAD_H
#include <stdbool.h>
#include <stdint.h>

#define REPLAY_NODES 7
#define REPLAY_NODES_MAX 16          /* with those that scaling adds */
#define REPLAY_GATEWAYS_MAX 8
#define REPLAY_SIGMA 0.5             /* of lognormal lengths; see workload.c */
#define REPLAY_CHAT_SIGMA 0.9
#define REPLAY_SLOW 0.4              /* speed of nodes 4, 5, 6 of a mixed fleet */
#define REPLAY_CHAT_SYSTEM_TOKENS 256
#define REPLAY_CHAT_TURNS 5          /* mean, geometric */
#define REPLAY_CHAT_TURNS_MAX 100
#define REPLAY_CHAT_THINK_S 30.0     /* mean, exponential */
#define REPLAY_TRACE_RATE 3.4        /* requests a second of the conversation trace at scale 1 */
#define REPLAY_EVENT_DELAY_MS 20     /* gateways learn of each other's decisions so late */
#define REPLAY_SCRAPE_MS 50          /* metrics are read so often (GIE's default), by the daemon's ... */
#define REPLAY_SCRAPE_DAEMON_MS 1000 /* ... policies so often; with several gateways ... */
#define REPLAY_LATE_MIN_MS 100       /* ... they arrive so late */
#define REPLAY_LATE_MAX_MS 500

enum replay_content {
	REPLAY_PREFIXES,             /* a shared prefix and a question of its own */
	REPLAY_CHAT,                 /* conversations, closed inside */
	REPLAY_TRACE,                /* a file in the Mooncake format */
};

struct replay_workload {
	const char *name;
	enum replay_content content;
	double rate;                 /* requests a second, mean */
	uint32_t clients;            /* instead of a rate: a closed loop of so many */
	uint32_t prefixes, prefix_tokens;
	double zipf;
	double hot_share;            /* of requests, to one prefix */
	double question, answer;     /* tokens, mean ... */
	double sigma;                /* ... of lognormals of this shape; 0: REPLAY_SIGMA */
	bool burst;                  /* two-state Poisson: 0.5 x for 15 s, 2.5 x for 5 s */
	bool mixed;                  /* three of the seven nodes are slow */
	uint32_t adapters;           /* LoRA names, dealt to the prefixes in turn; 0: none */
	uint32_t kv_tokens;          /* of a node; 0: the node model's */
	uint32_t gateways;
	double warmup_s, measure_s;  /* requests that arrive in the first are not measured */
	const char *base;            /* the same with one gateway, or NULL */
};

extern const struct replay_workload replay_workloads[];
extern const uint32_t replay_n_workloads;
/* NULL if there is no such name. */
const struct replay_workload *replay_workload_find(const char *name);
double replay_node_speed(const struct replay_workload *w, uint32_t node);
#endif
