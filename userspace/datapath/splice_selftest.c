/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The hazards of sockmap that are safe to try on two loopback connections. Kernels
 * differ by stable release and distribution, so they are asked, not counted. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "datapath/splice_internal.h"

#define WAIT_MS 1000
#define STALL_BYTES (4u << 20)

struct selftest {
	struct splice_worker *w;
	int engine, upstream; /* the backend connection, far end and ours */
	int client, far;      /* the client connection, ours and far end */
	struct splice_backend b;
	struct splice_client c;
	struct conn conn_b, conn_c;
	bool ended, taken;
	unsigned reason;
	char *why;
	size_t why_len;
};

static int bad(struct selftest *t, const char *what)
{
	snprintf(t->why, t->why_len, "%s", what);
	return -EIO;
}

static void on_end(struct splice_backend *b, void *arg)
{
	((struct selftest *)arg)->ended = true;
}

static void on_takeover(struct splice_backend *b, unsigned reason, void *arg)
{
	struct selftest *t = arg;

	t->taken = true;
	t->reason = reason;
}

static void on_drained(struct splice_client *c, void *arg)
{
}

static const struct splice_worker_ops ops = { .end = on_end, .takeover = on_takeover, .drained = on_drained };

static int tcp_pair(int *a, int *b)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);

	*a = *b = -1;
	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, len) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len))
		goto out;
	*a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (*a < 0 || connect(*a, (struct sockaddr *)&addr, len))
		goto out;
	*b = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	setsockopt(*a, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(*b, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
out:
	if (listener >= 0)
		close(listener);
	return *b < 0 ? -EIO : 0;
}

static bool wait_for(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, WAIT_MS) == 1 && p.revents & events;
}

/* Exactly `text` arrives at fd, which may be one of ours (conn) or a far end. */
static bool arrives(int fd, struct conn *conn, const char *text)
{
	char got[256];
	size_t n = strlen(text), have = 0;

	while (have < n && wait_for(fd, POLLIN)) {
		ssize_t r = conn ? conn_recv(conn, got + have, n - have) : recv(fd, got + have, n - have, MSG_DONTWAIT);

		if (r > 0)
			have += (size_t)r;
		else if (!r || (r < 0 && conn && r != -EAGAIN))
			return false;
	}
	return have == n && !memcmp(got, text, n);
}

static bool put(int fd, const char *text)
{
	return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static bool turn_until(struct selftest *t, const bool *flag)
{
	uint64_t end = clock_now_ns() + WAIT_MS * NSEC_PER_MSEC;

	while (!*flag && clock_now_ns() < end)
		if (wait_for(splice_worker_fd(t->w), POLLIN))
			splice_worker_events(t->w);
	return *flag;
}

static int stream(struct selftest *t, const struct http_framing *start, const char *const *parts, unsigned n)
{
	if (splice_arm(&t->b, &t->c, start, SPLICE_LIMIT_DEFAULT))
		return bad(t, "a quiet connection could not be armed");
	t->ended = false;
	for (unsigned i = 0; i < n; i++)
		if (!put(t->engine, parts[i]) || !arrives(t->far, NULL, parts[i]))
			return bad(t, "a redirected event did not reach the client");
	if (!turn_until(t, &t->ended))
		return bad(t, "the end of a body raised no event");
	return 0;
}

/* A client that does not read: the kernel has to give the stream back, not to hoard. */
static int stall(struct selftest *t, struct http_framing *f)
{
	static char block[16384];
	uint64_t sent = 0, end = clock_now_ns() + 3 * WAIT_MS * NSEC_PER_MSEC;

	http_framing_init(f, HTTP_BODY_LENGTH, STALL_BYTES);
	t->taken = false;
	if (splice_arm(&t->b, &t->c, f, SPLICE_LIMIT_DEFAULT))
		return bad(t, "a quiet connection could not be armed again");
	while (sent < STALL_BYTES && !t->taken && clock_now_ns() < end) {
		ssize_t n = send(t->engine, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			sent += (uint64_t)n;
		splice_worker_events(t->w);
	}
	if (!t->taken || t->reason != SPLICE_WHY_BACKPRESSURE)
		return bad(t, "a client that does not read was not noticed: the kernel would hoard without bound");
	splice_cancel(&t->b, f);
	return 0;
}

static int hazards(struct selftest *t)
{
	static const char *const events[] = { "6\r\ndata:a\r\n", "6\r\ndata:b\r\n", "0\r\n\r\n" };
	struct http_framing f;

	/* bytes that are there before the insertion */
	if (!put(t->engine, "early"))
		return bad(t, "the loopback connection is broken");
	if (splice_backend_add(t->w, &t->b, t->upstream, "self-test") || splice_client_add(t->w, &t->c, t->client))
		return bad(t, "sockets are refused by the sockmap");
	t->conn_b.priv = &t->b;
	t->conn_c.priv = &t->c;
	/* not counted by the program: they came before it */
	if (!wait_for(t->upstream, POLLIN))
		return bad(t, "bytes that came before the insertion are stuck");
	if (!arrives(t->upstream, &t->conn_b, "early"))
		return bad(t, "bytes that came before the insertion are lost");
	if (t->b.taken_bytes != t->b.rec->passed_bytes)
		return bad(t, "bytes that came before the insertion were not counted");
	/* a wake-up of a socket in a map without a program, and of one with */
	if (!put(t->far, "request") || !arrives(t->client, &t->conn_c, "request"))
		return bad(t, "a client socket in the map gets no wake-up (a kernel bug of some stable releases)");
	if (!put(t->engine, "head") || !arrives(t->upstream, &t->conn_b, "head"))
		return bad(t, "a passed packet is not readable");
	http_framing_init(&f, HTTP_BODY_CHUNKED, 0);
	if (stream(t, &f, events, 3))
		return -EIO;
	splice_cancel(&t->b, &f);
	for (unsigned i = 0; i < WAIT_MS && !splice_client_drained(&t->c); i++)
		usleep(1000);
	if (!splice_client_drained(&t->c))
		return bad(t, "what was redirected is not found in the client's counters");
	/* between two answers: passed again, then redirected again */
	if (!put(t->engine, "head") || !arrives(t->upstream, &t->conn_b, "head"))
		return bad(t, "a passed packet behind a redirected body is not readable");
	if (stall(t, &f))
		return -EIO;
	/* a bare FIN must not disable the client's socket */
	shutdown(t->engine, SHUT_WR);
	if (!wait_for(t->upstream, POLLRDHUP))
		return bad(t, "a backend's FIN raised no event");
	return 0;
}

int splice_selftest(struct splice *s, char *why, size_t why_len)
{
	struct selftest t = { .engine = -1, .upstream = -1, .client = -1, .far = -1, .why = why, .why_len = why_len };
	int err = splice_worker_open(s, 0, &ops, &t, &t.w);

	why[0] = '\0';
	if (err)
		return bad(&t, "no ring for the self-test");
	if (tcp_pair(&t.engine, &t.upstream) || tcp_pair(&t.far, &t.client)) {
		err = bad(&t, "no loopback connection for the self-test");
	} else {
		t.conn_b = (struct conn){ .fd = t.upstream, .ops = &conn_ops_splice_backend };
		t.conn_c = (struct conn){ .fd = t.client, .ops = &conn_ops_splice_client };
		err = hazards(&t);
	}
	splice_backend_release(&t.b);
	splice_client_release(&t.c);
	for (int *fd = (int[]){ t.engine, t.upstream, t.client, t.far, -2 }; *fd != -2; fd++)
		if (*fd >= 0)
			close(*fd);
	splice_worker_close(t.w);
	return err;
}
