/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the benchmark programs share: sockets on 127.0.0.1, time, options. Nothing of userspace/. */
#ifndef KVSTEER_BENCH_NET_H
#define KVSTEER_BENCH_NET_H
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

/* All descriptors that are allowed, and timers that fire when asked. */
static inline void net_begin(void)
{
	struct rlimit r;

	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0);
}

static inline int net_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		die("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static inline struct sockaddr_in net_address(unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static inline int net_listen(unsigned port)
{
	struct sockaddr_in a = net_address(port);
	int fd = net_socket(), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 4096))
		die("listen");
	return fd;
}

/* Under way or connected; writable once it is. */
static inline int net_connect(unsigned port)
{
	struct sockaddr_in a = net_address(port);
	int fd = net_socket();

	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) && errno != EINPROGRESS)
		die("connect");
	return fd;
}

static inline void net_watch(int ep, int op, int fd, uint32_t events, void *ptr)
{
	struct epoll_event ev = { .events = events };

	ev.data.ptr = ptr;
	if (epoll_ctl(ep, op, fd, &ev))
		die("epoll_ctl");
}

/* epoll_wait() until `until_ns` at the latest. */
static inline int net_wait(int ep, struct epoll_event *ev, int max, uint64_t until_ns)
{
	uint64_t now = now_ns(), left = until_ns > now ? until_ns - now : 0;
	struct timespec ts = { (time_t)(left / 1000000000ull), (long)(left % 1000000000ull) };
	int n = epoll_pwait2(ep, ev, max, &ts, NULL);

	if (n < 0 && errno != EINTR)
		die("epoll_pwait2");
	return n < 0 ? 0 : n;
}

/* The value of `--name V` in argv, or `otherwise`. */
static inline double net_option(int argc, char **argv, const char *name, double otherwise)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strncmp(argv[i], "--", 2) && !strcmp(argv[i] + 2, name))
			return atof(argv[i + 1]);
	return otherwise;
}

static inline int net_by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Latencies in 0.1 us; sorts them. `q` of 1. */
static inline double net_quantile_us(uint32_t *v, size_t n, double q)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), net_by_value);
	return v[(size_t)((double)(n - 1) * q)] / 10.0;
}
#endif
