/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Listening sockets: one per worker and address, spread by SO_REUSEPORT. */
#ifndef KVSTEER_GATEWAY_LISTENER_H
#define KVSTEER_GATEWAY_LISTENER_H
#include "gateway/worker.h"

struct listener {
	struct dead dead; /* first: see worker_bury() */
	struct io io;
	struct listener *next;
	struct worker *w;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	bool keep; /* while a reload compares lists */
};

/* A bound, listening, non-blocking socket, or negative errno. `first`: -EADDRINUSE where anybody,
 * this process included, listens there already; else it joins the listeners of this user. */
int listener_bind(const struct sockaddr *addr, socklen_t len, bool first);
/* Gives the worker a listener on `fd` (taken over, closed on failure). Before the
 * loop runs, or on its thread. */
int listener_add(struct worker *w, int fd, const struct sockaddr *addr, socklen_t len);
/* Takes what waits in the accept queues, then stops accepting. */
void listener_close(struct worker *w, struct listener *l);
void listener_close_all(struct worker *w);
#endif
