/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The daemon's half of the gate. See bpf/splice.bpf.c for the other one. */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* tcpi_bytes_acked: the libc's struct tcp_info ends before it */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "datapath/splice_internal.h"

/* The kernel's states (net/tcp_states.h); the libc names them in a header that excludes linux/tcp.h. */
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8

#define load(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(&(p), v, __ATOMIC_RELEASE)

/* TCP_INFO takes the socket's lock, under which the verdict runs: when this returns, no
 * packet that saw what we wrote before is half way through. Also used for its figures. */
static int socket_info(int fd, struct tcp_info *ti)
{
	socklen_t len = sizeof(*ti);

	memset(ti, 0, sizeof(*ti));
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len) ? -errno : 0;
}

static void settle(const struct splice_backend *b)
{
	struct tcp_info ti;

	(void)socket_info(b->fd, &ti);
}

static int publish(struct splice_backend *b, const struct http_framing *framing)
{
	struct splice_flow *r = b->rec;

	/* The verdict reads none of these while the gate is closed, and it is closed: either
	 * nothing is armed or passed != consumed. */
	r->framing = *framing;
	r->w0_bytes = b->client->expected_bytes;
	r->r0_bytes = r->redirected_bytes;
	store(r->taken_bytes, b->taken_bytes);
	store(r->consumed_bytes, b->taken_bytes);
	store(r->armed, b->generation);
	/* Store, then load: without a full fence both sides could miss each other. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	b->suspect = false;
	b->kernel = load(r->passed_bytes) == b->taken_bytes;
	b->w->stats.publishes++;
	if (b->kernel)
		return 0;
	b->w->stats.publishes_late++;
	return -EAGAIN;
}

int splice_publish(struct splice_backend *b, const struct http_framing *framing)
{
	return publish(b, framing);
}

int splice_arm(struct splice_backend *b, struct splice_client *c, const struct http_framing *framing,
	       uint32_t limit_bytes)
{
	struct splice_flow *r = b->rec;

	if (++b->generation == 0)
		b->generation = 1;
	b->client = c;
	b->armed = true;
	b->redirected_seen = r->redirected_bytes;
	r->client = c->row;
	r->limit_bytes = limit_bytes;
	list_add_tail(&b->w->armed, &b->link);
	b->w->stats.arms++;
	return publish(b, framing);
}

uint64_t splice_take(struct splice_backend *b, struct http_framing *framing)
{
	struct splice_flow *r = b->rec;
	uint64_t now = load(r->redirected_bytes), moved = now - b->redirected_seen;

	b->kernel = false;
	b->redirected_seen = now;
	if (b->client && moved) {
		b->client->expected_bytes += moved;
		b->client->dirty = true;
	}
	*framing = r->framing;
	return moved;
}

uint64_t splice_cancel(struct splice_backend *b, struct http_framing *framing)
{
	uint64_t moved = 0;

	store(b->rec->armed, 0);
	settle(b);
	if (b->kernel) /* else the caller's framing is the newer one */
		moved = splice_take(b, framing);
	b->armed = false;
	b->client = NULL;
	b->rec->client = SPLICE_NO_CLIENT;
	list_del(&b->link);
	return moved;
}

enum splice_hand splice_retake(struct splice_backend *b, struct flow *f)
{
	f->sent_bytes += splice_take(b, &f->framing);
	return splice_client_drained(b->client) ? SPLICE_HAND_DAEMON : SPLICE_HAND_DRAIN;
}

enum splice_hand splice_offer(struct splice_backend *b, struct splice_client *c, struct flow *f, uint32_t limit_bytes)
{
	int err;

	/* left behind by an answer that was relayed to its end: never another client's */
	if (b->armed && b->client != c) {
		struct http_framing unused;

		splice_cancel(b, &unused);
	}
	err = b->armed ? splice_publish(b, &f->framing) : splice_arm(b, c, &f->framing, limit_bytes);

	return err ? splice_retake(b, f) : SPLICE_HAND_KERNEL;
}

bool splice_backend_ended(struct splice_backend *b)
{
	/* A packet with data and FIN raises EPOLLRDHUP before the verdict has seen the data. */
	settle(b);
	return load(b->rec->ended) == b->generation;
}

bool splice_backend_unread(const struct splice_backend *b)
{
	return load(b->rec->passed_bytes) != b->taken_bytes;
}

