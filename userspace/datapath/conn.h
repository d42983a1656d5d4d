/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How bytes get in and out of one connection. Everything above reads and writes
 * through these operations, so that TLS can slip in beneath; `plain` tells the
 * datapath whether the kernel may move the bytes. */
#ifndef KVSTEER_DATAPATH_CONN_H
#define KVSTEER_DATAPATH_CONN_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct conn;

#define CONN_WANT_READ 1
#define CONN_WANT_WRITE 2

struct conn_ops {
	/* Bytes read, 0 at the peer's FIN, or negative errno (-EAGAIN: nothing yet). */
	ssize_t (*recv)(struct conn *c, void *buf, size_t len);
	/* Bytes taken (may be fewer), or negative errno (-EAGAIN: none now). */
	ssize_t (*send)(struct conn *c, const struct iovec *v, int n);
	/* What the connection itself waits for before recv/send can go on (CONN_WANT_*; 0: nothing special). */
	int (*want)(const struct conn *c);
	/* Releases what the operations hold; the descriptor stays open. */
	void (*close)(struct conn *c);
	bool plain; /* bytes on the socket are the bytes of the message */
};

struct conn {
	int fd;
	const struct conn_ops *ops;
	void *priv; /* of the operations */
};

extern const struct conn_ops conn_ops_tcp;

static inline ssize_t conn_recv(struct conn *c, void *buf, size_t len)
{
	return c->ops->recv(c, buf, len);
}
static inline ssize_t conn_send(struct conn *c, const struct iovec *v, int n)
{
	return c->ops->send(c, v, n);
}
#endif
