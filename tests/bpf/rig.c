/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CONNECTIONS 1024

static const char *const form_names[FORMS] = { "length", "events", "odd chunks", "extensions", "trailers", "false ends", "tiny chunks" };
static const char *const split_names[SPLITS] = { "whole", "bytes", "small", "large", "head", "burst", "paced" };

const char *form_name(enum form f)
{
	return form_names[f];
}

const char *split_name(enum split s)
{
	return split_names[s];
}

uint64_t rig_random(uint64_t *state)
{
	/* xorshift64* */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717ull;
}

static void fill(uint8_t *p, size_t n, enum form form, uint64_t *rnd)
{
	static const char false_end[] = "0\r\n\r\n";

	for (size_t i = 0; i < n; i++)
		p[i] = form == FORM_FALSE_ENDS ? (uint8_t)false_end[i % 5] : (uint8_t)rig_random(rnd);
	if (form == FORM_EVENTS && n > 8) {
		memcpy(p, "data: ", 6);
		memcpy(p + n - 2, "\n\n", 2);
	}
}

static uint32_t chunk_size(enum form form, uint64_t *rnd)
{
	switch (form) {
	case FORM_EVENTS: return 200 + (uint32_t)(rig_random(rnd) % 100);
	case FORM_TINY_CHUNKS: return 1;
	default: return 1 + (uint32_t)(rig_random(rnd) % 5000);
	}
}

struct answer answer_make(enum form form, uint32_t payload, uint64_t seed)
{
	uint64_t rnd = seed * 2 + 1;
	struct answer a = { .wire = malloc((size_t)payload * 8 + 4096) };
	uint8_t *p = a.wire;

	if (form == FORM_LENGTH) {
		p += sprintf((char *)p, "L%u\n", payload);
		a.head_len = (size_t)(p - a.wire);
		fill(p, payload, form, &rnd);
		a.len = a.head_len + payload;
		return a;
	}
	p += sprintf((char *)p, "C\n");
	a.head_len = (size_t)(p - a.wire);
	for (uint32_t left = payload; left;) {
		uint32_t n = chunk_size(form, &rnd);

		n = n < left ? n : left;
		if (form == FORM_EXTENSIONS)
			p += sprintf((char *)p, rig_random(&rnd) & 1 ? "%08X;a=\"b;c\";d\r\n" : "000%x;x=0\r\n", n);
		else
			p += sprintf((char *)p, "%x\r\n", n);
		fill(p, n, form, &rnd);
		p += n;
		p += sprintf((char *)p, "\r\n");
		left -= n;
	}
	p += sprintf((char *)p, form == FORM_TRAILERS ? "0\r\nx-a: 0\r\nx-checksum: 5;0\r\n\r\n" : "0\r\n\r\n");
	a.len = (size_t)(p - a.wire);
	return a;
}

