/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/splice_view.h"

#include <string.h>

#include "gateway/internal.h"

static const char *const fallback_names[FALLBACKS] = {
	[FALLBACK_CONFIGURED] = "configured",
	[FALLBACK_UNAVAILABLE] = "unavailable",
	[FALLBACK_HTTP10] = "http10",
	[FALLBACK_CLOSE_DELIMITED] = "close_delimited",
	[FALLBACK_TLS] = "tls",
	[FALLBACK_TABLE_FULL] = "table_full",
	[FALLBACK_INSERT_REFUSED] = "insert_refused",
	[FALLBACK_USAGE] = "usage_sample",
};

const char *stats_fallback_name(enum stats_fallback why)
{
	return why < FALLBACKS ? fallback_names[why] : "unknown";
}

void gateway_splice_view(struct gateway *gw, struct gateway_splice_view *out)
{
	memset(out, 0, sizeof(*out));
	out->on = gw->splice;
	out->why = gw->splice_why;
	if (!gw->splice)
		return;
	out->pin = splice_pin_path(gw->splice);
	splice_counts_read(gw->splice, &out->kernel);
	for (unsigned i = 0; i < gw->n_workers; i++) {
		/* all members are uint64_t; each is written by its worker and read as it is at the moment */
		const uint64_t *from = (const uint64_t *)splice_worker_stats(gw->workers[i]->splice);
		uint64_t *to = (uint64_t *)&out->workers;

		for (size_t k = 0; k < sizeof(out->workers) / sizeof(uint64_t); k++)
			to[k] += __atomic_load_n(&from[k], __ATOMIC_RELAXED);
	}
}
