/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Requests of one size over kept connections: as fast as they are answered, or at a given rate. Cheap enough
 * that the proxy under test, and not this program, is what saturates a core.
 *
 *   request_client --port P --connections N --bytes B --seconds S [--rate R] [--warmup S] [--prefixes K]
 *
 * Prints `begin` when the measured time begins, and one line of JSON at its end. */
#include "net.h"
#include "prompt_text.h"

#include <stdbool.h>
#include <sys/uio.h>

#define SAMPLES_MAX (4u << 20)

struct conn {
	int fd;
	bool busy;
	struct conn *next; /* of the idle ones */
	const struct prompt_text *body;
	char tail[PROMPT_TAIL_BYTES + 1];
	size_t sent;
	uint64_t begin_ns;
	unsigned len, want; /* of the answer; want 0: its head is not complete */
	char in[4096];
};

static struct prompt_text *bodies;
static struct conn *idle;
static uint32_t *samples;
static size_t n_samples;
static unsigned n_bodies, port;
static unsigned long long seq, done, errors;
static double rate;
static bool stopping, measuring;
static int ep;

static void conn_open(struct conn *c)
{
	c->fd = net_connect(port);
	c->busy = false;
	net_watch(ep, EPOLL_CTL_ADD, c->fd, EPOLLIN, c);
}

/* Sends on. Only waits for room where there is none. */
static void conn_send(struct conn *c)
{
	size_t all = c->body->len + PROMPT_TAIL_BYTES;

	while (c->sent < all) {
		size_t off = c->sent < c->body->len ? c->sent : c->body->len;
		struct iovec v[2] = { { c->body->text + off, c->body->len - off },
				      { c->tail + (c->sent - off), PROMPT_TAIL_BYTES - (c->sent - off) } };
		struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);

		if (n < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
			net_watch(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN | EPOLLOUT, c);
			return;
		}
		if (n < 0) /* the read that follows counts it */
			return;
		c->sent += (size_t)n;
		if (c->sent == all && c->body->len > 65536)
			net_watch(ep, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
	}
}

static void conn_begin(struct conn *c)
{
	c->busy = true;
	c->body = &bodies[seq % n_bodies];
	prompt_tail(c->tail, ++seq);
	c->sent = 0;
	c->len = c->want = 0;
	c->begin_ns = now_ns();
	conn_send(c);
}

static void conn_idle(struct conn *c)
{
	c->busy = false;
	if (!rate && !stopping) {
		conn_begin(c);
		return;
	}
	c->next = idle;
	idle = c;
}

static void conn_failed(struct conn *c)
{
	if (measuring || c->busy)
		errors++;
	close(c->fd);
	conn_open(c);
	conn_idle(c);
}

static void answered(struct conn *c)
{
	if (measuring) {
		done++;
		if (n_samples < SAMPLES_MAX)
			samples[n_samples++] = (uint32_t)((now_ns() - c->begin_ns) / 100);
	}
	if (memcmp(c->in, "HTTP/1.1 200", 12))
		errors++;
	conn_idle(c);
}

static void conn_readable(struct conn *c)
{
	ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - 1 - c->len, 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || !c->busy) {
		conn_failed(c);
		return;
	}
	c->len += (unsigned)n;
	c->in[c->len] = 0;
	if (!c->want) {
		char *end = strstr(c->in, "\r\n\r\n"), *length = strcasestr(c->in, "\r\ncontent-length:");

		if (!end)
			return;
		if (!length || length > end) {
			conn_failed(c);
			return;
		}
		c->want = (unsigned)(end + 4 - c->in) + (unsigned)atoi(length + 17);
	}
	if (c->len >= c->want)
		answered(c);
}

int main(int argc, char **argv)
{
	unsigned n_conns = (unsigned)net_option(argc, argv, "connections", 32);
	size_t bytes = (size_t)net_option(argc, argv, "bytes", 2048);
	double seconds = net_option(argc, argv, "seconds", 2), warmup = net_option(argc, argv, "warmup", 0.3);
	uint64_t begin, end, next, gap;
	unsigned long long late = 0;
	struct conn *conns;

	port = (unsigned)net_option(argc, argv, "port", 0);
	rate = net_option(argc, argv, "rate", 0);
	n_bodies = (unsigned)net_option(argc, argv, "prefixes", 8);
	if (!port || !n_conns || !n_bodies || bytes < 1024) {
		fprintf(stderr, "usage: %s --port P --connections N --bytes B --seconds S [--rate R] [--warmup S] [--prefixes K]\n",
			argv[0]);
		return 2;
	}
	net_begin();
	bodies = calloc(n_bodies, sizeof(*bodies));
	conns = calloc(n_conns, sizeof(*conns));
	samples = malloc(SAMPLES_MAX * sizeof(*samples));
	if (!bodies || !conns || !samples)
		die("malloc");
	for (unsigned i = 0; i < n_bodies; i++)
		bodies[i] = prompt_new("llama-3.1-70b", i, bytes, 0);
	ep = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < n_conns; i++) {
		conn_open(&conns[i]);
		conn_idle(&conns[i]);
	}
	begin = now_ns() + (uint64_t)(warmup * 1e9);
	end = begin + (uint64_t)(seconds * 1e9);
	next = now_ns();
	gap = rate > 0 ? (uint64_t)(1e9 / rate) : 0;
	for (;;) {
		struct epoll_event ev[256];
		uint64_t until = end, now;
		int n;

		if (!measuring && begin < until)
			until = begin;
		if (gap && next < until)
			until = next;
		n = net_wait(ep, ev, 256, until);
		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;

			if (ev[i].events & EPOLLOUT && c->busy)
				conn_send(c);
			if (ev[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
				conn_readable(c);
		}
		now = now_ns();
		if (now >= end)
			break;
		if (!measuring && now >= begin) {
			measuring = true;
			printf("begin\n");
			fflush(stdout);
		}
		for (; gap && next <= now; next += gap) {
			struct conn *c = idle;

			if (c) {
				idle = c->next;
				conn_begin(c);
			} else if (measuring) {
				late++; /* every connection is busy: the load is not what was asked for */
			}
		}
	}
	printf("{\"requests\": %llu, \"errors\": %llu, \"not_sent\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", done, errors,
	       late, net_quantile_us(samples, n_samples, .5), net_quantile_us(samples, n_samples, .99));
	return 0;
}
