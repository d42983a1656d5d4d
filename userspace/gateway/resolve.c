/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Backends whose names had no address: asked for again every RESOLVE_AGAIN_NS, beside everything else. */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/names.h"
#include "gateway/internal.h"

#define RESOLVE_AGAIN_NS (10 * NSEC_PER_SEC)
#define RESOLVE_POLL_NS (200 * NSEC_PER_MSEC)

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

static void resolve_start(struct gateway *gw, const struct fleet *f, unsigned n)
{
	struct name_lookup *l = name_lookup_new(n);

	if (!l)
		return;
	for (unsigned i = 0; i < f->npools; i++)
		for (unsigned k = 0; k < f->pools[i].nbackends; k++) {
			const struct fleet_backend *b = &f->pools[i].backends[k];

			if (!b->addr_len)
				name_lookup_add(l, b->cfg->host, b->cfg->port);
		}
	name_lookup_start(l);
	gw->resolving = l;
}

bool resolve_found(const struct gateway *gw, const struct config_backend *b, struct sockaddr_storage *sa, socklen_t *len)
{
	const char *why;

	return gw->resolving && name_lookup_done(gw->resolving) && name_lookup_result(gw->resolving, b->host, b->port, sa, len, &why);
}

/* A round is over: a fleet with the addresses that it has found. */
static void resolve_finish(struct gateway *gw, struct fleet *f)
{
	struct name_lookup *l = gw->resolving;
	unsigned found = 0;
	char err[256];

	for (unsigned i = 0; i < name_lookup_count(l); i++) {
		const char *host;
		uint16_t port;

		if (!name_lookup_nth(l, i, &host, &port))
			continue;
		found++;
		log_info("backend_resolved", "host=%s port=%u", host, port);
	}
	if (found && gateway_publish(gw, f->cfg, f, err, sizeof(err)))
		log_error("resolve_failed", "error=\"%s\"", err);
	gw->resolving = NULL;
	name_lookup_put(l);
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

	if (gw->resolving && name_lookup_done(gw->resolving)) {
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
	name_lookup_put(gw->resolving);
	gw->resolving = NULL;
}
