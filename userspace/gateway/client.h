/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A client connection: reads requests one after the other; each becomes an
 * exchange, which owns the connection until its answer has gone out. */
#ifndef KVSTEER_GATEWAY_CLIENT_H
#define KVSTEER_GATEWAY_CLIENT_H
#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/iobuf.h"
#include "datapath/splice.h"
#include "gateway/worker.h"

struct exchange;

enum client_state {
	CLIENT_IDLE,   /* no byte of a request yet */
	CLIENT_HEAD,   /* reading a head */
	CLIENT_BODY,   /* reading a body */
	CLIENT_ANSWER, /* the request is read; its answer is due or on its way */
	CLIENT_LINGER, /* answered and shut down: what still comes is thrown away */
	CLIENT_TUNNEL, /* reserved: bytes both ways after an upgrade */
	CLIENT_CLOSED,
};

#define CLIENT_READ_BYTES (16u << 10) /* one read of a head and what follows it */

struct client {
	struct dead dead; /* first: see worker_bury() */
	struct io io;
	struct list link; /* of worker.clients */
	struct worker *w;
	struct conn conn;
	enum client_state state;
	bool fin;         /* the client has shut down its side (client_half_close: deliver) */
	bool close_after; /* no further request on this connection */
	bool served;      /* has had an answer */
	bool parsing;     /* client_parse_head() is at work further up the stack */
	bool trusted;     /* peer is one of trusted_proxies */
	bool reading;     /* EPOLLIN wanted */
	bool writing;     /* EPOLLOUT wanted */
	struct timer timer;
	uint64_t deadline_ns;
	uint32_t lingered_bytes;
	struct iobuf in;     /* bytes read and not yet understood */
	struct exchange *x;  /* NULL while idle or lingering */
	struct splice_client splice;
	uint64_t peer_hash;  /* of the address without the port: the tenant of the queue */
	char peer[INET6_ADDRSTRLEN];
};

/* Takes over an accepted descriptor. */
void client_accepted(struct worker *w, int fd, const struct sockaddr *peer, socklen_t len);
/* The answer is out and accounted: next request, or an orderly close. */
void client_answered(struct client *c);
/* Ends the connection at once. `reset`: the client must see an RST. The exchange is gone already. */
void client_close(struct client *c, bool reset);
/* What epoll should watch, from `reading` and `writing`. */
void client_want(struct client *c, bool reading, bool writing);
/* Moves the connection's deadline; 0 takes it away. */
void client_deadline(struct client *c, uint64_t at_ns);
/* The connection has ended or is given up: its exchange, if any, learns it first. */
void client_gone(struct client *c);

/* ---- client_body.c ---- */
void client_read_body(struct client *c);
/* Feeds what lies in c->in to the body; keeps what is behind its end. */
void client_body_buffered(struct client *c);
/* Reading may go on after back-pressure ended. */
void client_resume_body(struct client *c);

void client_close_idle(struct worker *w);
void client_close_all(struct worker *w);
#endif
