/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The lists that are made anew for each look: requests under way, hot prefixes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/json.h"
#include "control/status.h"
#include "control/view.h"
#include "gateway/flows.h"
#include "route/top.h"

static const char *flow_state(uint32_t state)
{
	return state == LEDGER_QUEUED ? "queued" : state == LEDGER_KERNEL ? "splice" : "relay";
}

char *status_flows_json(const struct view *v, size_t *len)
{
	struct gateway_flow *f = calloc(STATUS_FLOWS_MAX, sizeof(*f));
	uint32_t n, live;
	struct json j;

	if (!f)
		return NULL;
	n = gateway_flows(v->gw, v->now_ns, f, STATUS_FLOWS_MAX, &live);
	json_start(&j);
	json_array(&j, "flows");
	for (uint32_t i = 0; i < n; i++) {
		json_object(&j, NULL);
		json_uint(&j, "slot", f[i].slot);
		json_uint(&j, "generation", f[i].generation);
		json_str(&j, "state", flow_state(f[i].state));
		json_str(&j, "pool", *f[i].pool ? f[i].pool : NULL);
		json_str(&j, "backend", *f[i].backend ? f[i].backend : NULL);
		json_uint(&j, "worker", f[i].worker);
		json_real(&j, "age_s", (double)f[i].age_ns / (double)NSEC_PER_SEC, 3);
		json_end(&j);
	}
	json_end(&j);
	json_uint(&j, "omitted", live > n ? live - n : 0);
	free(f);
	return json_finish(&j, len);
}

char *status_prefixes_json(const struct view *v, size_t *len)
{
	struct route_top_row rows[STATUS_PREFIXES_MAX];
	char hash[17];
	struct json j;

	json_start(&j);
	json_array(&j, "prefixes");
	for (unsigned i = 0; i < v->n_pools; i++) {
		int n = route_prefix_top(v->fleet->pools[i].state->route, v->now_ns, rows, STATUS_PREFIXES_MAX);

		if (n < 0)
			j.failed = true;
		for (int k = 0; k < n; k++) {
			snprintf(hash, sizeof(hash), "%016" PRIx64, rows[k].hash);
			json_object(&j, NULL);
			json_str(&j, "pool", v->pools[i].cfg->name);
			json_str(&j, "hash", hash);
			json_real(&j, "share", rows[k].share, 4);
			json_real(&j, "requests", rows[k].requests, 1);
			json_uint(&j, "blocks", rows[k].blocks);
			json_uint(&j, "nodes", rows[k].nodes);
			json_end(&j);
		}
	}
	json_end(&j);
	return json_finish(&j, len);
}
