/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The least that a proxy in user space can do: for each client one connection to the backend, and bytes copied
 * both ways, one read and one write each. It looks at nothing. The floor that a relay is measured against.
 *
 *   mini_proxy --port P --to PORT [--ports N]     round robin over N ports from PORT */
#include "net.h"

#include <stdbool.h>

struct side {
	int fd;
	bool dead;
	struct side *peer;
	char *wait; /* what this side's socket has not taken */
	size_t wait_len, wait_off;
	struct side *next; /* of the graveyard */
};

static char scratch[64 << 10];
static struct side *graveyard;
static int ep;

static void drop_pair(struct side *s)
{
	struct side *two[2] = { s, s->peer };

	for (int i = 0; i < 2; i++) {
		if (two[i]->dead)
			continue;
		close(two[i]->fd);
		two[i]->dead = true;
		two[i]->next = graveyard;
		graveyard = two[i];
	}
}

/* Bytes for s; keeps what does not fit and stops its peer. */
static void pass(struct side *s, const char *p, size_t n)
{
	ssize_t k = send(s->fd, p, n, MSG_NOSIGNAL);

	if (k < 0 && errno != EAGAIN && errno != ENOTCONN) {
		drop_pair(s);
		return;
	}
	k = k < 0 ? 0 : k;
	if ((size_t)k == n)
		return;
	s->wait = malloc(n - (size_t)k);
	if (!s->wait)
		die("malloc");
	memcpy(s->wait, p + k, n - (size_t)k);
	s->wait_len = n - (size_t)k;
	s->wait_off = 0;
	net_watch(ep, EPOLL_CTL_MOD, s->fd, EPOLLIN | EPOLLOUT, s);
	net_watch(ep, EPOLL_CTL_MOD, s->peer->fd, s->peer->wait ? EPOLLOUT : 0, s->peer);
}

static void writable(struct side *s)
{
	ssize_t k = send(s->fd, s->wait + s->wait_off, s->wait_len - s->wait_off, MSG_NOSIGNAL);

	if (k < 0 && errno == EAGAIN)
		return;
	if (k < 0) {
		drop_pair(s);
		return;
	}
	s->wait_off += (size_t)k;
	if (s->wait_off < s->wait_len)
		return;
	free(s->wait);
	s->wait = NULL;
	net_watch(ep, EPOLL_CTL_MOD, s->fd, s->peer->wait ? 0 : EPOLLIN, s);
	net_watch(ep, EPOLL_CTL_MOD, s->peer->fd, EPOLLIN | (s->peer->wait ? EPOLLOUT : 0), s->peer);
}

static void readable(struct side *s)
{
	ssize_t n = recv(s->fd, scratch, sizeof(scratch), 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		drop_pair(s);
	else
		pass(s->peer, scratch, (size_t)n);
}

static struct side *side_new(int fd)
{
	struct side *s = calloc(1, sizeof(*s));

	if (!s)
		die("calloc");
	s->fd = fd;
	return s;
}

int main(int argc, char **argv)
{
	unsigned port = (unsigned)net_option(argc, argv, "port", 0), to = (unsigned)net_option(argc, argv, "to", 0);
	unsigned ports = (unsigned)net_option(argc, argv, "ports", 1), turn = 0;
	int listener, one = 1;

	if (!port || !to || !ports) {
		fprintf(stderr, "usage: %s --port P --to PORT [--ports N]\n", argv[0]);
		return 2;
	}
	net_begin();
	ep = epoll_create1(EPOLL_CLOEXEC);
	listener = net_listen(port);
	net_watch(ep, EPOLL_CTL_ADD, listener, EPOLLIN, NULL);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct epoll_event ev[256];
		int n = epoll_wait(ep, ev, 256, -1);

		for (int i = 0; i < n; i++) {
			struct side *s = ev[i].data.ptr;

			if (!s) {
				int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

				if (fd < 0)
					continue;
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
				s = side_new(fd);
				s->peer = side_new(net_connect(to + turn++ % ports));
				s->peer->peer = s;
				net_watch(ep, EPOLL_CTL_ADD, fd, EPOLLIN, s);
				net_watch(ep, EPOLL_CTL_ADD, s->peer->fd, EPOLLIN, s->peer);
				continue;
			}
			if (!s->dead && s->wait && (ev[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)))
				writable(s);
			if (!s->dead && !s->peer->wait && (ev[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
				readable(s);
		}
		while (graveyard) {
			struct side *s = graveyard;

			graveyard = s->next;
			free(s->wait);
			free(s);
		}
	}
}
