/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Questions to a finished snapshot, and the one step that needs the network. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"
#include "config/names.h"

static bool cidr_has(const struct config_cidr *c, int family, const uint8_t *addr)
{
	unsigned whole = c->bits / 8, rest = c->bits % 8;

	if (c->family != family || memcmp(c->addr, addr, whole))
		return false;
	return !rest || !((c->addr[whole] ^ addr[whole]) & (uint8_t)(0xff00u >> rest));
}

bool config_trusted(const struct config *cfg, const struct sockaddr *sa)
{
	const uint8_t *addr;
	int family = sa->sa_family;

	if (family == AF_INET) {
		addr = (const uint8_t *)&((const struct sockaddr_in *)sa)->sin_addr;
	} else if (family == AF_INET6) {
		const struct in6_addr *in6 = &((const struct sockaddr_in6 *)sa)->sin6_addr;

		addr = in6->s6_addr;
		if (IN6_IS_ADDR_V4MAPPED(in6)) {
			family = AF_INET;
			addr += 12;
		}
	} else {
		return false;
	}
	for (unsigned i = 0; i < cfg->n_trusted_proxies; i++)
		if (cidr_has(&cfg->trusted_proxies[i], family, addr))
			return true;
	return false;
}

/* Would some server read the path as another than its bytes say? */
static bool path_ambiguous(const char *path, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		size_t left = len - i;

		if (path[i] == '%' &&
		    (left < 3 || !strncasecmp(path + i, "%2f", 3) || !strncasecmp(path + i, "%2e", 3) ||
		     !strncasecmp(path + i, "%5c", 3) || !strncmp(path + i, "%00", 3)))
			return true;
		if (path[i] == '\\')
			return true;
		if (path[i] != '/' || left < 2 || path[i + 1] != '.')
			continue;
		if (left == 2 || path[i + 2] == '/' || path[i + 2] == ';')
			return true;
		if (path[i + 2] == '.' && (left == 3 || path[i + 3] == '/' || path[i + 3] == ';'))
			return true;
	}
	return false;
}

bool config_path_allowed(const struct config *cfg, const char *path, size_t len)
{
	for (unsigned i = 0; i < cfg->allow_paths.n; i++) {
		const char *allow = cfg->allow_paths.v[i];
		size_t n = strlen(allow);

		if (len == n && !memcmp(path, allow, n))
			return true;
		if (allow[n - 1] == '/' && len > n && !memcmp(path, allow, n) && !path_ambiguous(path, len))
			return true;
	}
	return false;
}

/* The list of all names that have no address yet; NULL: none, or no memory (*err says so). */
static struct name_lookup *names_of(const struct config *cfg, int *err)
{
	struct name_lookup *l;
	unsigned n = 0;

	*err = 0;
	for (unsigned i = 0; i < cfg->n_pools; i++)
		for (unsigned j = 0; j < cfg->pools[i].n_backends; j++)
			n += !cfg->pools[i].backends[j].sa_len && !cfg->pools[i].backends[j].unresolved;
	if (!n)
		return NULL;
	l = name_lookup_new(n);
	if (!l) {
		*err = -ENOMEM;
		return NULL;
	}
	for (unsigned i = 0; i < cfg->n_pools; i++)
		for (unsigned j = 0; j < cfg->pools[i].n_backends; j++) {
			const struct config_backend *b = &cfg->pools[i].backends[j];

			if (!b->sa_len && !b->unresolved)
				name_lookup_add(l, b->host, b->port);
		}
	return l;
}

int config_resolve(struct config *cfg, struct config_error *err)
{
	int bad = 0;
	struct name_lookup *l = names_of(cfg, &bad);

	memset(err, 0, sizeof(*err));
	if (!l) {
		if (bad)
			snprintf(err->message, sizeof(err->message), "out of memory");
		return bad;
	}
	name_lookup_start(l);
	name_lookup_wait(l, NAME_LOOKUP_PATIENCE_NS);
	for (unsigned i = 0; i < cfg->n_pools; i++)
		for (unsigned j = 0; j < cfg->pools[i].n_backends; j++) {
			struct config_backend *b = (struct config_backend *)&cfg->pools[i].backends[j];
			const char *why;

			if (b->sa_len || b->unresolved || name_lookup_result(l, b->host, b->port, &b->sa, &b->sa_len, &why))
				continue;
			b->unresolved = why;
			if (bad)
				continue;
			bad = -EHOSTUNREACH;
			snprintf(err->file, sizeof(err->file), "%s", cfg->file);
			err->line = b->line;
			err->column = b->column;
			snprintf(err->key, sizeof(err->key), "pools[%u].backends[%u].url", i, j);
			snprintf(err->given, sizeof(err->given), "%s", b->url);
			snprintf(err->message, sizeof(err->message), "host cannot be resolved: %s", why);
		}
	name_lookup_put(l);
	return bad;
}
