/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel datapath in the gateway: which answers it may move, and what happens
 * when it gives one back. All of it does nothing where there is none. */
#ifndef KVSTEER_GATEWAY_SPLICE_H
#define KVSTEER_GATEWAY_SPLICE_H
#include "gateway/client.h"
#include "gateway/exchange.h"
#include "gateway/upstream.h"
#include "gateway/worker.h"

struct config;
struct gateway;

/* Loads and tests the datapath by cfg->datapath. 0 also where it is not to be had, unless
 * `splice` was demanded: negative errno with a message then. */
int gateway_splice_open(struct gateway *gw, const struct config *cfg, char *err, size_t err_len);

void worker_splice_close(struct worker *w);
/* In this order in each turn: events first, reap when descriptors are closed. */
void worker_splice_events(struct worker *w);
void worker_splice_reap(struct worker *w);
void worker_splice_tick(struct worker *w);
/* c waits for its drain: looks now. True if something came of it. */
bool worker_splice_drains(struct worker *w, struct client *c);

/* Before a client's end is handled: an answer that has reached it whole is complete, although
 * nobody has said so yet. May end the exchange, and the connection. */
void client_splice_settle(struct client *c);

/* A connection to a backend is up: into the map, before its first request. */
void upstream_splice(struct upstream *u, struct worker *w);

/* The head is here: may the kernel move the body? Counts why not. */
void exchange_splice_plan(struct exchange *x);
/* Everything read is with the client: offers the rest to the kernel if it is worth it. */
void exchange_offer(struct exchange *x);
/* The backend of a stream that the kernel owns has sent its FIN, or reset. */
void exchange_splice_fin(struct exchange *x);
/* Takes the stream back from the kernel, whatever it does. */
void exchange_splice_back(struct exchange *x);
/* The kernel has moved something lately: the deadline is moved. */
bool exchange_splice_alive(struct exchange *x, uint64_t now_ns);
/* Redirected bytes are still on their way to c: exchange_drain() is called when they are not. */
bool client_splice_draining(struct client *c);
#endif
