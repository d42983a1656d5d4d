/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections to backends, kept open between requests, per worker and row. */
#ifndef KVSTEER_GATEWAY_UPSTREAM_H
#define KVSTEER_GATEWAY_UPSTREAM_H
#include "base/iobuf.h"
#include "datapath/splice.h"
#include "gateway/worker.h"

struct exchange;

enum upstream_state { UPSTREAM_CONNECTING, UPSTREAM_BUSY, UPSTREAM_IDLE, UPSTREAM_CLOSED };

struct upstream {
	struct dead dead; /* first: see worker_bury() */
	struct io io;
	struct list link; /* of worker.upstreams */
	struct list idle; /* of worker.idle[row] */
	struct conn conn;
	enum upstream_state state;
	uint32_t row;
	struct sockaddr_storage addr;
	socklen_t addr_len;
	bool reused;          /* has served a request before */
	bool got_bytes;       /* of the present answer */
	uint32_t uses_left;   /* by the backend's Keep-Alive: max */
	uint64_t idle_until_ns;
	struct iobuf in;      /* an answer's head that is not complete yet */
	struct exchange *x;   /* while busy */
	struct splice_backend splice;
	int splice_err;       /* why it is not in the map */
};

/* A connection for `x`, idle or (fresh, or when none is idle) new; *err negative errno if NULL.
 * State BUSY (connected) or CONNECTING: exchange_upstream_connected() follows. */
struct upstream *upstream_get(struct worker *w, const struct fleet_backend *b, struct exchange *x, bool fresh, int *err);
/* The exchange is through with it; `idle_ns` > 0: may serve another within that time. */
void upstream_put(struct worker *w, struct upstream *u, uint64_t idle_ns);
void upstream_close(struct worker *w, struct upstream *u);
/* True if some connection still serves a request. */
bool upstream_busy(const struct worker *w);
void upstream_expire_idle(struct worker *w);
void upstream_close_all(struct worker *w);
#endif
