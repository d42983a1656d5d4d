/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Passive health of one node: excluded after failures for a limited time, that
 * doubles; then one request probes it. There is no state without an expiry.
 * Plain state machine; the caller holds the pool's lock. */
#ifndef KVSTEER_ROUTE_HEALTH_H
#define KVSTEER_ROUTE_HEALTH_H
#include <stdbool.h>
#include <stdint.h>

#include "route/pool.h"

#define HEALTH_BACKOFF_MIN_NS 1000000000ull
#define HEALTH_BACKOFF_MAX_NS 30000000000ull
#define HEALTH_PROBE_MAX_NS 30000000000ull /* a probe that says nothing for so long is given up */
#define HEALTH_IN_A_ROW 3
#define HEALTH_WINDOW 20                   /* results */
#define HEALTH_WINDOW_MIN 8                /* results before a share means anything */
#define HEALTH_BUSY_MIN_NS 50000000ull     /* a full engine is passed over for so long, doubling */
#define HEALTH_BUSY_MAX_NS 1000000000ull

struct health {
	uint32_t window;       /* bit per result, 1 failed, newest lowest */
	uint32_t n;            /* results in the window */
	uint32_t in_a_row;
	uint64_t until_ns;     /* excluded until then; 0 not excluded */
	uint64_t backoff_ns;   /* of the last exclusion, halved by each success since */
	uint64_t excluded_ns;  /* length of the last exclusion */
	enum route_result why; /* what began it */
	uint64_t probe_until_ns; /* a probe is under way, at the longest until then; 0 none */
	uint64_t busy_until_ns;  /* it said that it is full: others first until then */
	uint64_t busy_ns;        /* length of that */
};

enum health_verdict {
	HEALTH_OK,
	HEALTH_PROBE,     /* may get one request, as a probe */
	HEALTH_EXCLUDED,
};

enum health_verdict health_check(const struct health *h, uint64_t now_ns);
/* Full a moment ago: healthy, but to be asked after the others. */
bool health_busy(const struct health *h, uint64_t now_ns);
/* A request was sent as probe. / It ended without a result. */
void health_probe_begin(struct health *h, uint64_t now_ns);
void health_probe_end(struct health *h);
void health_result(struct health *h, enum route_result result, uint64_t now_ns);
#endif
