/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/listener.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/client.h"
#include "gateway/internal.h"

#define LISTEN_BACKLOG 4096
#define ACCEPTS_PER_TURN 64
#define ACCEPT_PAUSE_NS (100 * NSEC_PER_MSEC)

int listener_bind(const struct sockaddr *addr, socklen_t len, bool first)
{
	int one = 1, err;
	/* IPPROTO_TCP by name: a host with MPTCP by default must not give us another protocol */
	int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* A first socket that is bound with SO_REUSEPORT would join those of another process of
	 * this user, and share its traffic. Without, bind() or listen() say that the port is taken. */
	if (!first)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	if (addr->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, addr, len) || listen(fd, LISTEN_BACKLOG)) {
		err = -errno;
		close(fd);
		return err;
	}
	if (first) /* the other workers' may join it now */
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	return fd;
}

/* True while there may be more to accept. */
static bool listener_accept_one(struct listener *l)
{
	struct worker *w = l->w;
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	int fd = accept4(l->io.fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		client_accepted(w, fd, (struct sockaddr *)&peer, len);
		return true;
	}
	switch (errno) {
	case EAGAIN:
		return false;
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
		/* The waiting connections stay in the backlog; a level-triggered listener would spin. */
		stat_add(&w->stats->accept_refused, 1);
		log_warn("accept_paused", "errno=%d pause_ms=%u", errno, (unsigned)(ACCEPT_PAUSE_NS / NSEC_PER_MSEC));
		io_want(w, &l->io, 0);
		timer_arm(&w->timers, &w->accept_timer, w->now_ns + ACCEPT_PAUSE_NS);
		return false;
	default: /* ECONNABORTED and network errors of that one connection (accept(2)) */
		return true;
	}
}

static void listener_event(struct worker *w, struct io *io, uint32_t events)
{
	struct listener *l = container_of(io, struct listener, io);

	for (unsigned i = 0; i < ACCEPTS_PER_TURN && listener_accept_one(l); i++)
		;
}

static void listener_resume(struct timer *t, uint64_t now_ns)
{
	struct worker *w = container_of(t, struct worker, accept_timer);

	for (struct listener *l = w->listeners; l; l = l->next)
		io_want(w, &l->io, EPOLLIN);
}

int listener_add(struct worker *w, int fd, const struct sockaddr *addr, socklen_t len)
{
	struct listener *l = calloc(1, sizeof(*l));
	int err;

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->w = w;
	l->io = (struct io){ .fd = fd, .on_event = listener_event };
	memcpy(&l->addr, addr, len);
	l->addr_len = len;
	w->accept_timer.fn = listener_resume;
	err = io_add(w, &l->io, EPOLLIN);
	if (err) {
		close(fd);
		free(l);
		return err;
	}
	l->next = w->listeners;
	w->listeners = l;
	return 0;
}

void listener_close(struct worker *w, struct listener *l)
{
	for (struct listener **p = &w->listeners; *p; p = &(*p)->next)
		if (*p == l) {
			*p = l->next;
			break;
		}
	/* Closing resets what still waits in the accept queue: take it first. */
	while (listener_accept_one(l))
		;
	io_close(w, &l->io);
	worker_bury(w, l);
}

void listener_close_all(struct worker *w)
{
	while (w->listeners) {
		struct listener *l = w->listeners;

		w->listeners = l->next;
		io_close(w, &l->io);
		free(l);
	}
}
