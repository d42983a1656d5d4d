/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Requests under way, as the ledger has them: for kvsteerctl. */
#ifndef KVSTEER_GATEWAY_FLOWS_H
#define KVSTEER_GATEWAY_FLOWS_H
#include <stdint.h>

#include "kvsteer/backends_abi.h"
#include "kvsteer/ledger_abi.h"

struct gateway;

struct gateway_flow {
	uint32_t slot, generation;
	uint32_t state; /* enum ledger_state */
	uint32_t worker;
	uint64_t age_ns;
	char pool[BACKEND_POOL_BYTES];	  /* "" while queued */
	char backend[BACKEND_NAME_BYTES]; /* "" while queued */
};

/* At most n of the live slots; *live gets the number of all. Each row is read while
 * requests go on: a slot that ends meanwhile is left out. Returns how many were written. */
uint32_t gateway_flows(struct gateway *gw, uint64_t now_ns, struct gateway_flow *out, uint32_t n, uint32_t *live);
#endif
