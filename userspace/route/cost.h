/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The cost of a request on one node: predicted time to the first token, plus
 * the price of the congestion that it causes. Pure arithmetic in seconds. */
#ifndef KVSTEER_ROUTE_COST_H
#define KVSTEER_ROUTE_COST_H
#include <stdbool.h>
#include <stdint.h>

#include "route/pool.h"

#define COST_KAPPA 0.5       /* price of recomputing, in prefills, on an idle node ... */
#define COST_OMEGA 2.0       /* ... and for each request that waits there */
#define COST_PHI 0.03        /* price of slowing the decodes of others */
#define COST_TIE_S 0.005     /* costs this near, or ... */
#define COST_TIE_SHARE 0.05  /* ... nearer than this share, are equal: affinity decides */
#define COST_MIN_UNCACHED 16.0
#define COST_ADAPTER_D 0.3   /* an adapter load stalls the decodes of the node too */
#define COST_R_MIN 0.3
#define COST_R_MAX 8.0

struct cost_node {
	double r;                 /* observed over predicted time */
	double work_s, work_tokens; /* W, Wt: own requests without first token */
	bool has_head;            /* the oldest of them: */
	double head_s, head_tokens; /* its share of W, Wt */
	double head_running_s;    /* now - max(last first token, head sent) */
	uint32_t own_unp;         /* their number */
	uint32_t own_decoding;
	uint32_t in_flight;
	/* Fresh snapshot, else known = false. */
	bool known;
	uint32_t waiting, running;
	double kv_used;           /* negative unknown */
	uint32_t own_in_flight_then, own_unp_then;
	double extra_s;
	bool adapter_cold;        /* the request's adapter must be loaded */
};

struct cost_means {
	double prefill_s, uncached_tokens, output_tokens, context_tokens;
};

struct cost_terms {
	double uncached_tokens;   /* U */
	double prefill_s;         /* P: at r = 1 */
	double wait_s;            /* all of ttft that is not r P */
	double ttft_s;
	double congestion_s, decode_s, adapter_s, extra_s;
	double cost_s;
};

/* Prefill seconds of `uncached` tokens at the end of a prompt of `tokens`, at r = 1. */
double cost_prefill_s(const struct route_profile *p, double tokens, double uncached);
/* Terms of a request of `tokens` tokens, `match` of them held by the node. */
void cost_compute(const struct route_profile *p, const struct cost_node *n, const struct cost_means *means,
		  double tokens, double match, double adapter_load_s, struct cost_terms *out);
/* True if `cost` is as good as `least`. */
bool cost_ties(double cost, double least);
#endif