bool splice_backend_clean(const struct splice_backend *b)
{
	return !splice_backend_unread(b) && !b->rec->trimmed_bytes;
}

/* What the client's socket has been given so far, from the daemon and the kernel; negative errno. */
static int client_written(const struct splice_client *c, uint64_t *written, bool *closed)
{
	struct tcp_info ti;
	int unacked = 0;

	/* In this order: an ACK in between makes the sum too small. The other way round it
	 * would be too large, and a drain be seen too early. */
	if (socket_info(c->fd, &ti) || ioctl(c->fd, SIOCOUTQ, &unacked))
		return -errno;
	*written = ti.tcpi_bytes_acked + (uint64_t)unacked;
	*closed = ti.tcpi_state == TCP_CLOSE;
	return 0;
}

bool splice_client_drained(struct splice_client *c)
{
	uint64_t written;
	bool closed;

	/* no connection any more: nothing to wait for */
	if (c->dirty && (client_written(c, &written, &closed) || closed || written >= c->expected_bytes))
		c->dirty = false;
	return !c->dirty;
}

bool splice_client_complete(struct splice_client *c)
{
	uint64_t written;
	bool closed;

	if (c->dirty && !client_written(c, &written, &closed) && written >= c->expected_bytes)
		c->dirty = false;
	return !c->dirty;
}

void splice_client_await(struct splice_client *c)
{
	if (c->draining)
		return;
	c->draining = true;
	list_add_tail(&c->w->drains, &c->link);
}

void splice_client_forget(struct splice_client *c)
{
	if (!c->draining)
		return;
	c->draining = false;
	list_del(&c->link);
}

void splice_client_sent(struct splice_client *c, size_t n)
{
	c->expected_bytes += n;
}

/* ---- the operations of spliced connections ---- */

static ssize_t backend_recv(struct conn *conn, void *buf, size_t len)
{
	struct splice_backend *b = conn->priv;
	ssize_t n = conn_ops_tcp.recv(conn, buf, len);
	struct tcp_info ti;

	if (n > 0) {
		b->taken_bytes += (uint64_t)n;
		store(b->rec->taken_bytes, b->taken_bytes);
		return n;
	}
	/* Passed bytes reach the socket's queue by a worker thread of the kernel when memory is
	 * short, so that the FIN can be seen before them. And kernels of the 6.0 to 6.3 series
	 * answer EAGAIN where the FIN is (901546fd8f9c). */
	if (n == 0) {
		settle(b);
		return splice_backend_unread(b) ? -EAGAIN : 0;
	}
	if (n == -EAGAIN && !socket_info(b->fd, &ti) && ti.tcpi_state == TCP_CLOSE_WAIT && !splice_backend_unread(b)) {
		n = conn_ops_tcp.recv(conn, buf, len);
		if (n > 0) {
			b->taken_bytes += (uint64_t)n;
			store(b->rec->taken_bytes, b->taken_bytes);
		}
		return n == -EAGAIN ? 0 : n;
	}
	return n;
}

static ssize_t client_send(struct conn *conn, const struct iovec *v, int n)
{
	struct splice_client *c = conn->priv;
	ssize_t r;

	/* What is written now would overtake what still waits between the sockets. */
	if (!splice_client_drained(c))
		return -EAGAIN;
	r = conn_ops_tcp.send(conn, v, n);
	if (r > 0)
		splice_client_sent(c, (size_t)r);
	return r;
}

static ssize_t backend_send(struct conn *conn, const struct iovec *v, int n)
{
	return conn_ops_tcp.send(conn, v, n);
}

static ssize_t client_recv(struct conn *conn, void *buf, size_t len)
{
	return conn_ops_tcp.recv(conn, buf, len);
}

static int no_want(const struct conn *conn)
{
	return 0;
}

static void backend_close(struct conn *conn)
{
	splice_backend_release(conn->priv);
}

static void client_close(struct conn *conn)
{
	splice_client_release(conn->priv);
}

const struct conn_ops conn_ops_splice_backend = {
	.recv = backend_recv,
	.send = backend_send,
	.want = no_want,
	.close = backend_close,
	.plain = true,
};

const struct conn_ops conn_ops_splice_client = {
	.recv = client_recv,
	.send = client_send,
	.want = no_want,
	.close = client_close,
	.plain = true,
};
