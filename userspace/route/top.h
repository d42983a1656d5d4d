/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The pool's hottest prefixes, for the operator: hashes, never text. */
#ifndef KVSTEER_ROUTE_TOP_H
#define KVSTEER_ROUTE_TOP_H
#include <stdint.h>

struct route_pool;

struct route_top_row {
	uint64_t hash;	 /* of one of the prefix's leading blocks */
	uint32_t blocks; /* leading blocks that came together in every prompt that had one of them */
	uint32_t nodes;	 /* that hold the block, by the index */
	double requests; /* decayed count, time constant HEAT_TAU_S */
	double share;	 /* of the pool's traffic, 0..1 */
};

/* The hottest prefixes first, at most n. Returns how many were written, or -ENOMEM.
 * Takes the pool's lock twice, each time for microseconds. */
int route_prefix_top(struct route_pool *pool, uint64_t now_ns, struct route_top_row *rows, uint32_t n);
#endif
