/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which prefixes are hot: decayed counts of the first blocks of prompts, in a
 * fixed table. A prefix that takes more than HEAT_HOT_SHARE of the traffic must
 * not place its requests all on one node, so placement looks behind it. */
#ifndef KVSTEER_ROUTE_HEAT_H
#define KVSTEER_ROUTE_HEAT_H
#include <stdint.h>

#define HEAT_TAU_S 30.0
#define HEAT_BLOCKS 8        /* of each prompt are counted */
#define HEAT_HOT_SHARE 0.10
#define HEAT_MIN_TOTAL 20.0  /* decayed requests below which a share means nothing */
#define HEAT_SETS 1024
#define HEAT_WAYS 4

struct heat_entry {
	uint64_t hash;
	uint64_t when_ns;
	double count;
};

struct heat {
	double total;
	uint64_t when_ns;
	struct heat_entry set[HEAT_SETS][HEAT_WAYS];
};

/* Counts one request with this chain. The coldest entry of a set gives way. */
void heat_add(struct heat *h, const uint64_t *hash, uint32_t n, uint64_t now_ns);
/* Share of traffic, 0..1, that has the block; 0 while too little was seen. */
double heat_share(const struct heat *h, uint64_t hash, uint64_t now_ns);
#endif
