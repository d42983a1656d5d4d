/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reads: status, pool, flow, prefix. */
#include <stdio.h>

#include "cmd/ctl.h"

static unsigned long long get_uint(yyjson_val *o, const char *key)
{
	return (unsigned long long)yyjson_get_uint(yyjson_obj_get(o, key));
}

static const char *get_str(yyjson_val *o, const char *key)
{
	const char *s = yyjson_get_str(yyjson_obj_get(o, key));

	return s ? s : "-";
}

static const struct ctl_column backend_columns[] = {
	{ "NAME", "name", CTL_TEXT },
	{ "STATE", "state", CTL_TEXT },
	{ "IN-FLIGHT", "in_flight", CTL_COUNT },
	{ "CAP", "cap", CTL_COUNT },
	{ "RUNNING", "running", CTL_COUNT },
	{ "WAITING", "waiting", CTL_COUNT },
	{ "KV", "kv_used", CTL_PERCENT },
	{ "STALE", "stale", CTL_YESNO },
	{ "HIT-PRED", "hit_predicted", CTL_PERCENT },
	{ "HIT-REP", "hit_reported", CTL_PERCENT },
	{ "SPEED", "speed", CTL_REAL3 },
	{ NULL, NULL, CTL_TEXT },
};

static void print_status(yyjson_val *root)
{
	yyjson_val *flows = yyjson_obj_get(root, "flows"), *conns = yyjson_obj_get(root, "connections"),
		   *dp = yyjson_obj_get(root, "datapath"), *pool;
	size_t i, max;

	printf("version      %s\n", get_str(root, "version"));
	printf("router pid   %llu%s\n", get_uint(root, "router_pid"),
	       yyjson_get_bool(yyjson_obj_get(root, "draining")) ? " (draining)" : "");
	printf("uptime       %.0f s\n", yyjson_get_num(yyjson_obj_get(root, "uptime_s")));
	printf("datapath     %s (%s)\n", get_str(dp, "mode"), get_str(dp, "reason"));
	printf("flows        %llu splice, %llu relay\n", get_uint(flows, "splice"), get_uint(flows, "relay"));
	printf("connections  %llu client, %llu upstream\n", get_uint(conns, "client"), get_uint(conns, "upstream"));
	printf("queued       %llu\n", get_uint(root, "queued"));
	yyjson_arr_foreach (yyjson_obj_get(root, "pools"), i, max, pool) {
		printf("\npool %s, policy %s%s\n", get_str(pool, "name"), get_str(pool, "policy"),
		       yyjson_get_bool(yyjson_obj_get(pool, "last_resort")) ? ": all backends are excluded, and are tried all the same" :
									      "");
		ctl_table(yyjson_obj_get(pool, "backends"), backend_columns, "  ");
	}
}

static int do_status(const struct ctl *c, int argc, char **argv)
{
	return ctl_show(c, "/status", print_status);
}

static void print_pools(yyjson_val *root)
{
	static const struct ctl_column cols[] = {
		{ "NAME", "name", CTL_TEXT },
		{ "POLICY", "policy", CTL_TEXT },
		{ "BACKENDS", "backends", CTL_COUNT },
		{ "ELIGIBLE", "eligible", CTL_COUNT },
		{ "QUEUED", "queued", CTL_COUNT },
		{ "SATURATION", "saturation", CTL_REAL3 },
		{ "ASSIGNED", "assigned", CTL_COUNT },
		{ "RETRIES", "retries", CTL_COUNT },
		{ "BLOCKS", "index_blocks", CTL_COUNT },
		{ "DEFAULT", "default", CTL_YESNO },
		{ "MODELS", "models", CTL_LIST },
		{ "ADAPTERS", "adapters", CTL_LIST },
		{ "ALIASES", "aliases", CTL_LIST },
		{ NULL, NULL, CTL_TEXT },
	};

	ctl_table(yyjson_obj_get(root, "pools"), cols, "");
}

static int do_pool_list(const struct ctl *c, int argc, char **argv)
{
	return ctl_show(c, "/pool/list", print_pools);
}

static void print_flows(yyjson_val *root)
{
	static const struct ctl_column cols[] = {
		{ "SLOT", "slot", CTL_COUNT },	    { "STATE", "state", CTL_TEXT },    { "POOL", "pool", CTL_TEXT },
		{ "BACKEND", "backend", CTL_TEXT }, { "WORKER", "worker", CTL_COUNT }, { "AGE-S", "age_s", CTL_REAL1 },
		{ NULL, NULL, CTL_TEXT },
	};

	ctl_table(yyjson_obj_get(root, "flows"), cols, "");
	if (get_uint(root, "omitted"))
		printf("and %llu more\n", get_uint(root, "omitted"));
}

static int do_flow_list(const struct ctl *c, int argc, char **argv)
{
	return ctl_show(c, "/flow/list", print_flows);
}

static void print_prefixes(yyjson_val *root)
{
	static const struct ctl_column cols[] = {
		{ "POOL", "pool", CTL_TEXT },	   { "HASH", "hash", CTL_TEXT },
		{ "SHARE", "share", CTL_PERCENT }, { "REQUESTS", "requests", CTL_REAL1 },
		{ "BLOCKS", "blocks", CTL_COUNT }, { "NODES", "nodes", CTL_COUNT },
		{ NULL, NULL, CTL_TEXT },
	};

	ctl_table(yyjson_obj_get(root, "prefixes"), cols, "");
}

static int do_prefix_top(const struct ctl *c, int argc, char **argv)
{
	return ctl_show(c, "/prefix/top", print_prefixes);
}

const struct ctl_command ctl_status_commands[] = {
	{ "status", NULL, NULL, 0, 0, "the router at a glance", do_status },
	{ "pool", "list", NULL, 0, 0, "pools: policy, queue, models", do_pool_list },
	{ "flow", "list", NULL, 0, 0, "requests under way: backend, age", do_flow_list },
	{ "prefix", "top", NULL, 0, 0, "prompt prefixes with most of the traffic, by hash", do_prefix_top },
	{ NULL, NULL, NULL, 0, 0, NULL, NULL },
};
