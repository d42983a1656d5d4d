/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "config/names.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_BYTES (256u << 10) /* glibc's resolver takes some 80 KiB of it */

struct name {
	char host[256];
	uint16_t port;
	bool answered; /* atomic: the rest is final */
	struct sockaddr_storage sa;
	socklen_t sa_len; /* 0: no address */
	const char *error;
};

struct name_lookup {
	unsigned refs;	/* atomic: the caller, and each thread */
	bool abandoned; /* atomic */
	unsigned n, cap;
	unsigned next;	/* atomic: the next name to ask for */
	unsigned left;	/* atomic: names without an answer */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct name v[];
};

struct name_lookup *name_lookup_new(unsigned n)
{
	struct name_lookup *l = calloc(1, sizeof(*l) + n * sizeof(l->v[0]));
	pthread_condattr_t attr;

	if (!l)
		return NULL;
	l->refs = 1;
	l->cap = n;
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &attr);
	pthread_condattr_destroy(&attr);
	return l;
}

static const struct name *find(const struct name_lookup *l, const char *host, uint16_t port)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->v[i].port == port && !strncmp(l->v[i].host, host, sizeof(l->v[i].host) - 1))
			return &l->v[i];
	return NULL;
}

void name_lookup_add(struct name_lookup *l, const char *host, uint16_t port)
{
	if (l->n == l->cap || find(l, host, port))
		return;
	snprintf(l->v[l->n].host, sizeof(l->v[0].host), "%s", host);
	l->v[l->n++].port = port;
}

unsigned name_lookup_count(const struct name_lookup *l)
{
	return l->n;
}

static void ask(struct name *n)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *ai;
	char port[8];
	int r;

	snprintf(port, sizeof(port), "%u", n->port);
	r = getaddrinfo(n->host, port, &hints, &ai);
	if (r) {
		n->error = r == EAI_SYSTEM ? strerrordesc_np(errno) : gai_strerror(r);
	} else {
		memcpy(&n->sa, ai->ai_addr, ai->ai_addrlen);
		n->sa_len = ai->ai_addrlen;
		freeaddrinfo(ai);
	}
	__atomic_store_n(&n->answered, true, __ATOMIC_RELEASE);
}

static void ask_in_turn(struct name_lookup *l)
{
	while (!__atomic_load_n(&l->abandoned, __ATOMIC_RELAXED)) {
		unsigned i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);

		if (i >= l->n)
			return;
		ask(&l->v[i]);
		pthread_mutex_lock(&l->lock);
		if (!__atomic_sub_fetch(&l->left, 1, __ATOMIC_RELEASE))
			pthread_cond_broadcast(&l->changed);
		pthread_mutex_unlock(&l->lock);
	}
}

static void let_go(struct name_lookup *l)
{
	if (__atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL))
		return;
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static void *lookup_thread(void *arg)
{
	ask_in_turn(arg);
	let_go(arg);
	return NULL;
}

void name_lookup_start(struct name_lookup *l)
{
	unsigned want = l->n < NAME_LOOKUP_THREADS ? l->n : NAME_LOOKUP_THREADS, started = 0;
	pthread_attr_t attr;
	pthread_t thread;

	l->left = l->n;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (; started < want; started++) {
		__atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
		if (pthread_create(&thread, &attr, lookup_thread, l)) {
			let_go(l);
			break;
		}
	}
	pthread_attr_destroy(&attr);
	if (!started)
		ask_in_turn(l);
}

bool name_lookup_done(const struct name_lookup *l)
{
	return !__atomic_load_n(&l->left, __ATOMIC_ACQUIRE);
}

bool name_lookup_wait(struct name_lookup *l, uint64_t timeout_ns)
{
	struct timespec end;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (time_t)(timeout_ns / 1000000000u);
	end.tv_nsec += (long)(timeout_ns % 1000000000u);
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&l->lock);
	while (!name_lookup_done(l) && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&l->changed, &l->lock, &end);
	pthread_mutex_unlock(&l->lock);
	return name_lookup_done(l);
}

bool name_lookup_result(const struct name_lookup *l, const char *host, uint16_t port, struct sockaddr_storage *sa,
			socklen_t *len, const char **error)
{
	const struct name *n = find(l, host, port);

	*error = "the resolver has not answered in time";
	if (!n || !__atomic_load_n(&n->answered, __ATOMIC_ACQUIRE))
		return false;
	*error = n->error;
	if (!n->sa_len)
		return false;
	*sa = n->sa;
	*len = n->sa_len;
	return true;
}

bool name_lookup_nth(const struct name_lookup *l, unsigned i, const char **host, uint16_t *port)
{
	*host = l->v[i].host;
	*port = l->v[i].port;
	return __atomic_load_n(&l->v[i].answered, __ATOMIC_ACQUIRE) && l->v[i].sa_len;
}

void name_lookup_put(struct name_lookup *l)
{
	if (!l)
		return;
	__atomic_store_n(&l->abandoned, true, __ATOMIC_RELAXED);
	let_go(l);
}
