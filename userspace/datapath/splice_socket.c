/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sockets into the maps and out of the daemon's tables. A socket leaves its map only by
 * being closed: to delete a living one loses what waits in it. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "datapath/splice_internal.h"

int splice_row_get(struct splice_rows *r, uint32_t *row)
{
	int err = -ENOSPC;

	pthread_mutex_lock(&r->lock);
	if (r->n) {
		*row = r->ring[r->head];
		r->head = (r->head + 1) % r->cap;
		r->n--;
		err = 0;
	}
	pthread_mutex_unlock(&r->lock);
	return err;
}

void splice_row_put(struct splice_rows *r, uint32_t row)
{
	pthread_mutex_lock(&r->lock);
	r->ring[(r->head + r->n++) % r->cap] = row;
	pthread_mutex_unlock(&r->lock);
}

void splice_row_bury(struct splice_worker *w, struct splice_rows *r, uint32_t row)
{
	if (w->n_dead == w->cap_dead) {
		uint32_t cap = w->cap_dead ? w->cap_dead * 2 : 64;
		struct splice_dead_row *dead = realloc(w->dead, cap * sizeof(*dead));

		if (!dead)
			return; /* the row is lost until the process ends */
		w->dead = dead;
		w->cap_dead = cap;
	}
	w->dead[w->n_dead++] = (struct splice_dead_row){ r, row };
}

void splice_worker_reap(struct splice_worker *w)
{
	while (w->n_dead) {
		w->n_dead--;
		splice_row_put(w->dead[w->n_dead].rows, w->dead[w->n_dead].row);
	}
}

/* Plain TCP: an MPTCP or AF_UNIX socket in a sockmap breaks in ways of its own. */
static int check_socket(int fd)
{
	int domain = 0, protocol = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) ||
	    getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len))
		return -errno;
	return (domain == AF_INET || domain == AF_INET6) && protocol == IPPROTO_TCP ? 0 : -EPROTONOSUPPORT;
}

/* NOEXIST: a row that still holds a socket would throw that one out. */
static int insert(int map_fd, uint32_t row, int fd)
{
	uint64_t value = (uint64_t)fd;

	return bpf_map_update_elem(map_fd, &row, &value, BPF_NOEXIST);
}

int splice_backend_add(struct splice_worker *w, struct splice_backend *b, int fd, const char *name)
{
	struct splice *s = w->s;
	int err = check_socket(fd), size = SPLICE_BUFFER_BYTES, one = 1;
	uint64_t cookie;
	socklen_t len = sizeof(cookie);
	uint32_t row;

	if (err)
		return err;
	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len))
		return -errno;
	err = splice_row_get(&s->flow_rows, &row);
	if (err)
		return err;
	/* nobody looks at the row: its last socket is closed, this one has no cookie entry yet */
	struct splice_flow *r = &s->flows[row];

	memset(r, 0, sizeof(*r));
	r->client = SPLICE_NO_CLIENT;
	r->worker = w->id;
	r->since_ns = clock_now_ns();
	r->cookie = cookie;
	snprintf(r->backend, sizeof(r->backend), "%s", name ? name : "");
	*b = (struct splice_backend){ .w = w, .rec = r, .row = row, .fd = fd };
	list_init(&b->link);
	s->backends[row] = b;
	err = bpf_map_update_elem(s->cookies_fd, &cookie, &row, BPF_ANY);
	if (!err) {
		err = insert(s->upstream_fd, row, fd);
		if (err)
			bpf_map_delete_elem(s->cookies_fd, &cookie);
	}
	if (err) {
		r->cookie = 0;
		s->backends[row] = NULL;
		b->w = NULL;
		splice_row_put(&s->flow_rows, row);
		return err;
	}
	/* With small events a buffer's true size is several times its payload: autotuned to megabytes
	 * it would hold tens of them. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	/* Kick: what arrived before the insertion would else wait for the next packet. */
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	return 0;
}

void splice_backend_release(struct splice_backend *b)
{
	struct splice_worker *w = b->w;
	struct http_framing unused;

	if (!w)
		return;
	if (b->armed)
		splice_cancel(b, &unused);
	bpf_map_delete_elem(w->s->cookies_fd, &b->rec->cookie);
	b->rec->cookie = 0;
	w->s->backends[b->row] = NULL;
	splice_row_bury(w, &w->s->flow_rows, b->row);
	b->w = NULL;
}

int splice_client_add(struct splice_worker *w, struct splice_client *c, int fd)
{
	int err = check_socket(fd), unacked = 0, size = SPLICE_BUFFER_BYTES;
	struct tcp_info before, after;
	socklen_t len;

	if (err)
		return err;
	*c = (struct splice_client){ .w = w, .fd = fd };
	list_init(&c->link);
	err = splice_row_get(&w->s->client_rows, &c->row);
	if (err)
		goto fail;
	err = insert(w->s->clients_fd, c->row, fd);
	if (err) {
		splice_row_put(&w->s->client_rows, c->row);
		goto fail;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	/* Only we write to it, so that the sum stands still; ACKs move its two parts. */
	do {
		len = sizeof(before);
		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &before, &len) || ioctl(fd, SIOCOUTQ, &unacked))
			break;
		len = sizeof(after);
	} while (!getsockopt(fd, IPPROTO_TCP, TCP_INFO, &after, &len) &&
		 after.tcpi_bytes_acked != before.tcpi_bytes_acked);
	c->expected_bytes = before.tcpi_bytes_acked + (uint64_t)unacked;
	return 0;
fail:
	c->w = NULL;
	return err;
}

void splice_client_release(struct splice_client *c)
{
	if (!c->w)
		return;
	splice_client_forget(c);
	splice_row_bury(c->w, &c->w->s->client_rows, c->row);
	c->w = NULL;
}
