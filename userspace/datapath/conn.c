/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "datapath/conn.h"

#include <errno.h>
#include <sys/socket.h>

static ssize_t tcp_recv(struct conn *c, void *buf, size_t len)
{
	ssize_t n;

	do
		n = recv(c->fd, buf, len, 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t tcp_send(struct conn *c, const struct iovec *v, int n)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n };
	ssize_t r;

	do
		r = n == 1 ? send(c->fd, v->iov_base, v->iov_len, MSG_NOSIGNAL) : sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

static int tcp_want(const struct conn *c)
{
	return 0;
}

static void tcp_close(struct conn *c)
{
}

const struct conn_ops conn_ops_tcp = {
	.recv = tcp_recv,
	.send = tcp_send,
	.want = tcp_want,
	.close = tcp_close,
	.plain = true,
};
