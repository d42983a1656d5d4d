/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Inside of route/: what assigning and ending a request share. */
#ifndef KVSTEER_ROUTE_TICKET_H
#define KVSTEER_ROUTE_TICKET_H
#include "route/pool_internal.h"

/* Undoes the ticket's share in its node's work; its index entries are kept as
 * real (`keep_index`) or taken back, unless that is decided already. Leaves the
 * ledger slot and `state` alone. */
void ticket_leave_node(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, bool keep_index);
#endif
