/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "gateway/worker.h"

static uint64_t io_token(const struct io *io)
{
	return (uint64_t)io->gen << 32 | (uint32_t)io->fd;
}

static int io_grow(struct worker *w, uint32_t fd)
{
	uint32_t n = w->n_ios ? w->n_ios : 256;
	struct io **v;

	if (fd < w->n_ios)
		return 0;
	while (n <= fd)
		n *= 2;
	v = realloc(w->ios, n * sizeof(*v));
	if (!v)
		return -ENOMEM;
	memset(v + w->n_ios, 0, (n - w->n_ios) * sizeof(*v));
	w->ios = v;
	w->n_ios = n;
	return 0;
}

int io_add(struct worker *w, struct io *io, uint32_t events)
{
	struct epoll_event ev = { .events = events };
	int err = io_grow(w, (uint32_t)io->fd);

	if (err)
		return err;
	io->gen = ++w->io_gen;
	io->events = events;
	ev.data.u64 = io_token(io);
	if (epoll_ctl(w->epfd, EPOLL_CTL_ADD, io->fd, &ev))
		return -errno;
	w->ios[io->fd] = io;
	return 0;
}

void io_want(struct worker *w, struct io *io, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	if (io->fd < 0 || io->events == events)
		return;
	ev.data.u64 = io_token(io);
	if (epoll_ctl(w->epfd, EPOLL_CTL_MOD, io->fd, &ev)) {
		log_error("epoll_ctl_failed", "fd=%d errno=%d", io->fd, errno);
		return;
	}
	io->events = events;
}

void io_close(struct worker *w, struct io *io)
{
	if (io->fd < 0)
		return;
	if ((uint32_t)io->fd < w->n_ios && w->ios[io->fd] == io)
		w->ios[io->fd] = NULL;
	close(io->fd); /* the last reference: epoll forgets it with the close */
	io->fd = -1;
}
