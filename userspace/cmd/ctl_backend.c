/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/ctl.h"

static void print_backends(yyjson_val *root)
{
	static const struct ctl_column cols[] = {
		{ "NAME", "name", CTL_TEXT },
		{ "POOL", "pool", CTL_TEXT },
		{ "ADDRESS", "address", CTL_TEXT },
		{ "STATE", "state", CTL_TEXT },
		{ "IN-FLIGHT", "in_flight", CTL_COUNT },
		{ "CAP", "cap", CTL_COUNT },
		{ "RUNNING", "running", CTL_COUNT },
		{ "WAITING", "waiting", CTL_COUNT },
		{ "KV", "kv_used", CTL_PERCENT },
		{ "WAIT-S", "wait_s", CTL_REAL3 },
		{ "SPEED", "speed", CTL_REAL3 },
		{ "BLOCKS", "index_blocks", CTL_COUNT },
		{ "REQUESTS", "requests", CTL_COUNT },
		{ NULL, NULL, CTL_TEXT },
	};

	ctl_table(yyjson_obj_get(root, "backends"), cols, "");
}

static int do_list(const struct ctl *c, int argc, char **argv)
{
	return ctl_show(c, "/backend/list", print_backends);
}

static int change(const struct ctl *c, const char *path, const char *name, const char *done)
{
	char *url = ctl_url(path, "name", name);
	int r;

	if (!url)
		return ctl_error(c, CTL_FAILED, "no_memory", "out of memory");
	r = ctl_change(c, url, done);
	free(url);
	return r;
}

static int do_drain(const struct ctl *c, int argc, char **argv)
{
	return change(c, "/backend/drain", argv[0], "draining: no new requests; those under way go on\n");
}

static int do_undrain(const struct ctl *c, int argc, char **argv)
{
	return change(c, "/backend/undrain", argv[0], "takes requests again\n");
}

const struct ctl_command ctl_backend_commands[] = {
	{ "backend", "list", NULL, 0, 0, "backends of all pools: state, load, cache", do_list },
	{ "backend", "drain", "NAME", 1, 1, "send a backend no new requests", do_drain },
	{ "backend", "undrain", "NAME", 1, 1, "take it back", do_undrain },
	{ NULL, NULL, NULL, 0, 0, NULL, NULL },
};
