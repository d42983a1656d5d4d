/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Figures of many requests, and their quantiles. */
#ifndef KVSTEER_REPLAY_SERIES_H
#define KVSTEER_REPLAY_SERIES_H
#include <stdint.h>

struct replay_series {
	double *v;
	uint32_t n, room;
};

void replay_series_add(struct replay_series *s, double v);
/* Sorts. NAN of an empty series. */
double replay_series_quantile(struct replay_series *s, double q);
/* The median of n values, which are sorted. */
double replay_median(double *v, uint32_t n);
#endif
