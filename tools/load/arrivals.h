/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* When requests are meant to be sent. The times depend on the seed and on
 * nothing that the server does. */
#ifndef KVSTEER_LOAD_ARRIVALS_H
#define KVSTEER_LOAD_ARRIVALS_H
#include <stdbool.h>
#include <stdint.h>

#include "load/rng.h"

/* Two-state Poisson of the burst workload: 0.5 x for 15 s, 2.5 x for 5 s, mean 1 x. */
#define LOAD_BURST_LOW 0.5
#define LOAD_BURST_LOW_S 15.0
#define LOAD_BURST_HIGH 2.5
#define LOAD_BURST_HIGH_S 5.0

enum load_arrival_kind {
	LOAD_ARRIVE_STEADY,
	LOAD_ARRIVE_BURST,
	LOAD_ARRIVE_CONVERSATIONS,
};

struct load_arrivals {
	enum load_arrival_kind kind;
	double rate;       /* requests/s, mean */
	bool poisson;      /* else even gaps */
	double time_scale; /* shortens the burst's periods and the conversations' cycle */
	double comeback;   /* conversations: probability that an answer is followed by a further turn */
	double cycle_s;    /* conversations: mean time from one turn to the next */
	double t_s;        /* the last arrival */
	uint64_t n;
	struct load_rng rng;
};

/* Seconds since the start of the next arrival; never decreasing.
 *
 * Conversations: what arrives are *new* conversations, while further turns come back by
 * themselves, at rate * comeback once the system has filled up. So that requests come at
 * `rate` from the first second on, new ones start at the full rate and fall to
 * rate * (1 - comeback) as the first ones begin to come back (exponential, mean cycle_s). */
double load_arrivals_next(struct load_arrivals *a);
#endif
