/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What control/ asks of a running gateway. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/access_log.h"
#include "gateway/internal.h"
#include "prompt/prompt.h"
#include "signals/scraper.h"

struct fleet *gateway_fleet_get(struct gateway *gw)
{
	struct fleet *f;

	pthread_mutex_lock(&gw->fleet_lock);
	f = gw->fleet;
	fleet_ref(f);
	pthread_mutex_unlock(&gw->fleet_lock);
	return f;
}

struct stats_worker *const *gateway_stats(const struct gateway *gw, unsigned *n)
{
	*n = gw->n_workers + 1;
	return gw->stats;
}

_Static_assert(GATEWAY_SCRAPE_REASONS == SCRAPE_ERRORS, "every reason of signals/scraper.h");

void gateway_scrape_view(const struct gateway *gw, struct gateway_scrape_view *out)
{
	struct scraper_stats s;

	scraper_stats_get(gw->scraper, &s);
	out->samples = s.samples;
	out->duration_ns = s.duration_ns;
	for (unsigned i = 0; i < SCRAPE_ERRORS; i++) {
		out->errors[i].reason = scrape_error_name((enum scrape_error)i);
		out->errors[i].count = s.errors[i];
	}
}

uint64_t gateway_start_ns(const struct gateway *gw)
{
	return gw->start_ns;
}

bool gateway_unreachable(const struct gateway *gw, uint32_t row)
{
	return row < BACKENDS_MAX_ROWS && __atomic_load_n(&gw->unreachable[row], __ATOMIC_RELAXED);
}

uint64_t gateway_log_lost(const struct gateway *gw)
{
	return access_log_lost(gw->access_log);
}

/* Backends at their cap count: they work. So do those whose exclusion is over: without
 * requests nothing could show that they are back. */
static bool pool_ready(struct gateway *gw, struct fleet_pool *p)
{
	struct route_health_row rows[ROUTE_MAX_NODES];
	uint32_t n = route_pool_health(p->state->route, clock_now_ns(), rows, ROUTE_MAX_NODES);

	for (uint32_t i = 0; i < n; i++)
		if ((rows[i].state == BACKEND_READY || rows[i].state == BACKEND_PROBING) && !gateway_unreachable(gw, rows[i].row))
			return true;
	return false;
}

bool gateway_ready(struct gateway *gw)
{
	struct fleet *f = gateway_fleet_get(gw);
	bool ready = false;

	for (unsigned i = 0; i < f->npools && !ready; i++)
		ready = pool_ready(gw, &f->pools[i]);
	fleet_put(f);
	return ready && !gateway_draining(gw);
}

void gateway_ledger_view(struct gateway *gw, struct gateway_ledger_view *out)
{
	memset(out, 0, sizeof(*out));
	out->live_slots = ledger_count_all(&gw->ledger);
	for (uint32_t i = 0; i < BACKENDS_MAX_ROWS; i++)
		out->in_flight += ledger_in_flight(&gw->ledger, i);
	out->refused_releases = ledger_refused_releases(&gw->ledger);
}

uint32_t gateway_ledger_mismatches(struct gateway *gw)
{
	struct fleet *f = gateway_fleet_get(gw);
	uint32_t n = 0;

	for (unsigned i = 0; i < f->npools; i++)
		n += route_check_invariants(f->pools[i].state->route);
	fleet_put(f);
	return n;
}

int gateway_explain(struct gateway *gw, const char *path, const uint8_t *body, size_t len, gateway_header_fn *header,
		    const void *ctx, struct gateway_explain *out, char *err, size_t err_len)
{
	struct iovec v = { (void *)body, len };
	unsigned flags;
	enum prompt_family family = prompt_family_of(path, strlen(path), &flags);
	struct prompt_key_params params = { 0 };
	struct prompt_key key = { 0 };
	struct route_request req = { 0 };
	const struct prompt_info *info;
	struct prompt_scan *scan;
	struct fleet_model names;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	snprintf(err, err_len, "out of memory");
	if (family == PROMPT_FAMILY_NONE) {
		snprintf(err, err_len, "%s is not an inference path", path);
		return -EINVAL;
	}
	scan = prompt_scan_new();
	if (!scan)
		return -ENOMEM;
	prompt_scan_begin(scan, family, NULL);
	prompt_scan_feed(scan, body, len);
	prompt_scan_end(scan, false);
	info = prompt_scan_info(scan);
	out->fleet = gateway_fleet_get(gw);
	out->pool = fleet_pool_for_model(out->fleet, info->has_model ? info->model : NULL, &names);
	if (!out->pool) {
		snprintf(err, err_len, "no pool serves the model \"%s\"", info->has_model ? info->model : "");
		rc = -ENOENT;
		goto out;
	}
	if (out->pool->cfg->volatile_heads.n) { /* only now it is known which */
		struct prompt_limits limits = { .volatile_heads = out->pool->cfg->volatile_heads.v,
						.n_volatile_heads = out->pool->cfg->volatile_heads.n };

		prompt_scan_begin(scan, family, &limits);
		prompt_scan_feed(scan, body, len);
		prompt_scan_end(scan, false);
	}
	params.model = names.served;
	params.hint = header(ctx, "x-amzn-sagemaker-prefix-aware-id", &params.hint_len);
	if (!params.hint_len)
		params.hint = NULL;
	if (!(flags & (PROMPT_FAM_LOAD_ONLY | PROMPT_FAM_OPAQUE))) {
		rc = prompt_key_build(scan, &params, &v, 1, &key);
		if (rc)
			goto out;
		req.chain = (struct route_chain){ key.hash, key.bytes, key.flags, key.nblocks, key.total_bytes };
		req.class_id = key.class_id;
	}
	req.first_token_visible = info->stream;
	req.adapter = names.adapter ? names.served : NULL;
	req.placement_key = session_key(out->pool->cfg, info, header, ctx);
	if (out->pool->cfg->policy == CONFIG_POLICY_PREFIX_AWARE)
		req.prefix_key = prompt_prefix_hash(&v, 1, family, out->pool->cfg->prefix_length, params.hint, params.hint_len);
	out->rows = calloc(out->pool->nbackends, sizeof(*out->rows));
	if (!out->rows) {
		rc = -ENOMEM;
		goto out;
	}
	out->blocks = key.nblocks;
	out->n = route_explain(out->pool->state->route, &req, clock_now_ns(), out->rows, out->pool->nbackends, &out->tokens);
out:
	prompt_key_free(&key);
	prompt_scan_free(scan);
	if (rc)
		gateway_explain_free(out);
	return rc;
}

void gateway_explain_free(struct gateway_explain *e)
{
	free(e->rows);
	fleet_put(e->fleet);
	memset(e, 0, sizeof(*e));
}

int gateway_backend_drain(struct gateway *gw, const char *name, bool drain)
{
	struct fleet *f = gateway_fleet_get(gw);
	int rc = -ENOENT;

	for (unsigned i = 0; i < f->npools; i++)
		if (!route_set_drain(f->pools[i].state->route, name, drain))
			rc = 0;
	fleet_put(f);
	return rc;
}
