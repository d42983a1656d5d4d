/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The wire between gateways: every event of one reaches all others, in order, so much later. */
#ifndef KVSTEER_REPLAY_EXCHANGE_H
#define KVSTEER_REPLAY_EXCHANGE_H
#include "replay/policy.h"

struct replay_exchange;

struct replay_exchange *replay_exchange_new(void);
void replay_exchange_free(struct replay_exchange *x);
/* Takes a copy of the event. */
void replay_exchange_send(struct replay_exchange *x, uint32_t gateway, const struct route_event *ev);
/* When the next one arrives; UINT64_MAX: none is under way. */
uint64_t replay_exchange_next_ns(const struct replay_exchange *x);
/* Hands it to the gateways. */
void replay_exchange_deliver(struct replay_exchange *x, struct replay_gateway *g, uint32_t gateways);
#endif
