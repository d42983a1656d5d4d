/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is left to do after a reload: keys that need a restart, backends whose names have no address. */
#include "control/daemon.h"
#include "control/json.h"
#include "control/restart.h"
#include "control/status.h"
#include "gateway/gateway.h"

char *status_reload_json(const struct daemon *d, size_t *len)
{
	const char *keys[RESTART_KEYS_MAX];
	unsigned n = restart_keys(d->started, d->cfg, keys);
	struct fleet *f = gateway_fleet_get(d->gw);
	struct json j;

	json_start(&j);
	json_bool(&j, "ok", true);
	json_array(&j, "needs_restart");
	for (unsigned i = 0; i < n; i++)
		json_str(&j, NULL, keys[i]);
	json_end(&j);
	json_array(&j, "unresolved");
	for (unsigned i = 0; i < f->npools; i++)
		for (unsigned k = 0; k < f->pools[i].nbackends; k++)
			if (!f->pools[i].backends[k].addr_len)
				json_str(&j, NULL, f->pools[i].backends[k].cfg->name);
	json_end(&j);
	fleet_put(f);
	return json_finish(&j, len);
}
