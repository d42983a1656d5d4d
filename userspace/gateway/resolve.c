/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Backends whose names had no address: asked for again every RESOLVE_AGAIN_NS, by a thread that does
 * this one round and ends, because getaddrinfo() blocks for as long as the resolver pleases. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/internal.h"

#define RESOLVE_AGAIN_NS (10 * NSEC_PER_SEC)
#define RESOLVE_POLL_NS (200 * NSEC_PER_MSEC)

enum { RESOLVE_RUNNING, RESOLVE_DONE, RESOLVE_ABANDONED };

/* Freed by whoever comes last: the thread, or the gateway. */
struct resolve_job {
	int state; /* atomic */
	unsigned n;
	struct {
		char host[256];
		uint16_t port;
		struct sockaddr_storage sa;
		socklen_t sa_len; /* 0: none */
	} v[];
};

void gateway_resolve(struct config *cfg)
{
	struct config_error e;

	if (config_resolve(cfg, &e) != -EHOSTUNREACH)
		return;
	for (unsigned i = 0; i < cfg->n_pools; i++)
		for (unsigned k = 0; k < cfg->pools[i].n_backends; k++) {
			const struct config_backend *b = &cfg->pools[i].backends[k];

			if (b->unresolved)
				log_warn("backend_unresolved", "pool=%s backend=%s host=%s error=\"%s\"", cfg->pools[i].name,
					 b->name, b->host, b->unresolved);
		}
}

static void *resolve_thread(void *arg)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct resolve_job *job = arg;

	for (unsigned i = 0; i < job->n && __atomic_load_n(&job->state, __ATOMIC_ACQUIRE) == RESOLVE_RUNNING; i++) {
		struct addrinfo *ai;
		char port[8];

		snprintf(port, sizeof(port), "%u", job->v[i].port);
		if (getaddrinfo(job->v[i].host, port, &hints, &ai))
			continue;
		memcpy(&job->v[i].sa, ai->ai_addr, ai->ai_addrlen);
		job->v[i].sa_len = ai->ai_addrlen;
		freeaddrinfo(ai);
	}
	if (__atomic_exchange_n(&job->state, RESOLVE_DONE, __ATOMIC_ACQ_REL) == RESOLVE_ABANDONED)
		free(job);
	return NULL;
}

static void resolve_start(struct gateway *gw, const struct fleet *f, unsigned n)
{
	struct resolve_job *job = calloc(1, sizeof(*job) + n * sizeof(job->v[0]));
	pthread_attr_t attr;
	pthread_t thread;

	if (!job)
		return;
	for (unsigned i = 0; i < f->npools; i++)
		for (unsigned k = 0; k < f->pools[i].nbackends && job->n < n; k++) {
			const struct fleet_backend *b = &f->pools[i].backends[k];

			if (b->addr_len)
				continue;
			snprintf(job->v[job->n].host, sizeof(job->v[0].host), "%s", b->cfg->host);
			job->v[job->n++].port = b->cfg->port;
		}
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, resolve_thread, job))
		free(job);
	else
		gw->resolving = job;
	pthread_attr_destroy(&attr);
}

bool resolve_found(const struct gateway *gw, const struct config_backend *b, struct sockaddr_storage *sa, socklen_t *len)
{
	const struct resolve_job *job = gw->resolving;

	if (!job || __atomic_load_n(&job->state, __ATOMIC_ACQUIRE) != RESOLVE_DONE)
		return false;
	for (unsigned i = 0; i < job->n; i++)
		if (job->v[i].sa_len && job->v[i].port == b->port && !strcmp(job->v[i].host, b->host)) {
			*sa = job->v[i].sa;
			*len = job->v[i].sa_len;
			return true;
		}
	return false;
}

/* A round is over: a fleet with the addresses that it has found. */
static void resolve_finish(struct gateway *gw, struct fleet *f)
{
	struct resolve_job *job = gw->resolving;
	unsigned found = 0;
	char err[256];

	for (unsigned i = 0; i < job->n; i++) {
		found += job->v[i].sa_len > 0;
		if (job->v[i].sa_len)
			log_info("backend_resolved", "host=%s port=%u", job->v[i].host, job->v[i].port);
	}
	if (found && gateway_publish(gw, f->cfg, f, err, sizeof(err)))
		log_error("resolve_failed", "error=\"%s\"", err);
	gw->resolving = NULL;
	free(job);
}

static unsigned count_unresolved(const struct fleet *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->npools; i++)
		for (unsigned k = 0; k < f->pools[i].nbackends; k++)
			n += !f->pools[i].backends[k].addr_len;
	return n;
}

uint64_t gateway_resolve_again(struct gateway *gw, uint64_t now_ns)
{
	struct fleet *f = gateway_fleet_get(gw);
	unsigned n = count_unresolved(f);
	uint64_t next_ns = UINT64_MAX;

	if (gw->resolving && __atomic_load_n(&gw->resolving->state, __ATOMIC_ACQUIRE) == RESOLVE_DONE) {
		resolve_finish(gw, f);
		gw->resolve_next_ns = now_ns + RESOLVE_AGAIN_NS;
	} else if (!gw->resolving && n) {
		if (!gw->resolve_next_ns) /* just tried */
			gw->resolve_next_ns = now_ns + RESOLVE_AGAIN_NS;
		if (now_ns >= gw->resolve_next_ns)
			resolve_start(gw, f, n);
	}
	if (gw->resolving)
		next_ns = now_ns + RESOLVE_POLL_NS;
	else if (n)
		next_ns = gw->resolve_next_ns > now_ns ? gw->resolve_next_ns : now_ns + RESOLVE_POLL_NS;
	fleet_put(f);
	return next_ns;
}

void resolve_abandon(struct gateway *gw)
{
	struct resolve_job *job = gw->resolving;

	if (job && __atomic_exchange_n(&job->state, RESOLVE_ABANDONED, __ATOMIC_ACQ_REL) == RESOLVE_DONE)
		free(job);
	gw->resolving = NULL;
}
