/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/restart.h"

#include <stdbool.h>
#include <string.h>

#include "config/config.h"

static bool admin_address(const struct config *a, const struct config *b)
{
	return a->admin.address.sa_len != b->admin.address.sa_len ||
	       memcmp(&a->admin.address.sa, &b->admin.address.sa, a->admin.address.sa_len);
}

static bool admin_socket(const struct config *a, const struct config *b)
{
	return strcmp(a->admin.socket, b->admin.socket);
}

static bool workers(const struct config *a, const struct config *b)
{
	return a->workers != b->workers;
}

static bool connections(const struct config *a, const struct config *b)
{
	return a->limits.connections != b->limits.connections;
}

static bool datapath(const struct config *a, const struct config *b)
{
	return a->datapath != b->datapath;
}

static const struct {
	const char *key;
	bool (*differs)(const struct config *a, const struct config *b);
} rows[] = {
	{ "admin.address", admin_address }, { "admin.socket", admin_socket },	{ "workers", workers },
	{ "datapath", datapath },	    { "limits.connections", connections },
};
_Static_assert(sizeof(rows) / sizeof(*rows) <= RESTART_KEYS_MAX, "room for all");

unsigned restart_keys(const struct config *started, const struct config *now, const char *keys[RESTART_KEYS_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].differs(started, now))
			keys[n++] = rows[i].key;
	return n;
}
