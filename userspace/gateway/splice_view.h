/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel datapath as metrics, status and doctor show it. */
#ifndef KVSTEER_GATEWAY_SPLICE_VIEW_H
#define KVSTEER_GATEWAY_SPLICE_VIEW_H
#include "datapath/splice.h"
#include "gateway/stats.h"

struct gateway;

struct gateway_splice_view {
	bool on;          /* loaded, and its self-test passed at the start */
	const char *why;  /* why not ("configured": by `datapath: relay`), or a remark ("": none) */
	const char *pin;  /* where its maps are pinned, NULL: nowhere */
	struct splice_worker_stats workers; /* sums */
	struct splice_counts kernel;
};
/* Any thread; the strings are valid until gateway_destroy(). */
void gateway_splice_view(struct gateway *gw, struct gateway_splice_view *out);
/* The metric's label. */
const char *stats_fallback_name(enum stats_fallback why);
#endif
