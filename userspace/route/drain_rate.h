/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How many slots a pool releases per second while requests lack one. Pure. */
#ifndef KVSTEER_ROUTE_DRAIN_RATE_H
#define KVSTEER_ROUTE_DRAIN_RATE_H
#include <stdbool.h>
#include <stdint.h>

/* Decayed sums over saturated time only: the pace of an idle pool says nothing
 * about a full one. */
struct drain_rate {
	double releases;
	double seconds;
	uint64_t at_ns; /* until when the sums are up to date */
	bool saturated;
	bool measured; /* a release was seen while saturated: what was assumed is forgotten */
};

void drain_rate_init(struct drain_rate *d);
/* What to assume until the first measurement. */
void drain_rate_assume(struct drain_rate *d, double per_s);
/* A request had to wait or was refused: the pool is saturated from now on. */
void drain_rate_saturated(struct drain_rate *d, uint64_t now_ns);
/* A slot was released; `waiting` requests wait for one. With none, the
 * saturation ends. */
void drain_rate_release(struct drain_rate *d, uint32_t waiting, uint64_t now_ns);
/* Releases per second, an average over about 15 s of saturation; it falls
 * while a saturated pool releases nothing. */
double drain_rate_per_s(const struct drain_rate *d, uint64_t now_ns);
#endif