bool rig_write(int fd, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n) {
		ssize_t r = send(fd, p, n, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

bool rig_read(int fd, void *data, size_t n)
{
	uint8_t *p = data;

	while (n) {
		ssize_t r = recv(fd, p, n, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		p += r;
		n -= (size_t)r;
	}
	return true;
}

static void set_up(int fd)
{
	struct timeval t = { .tv_sec = 20 };
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

int rig_connect(uint16_t port, int rcvbuf)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);

	if (rcvbuf)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof(rcvbuf));
	if (connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	set_up(fd);
	return fd;
}

int rig_listen(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);

	if (bind(fd, (struct sockaddr *)&a, len) || listen(fd, 256) || getsockname(fd, (struct sockaddr *)&a, &len))
		abort();
	*port = ntohs(a.sin_port);
	return fd;
}

int rig_accept(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int fd;

	if (poll(&p, 1, 20000) != 1)
		return -1;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		set_up(fd);
	return fd;
}

/* ---- engine ---- */

struct engine {
	pthread_t thread;
	int listener;
	uint16_t port;
	bool stop;
	pthread_t threads[CONNECTIONS];
	int fds[CONNECTIONS];
	unsigned n;
};

static bool write_split(int fd, const struct answer *a, enum split split, uint64_t *rnd)
{
	size_t pos = 0, writes = 0;

	while (pos < a->len) {
		size_t n = a->len - pos, max = n;

		switch (split) {
		case SPLIT_BYTES: n = pos < 2000 ? 1 : n; break;
		case SPLIT_SMALL: n = pos < 20000 ? 1 + rig_random(rnd) % 60 : n; break;
		case SPLIT_LARGE: n = 1 + rig_random(rnd) % 3000; break;
		case SPLIT_HEAD: n = pos ? n : a->head_len; break;
		case SPLIT_BURST: n = pos ? n : a->head_len + 400; break;
		case SPLIT_PACED: n = 260; break;
		default: break;
		}
		n = n < max ? n : max;
		if (!rig_write(fd, a->wire + pos, n))
			return false;
		pos += n;
		writes++;
		/* pauses are part of the pattern, not a wait for anything */
		if (((split == SPLIT_HEAD || split == SPLIT_BURST) && writes == 1) ||
		    (split == SPLIT_PACED && writes < 200 && !(rig_random(rnd) & 3)) || (split == SPLIT_LARGE && !(rig_random(rnd) & 15)))
			usleep(300);
	}
	return true;
}

static void *engine_connection(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char line[128];

	for (;;) {
		unsigned form, split, payload, len = 0;
		unsigned long long seed;
		struct answer a;
		bool ok;

		while (len < sizeof(line) - 1 && rig_read(fd, line + len, 1))
			if (line[len++] == '\n')
				break;
		line[len] = '\0';
		if (!len || sscanf(line + 1, "%u,%u,%u,%llu", &form, &split, &payload, &seed) != 4)
			return NULL;
		a = answer_make(form, payload, seed);
		uint64_t rnd = seed + 77;

		ok = write_split(fd, &a, split, &rnd);
		free(a.wire);
		if (!ok)
			return NULL;
	}
}

static void *engine_loop(void *arg)
{
	struct engine *e = arg;

	while (!__atomic_load_n(&e->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd p = { .fd = e->listener, .events = POLLIN };

		if (poll(&p, 1, 50) != 1 || e->n == CONNECTIONS)
			continue;
		e->fds[e->n] = rig_accept(e->listener);
		pthread_create(&e->threads[e->n], NULL, engine_connection, (void *)(intptr_t)e->fds[e->n]);
		e->n++;
	}
	return NULL;
}

struct engine *engine_start(void)
{
	struct engine *e = calloc(1, sizeof(*e));

	e->listener = rig_listen(&e->port);
	pthread_create(&e->thread, NULL, engine_loop, e);
	return e;
}

uint16_t engine_port(const struct engine *e)
{
	return e->port;
}

void engine_stop(struct engine *e)
{
	__atomic_store_n(&e->stop, true, __ATOMIC_RELEASE);
	pthread_join(e->thread, NULL);
	for (unsigned i = 0; i < e->n; i++) {
		shutdown(e->fds[i], SHUT_RDWR);
		pthread_join(e->threads[i], NULL);
		close(e->fds[i]);
	}
	close(e->listener);
	free(e);
}

/* ---- clients ---- */

enum verdict rig_request(int fd, char first, enum form form, enum split split, uint32_t payload, uint64_t seed)
{
	struct answer a = answer_make(form, payload, seed);
	uint8_t *got = malloc(a.len);
	char line[128];
	enum verdict v = RIG_OK;

	sprintf(line, "%c%d,%d,%u,%llu\n", first, form, split, payload, (unsigned long long)seed);
	if (!rig_write(fd, line, strlen(line)) || !rig_read(fd, got, a.len))
		v = RIG_CUT;
	else if (memcmp(got, a.wire, a.len))
		v = RIG_WRONG;
	free(got);
	free(a.wire);
	return v;
}

struct load_client {
	struct load *l;
	unsigned id;
};

static void *load_client(void *arg)
{
	struct load_client *c = arg;
	struct load *l = c->l;
	uint64_t rnd = l->seed * 1000003 + c->id * 7919 + 1;
	int fd = rig_connect(l->port, 0);
	uint8_t more;

	for (unsigned i = 0; i < l->requests; i++) {
		enum form form = l->form >= 0 ? (enum form)l->form : (enum form)(rig_random(&rnd) % FORMS);
		enum split split = l->split >= 0 ? (enum split)l->split : (enum split)(rig_random(&rnd) % SPLITS);
		uint32_t payload = 1 + (uint32_t)(rig_random(&rnd) % l->payload_max);
		char kind = l->kinds[rig_random(&rnd) % strlen(l->kinds)];
		enum verdict v = rig_request(fd, kind, form, split, form == FORM_TINY_CHUNKS ? payload % 2000 + 1 : payload,
					     rig_random(&rnd) >> 8);

		__atomic_fetch_add(v == RIG_OK ? &l->ok : v == RIG_WRONG ? &l->wrong : &l->cut, 1, __ATOMIC_RELAXED);
		if (v != RIG_OK) {
			fprintf(stderr, "client %u request %u: %s, %s, %s, %u bytes\n", c->id, i,
				v == RIG_WRONG ? "wrong bytes" : "cut or hung", form_name(form), split_name(split), payload);
			break;
		}
	}
	/* and not a byte more */
	if (recv(fd, &more, 1, MSG_DONTWAIT) > 0)
		__atomic_fetch_add(&l->wrong, 1, __ATOMIC_RELAXED);
	close(fd);
	return NULL;
}

void load_run(struct load *l)
{
	pthread_t t[256];
	struct load_client c[256];

	for (unsigned i = 0; i < l->clients; i++) {
		c[i] = (struct load_client){ l, i };
		pthread_create(&t[i], NULL, load_client, &c[i]);
	}
	for (unsigned i = 0; i < l->clients; i++)
		pthread_join(t[i], NULL);
}
