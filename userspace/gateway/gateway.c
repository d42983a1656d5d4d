/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/gateway.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/access_log.h"
#include "gateway/client.h"
#include "gateway/internal.h"
#include "gateway/listener.h"
#include "gateway/splice.h"
#include "gateway/upstream.h"
#include "signals/scraper.h"

/* ---- load counters of the backends ---- */

/* A scrape target's cookie is {slot of the pool, node}: no pointer that could dangle. */
static uint64_t target_cookie(uint32_t slot, uint32_t node)
{
	return (uint64_t)slot << 32 | node;
}

/* Also an answer that is no metrics page shows that somebody is there. */
static void mark_reachable(struct gateway *gw, struct fleet_pool_state *state, uint32_t node, bool reachable)
{
	uint32_t row = route_node_row(state->route, node);

	if (row < BACKENDS_MAX_ROWS)
		__atomic_store_n(&gw->unreachable[row], !reachable, __ATOMIC_RELAXED);
}

static void on_sample(void *ctx, uint64_t cookie, const struct signal_sample *s, uint64_t now_ns)
{
	struct gateway *gw = ctx;
	struct fleet_pool_state *state = fleet_state_get(&gw->registry, (uint32_t)(cookie >> 32));
	const char *adapters[SIGNAL_ADAPTERS_MAX];
	struct route_snapshot_in in = {
		.waiting = s->has_load ? s->waiting : BACKEND_UNKNOWN,
		.running = s->has_load ? s->running : BACKEND_UNKNOWN,
		.kv_used = s->kv_used,
		.kv_capacity_tokens = s->kv_capacity_tokens,
		.kv_capacity_bound = s->kv_capacity_bound,
		.max_adapters = s->max_lora,
		.adapters = adapters,
		.restarted = s->restarted,
	};

	if (!state)
		return;
	for (uint32_t i = 0; i < s->n_adapters; i++)
		if (s->adapters[i].running)
			adapters[in.n_adapters++] = s->adapters[i].name;
	route_snapshot(state->route, (uint32_t)cookie, &in, now_ns);
	mark_reachable(gw, state, (uint32_t)cookie, true);
	fleet_state_put(state);
}

/* Unknown is not bad: the backend keeps its traffic by our own counts; its
 * figures only grow stale. Counted by the scraper. Where nobody listens, readiness takes note. */
static void on_error(void *ctx, uint64_t cookie, enum scrape_error err, uint64_t now_ns)
{
	struct gateway *gw = ctx;
	struct fleet_pool_state *state = fleet_state_get(&gw->registry, (uint32_t)(cookie >> 32));

	if (!state)
		return;
	mark_reachable(gw, state, (uint32_t)cookie, err != SCRAPE_REFUSED);
	fleet_state_put(state);
}

static enum engine_kind engine_of(enum config_engine e)
{
	int kind = engine_kind_from_name(config_engine_name(e));

	return kind < 0 ? ENGINE_AUTO : (enum engine_kind)kind;
}

static int scrape_fleet(struct gateway *gw, const struct fleet *f)
{
	unsigned n = 0, total = 0;
	struct scraper_target *t;
	char (*urls)[600];
	int err;

	for (unsigned i = 0; i < f->npools; i++)
		total += f->pools[i].nbackends;
	t = calloc(total ? total : 1, sizeof(*t));
	urls = calloc(total ? total : 1, sizeof(*urls));
	if (!t || !urls) {
		free(t);
		free(urls);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < f->npools; i++)
		for (unsigned k = 0; k < f->pools[i].nbackends; k++, n++) {
			const struct config_backend *b = f->pools[i].backends[k].cfg;
			const struct config_scrape *sc = &f->pools[i].cfg->scrape;

			snprintf(urls[n], sizeof(urls[n]), strchr(b->host, ':') ? "http://[%s]:%u%s%s" : "http://%s:%u%s%s",
				 b->host, b->port, b->path_prefix, sc->path);
			t[n] = (struct scraper_target){
				.url = urls[n],
				.interval_ns = sc->interval_ns,
				.engine = engine_of(sc->engine),
				.cookie = target_cookie(f->pools[i].state->slot, f->pools[i].backends[k].node),
			};
		}
	err = scraper_set_targets(gw->scraper, t, n);
	free(t);
	free(urls);
	return err;
}

/* Rows that have come to another backend start their counts at zero. */
static void claim_rows(struct gateway *gw, const struct fleet *f)
{
	for (unsigned i = 0; i < f->npools; i++)
		for (unsigned k = 0; k < f->pools[i].nbackends; k++) {
			const char *pool = f->pools[i].cfg->name, *name = f->pools[i].backends[k].cfg->name;
			uint32_t row = f->pools[i].backends[k].row;
			uint64_t id = XXH3_64bits_withSeed(name, strlen(name), XXH3_64bits(pool, strlen(pool)));

			if (gw->row_identity[row] && gw->row_identity[row] != id) {
				stats_backend_restart(gw->stats, gw->n_workers + 1, gw->stats_correction, row);
				__atomic_store_n(&gw->unreachable[row], false, __ATOMIC_RELAXED);
			}
			__atomic_store_n(&gw->row_identity[row], id, __ATOMIC_RELAXED);
		}
}

/* The same for the slots of pools. */
static void claim_slots(struct gateway *gw, const struct fleet *f)
{
	for (unsigned i = 0; i < f->npools; i++) {
		const char *pool = f->pools[i].cfg->name;
		uint32_t slot = f->pools[i].state->slot;
		uint64_t id = XXH3_64bits(pool, strlen(pool));

		if (gw->slot_identity[slot] && gw->slot_identity[slot] != id)
			stats_pool_restart(gw->stats, gw->n_workers + 1, gw->stats_correction, slot);
		gw->slot_identity[slot] = id;
	}
}

/* ---- life ---- */

static unsigned worker_count(const struct config *cfg)
{
	long n = cfg->workers ? (long)cfg->workers : sysconf(_SC_NPROCESSORS_ONLN);

	if (n < 1)
		n = 1;
	return n > GATEWAY_WORKERS_MAX ? GATEWAY_WORKERS_MAX : (unsigned)n;
}

static struct access_sink access_sink_of(const struct config *cfg)
{
	return (struct access_sink){
		.off = cfg->log.access == CONFIG_ACCESS_OFF,
		.path = cfg->log.access == CONFIG_ACCESS_FILE ? cfg->log.access_path : NULL,
		.json = cfg->log.format == CONFIG_LOG_JSON,
	};
}

static bool same_sink(const struct config *a, const struct config *b)
{
	return a->log.access == b->log.access && a->log.format == b->log.format && !strcmp(a->log.access_path, b->log.access_path);
}

static void access_sink_error(const struct config *cfg, int error, char *err, size_t err_len)
{
	const char *given = cfg->log.access == CONFIG_ACCESS_FILE ? cfg->log.access_path : "stdout";
	struct config_error e;

	config_error_system(&e, cfg, "log.access", given, cfg->log.line, cfg->log.column, "cannot be opened", error);
	config_error_text(&e, err, err_len);
}

int gateway_publish(struct gateway *gw, struct config *cfg, struct fleet *old, char *err, size_t err_len)
{
	struct fleet *new = NULL;
	int rc;

	/* From the first pool's update to the publication, a worker that is given a
	 * backend it does not know waits for this lock. */
	pthread_mutex_lock(&gw->fleet_lock);
	rc = fleet_build(gw, cfg, old, &new, err, err_len);
	if (!rc) {
		claim_rows(gw, new);
		claim_slots(gw, new);
		gw->fleet = new;
		__atomic_store_n(&gw->fleet_version, new->version, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&gw->fleet_lock);
	if (rc)
		return rc;
	rc = scrape_fleet(gw, new);
	if (rc)
		log_error("scrape_targets_failed", "error=\"%s\"", strerror(-rc));
	fleet_put(old); /* the gateway's reference */
	return 0;
}

int gateway_create(struct gateway **out, struct config *cfg, char *err, size_t err_len)
{
	static const struct scraper_ops ops = { on_sample, on_error };
	struct gateway *gw = calloc(1, sizeof(*gw));
	struct listener_change *changes[GATEWAY_WORKERS_MAX];
	struct access_sink sink;
	int rc = -ENOMEM;

	*out = NULL;
	snprintf(err, err_len, "out of memory");
	if (!gw)
		return rc;
	pthread_mutex_init(&gw->fleet_lock, NULL);
	pthread_mutex_init(&gw->registry.lock, NULL);
	gw->start_ns = clock_now_ns();
	if (getrandom(&gw->id_seed, sizeof(gw->id_seed), 0) != sizeof(gw->id_seed))
		gw->id_seed = (uint32_t)clock_wall_ns();
	gw->n_workers = worker_count(cfg);
	gw->max_connections = cfg->limits.connections;
	gateway_resolve(cfg);
	/* a request holds a slot while it is routed: never more than there are client connections */
	rc = ledger_create(&gw->ledger, (uint32_t)gw->max_connections + gw->n_workers, gw->n_workers);
	if (rc) {
		snprintf(err, err_len, "request ledger: %s", strerror(-rc));
		goto fail;
	}
	rc = fleet_build(gw, cfg, NULL, &gw->fleet, err, err_len);
	if (rc)
		goto fail;
	gw->fleet_version = gw->fleet->version;
	sink = access_sink_of(cfg);
	rc = access_log_open(&gw->access_log, &sink);
	if (rc) {
		access_sink_error(cfg, -rc, err, err_len);
		goto fail;
	}
	for (unsigned i = 0; i < gw->n_workers; i++) {
		rc = worker_create(&gw->workers[i], gw, i);
		if (rc) {
			snprintf(err, err_len, "worker %u: %s", i, strerror(-rc));
			goto fail;
		}
		gw->stats[i] = gw->workers[i]->stats;
		gw->workers[i]->fleet = gateway_fleet_get(gw);
	}
	rc = gateway_splice_open(gw, cfg, err, err_len);
	if (rc)
		goto fail;
	rc = -ENOMEM;
	gw->stats_correction = gw->stats[gw->n_workers] = calloc(1, sizeof(*gw->stats_correction));
	if (!gw->stats_correction)
		goto fail;
	claim_rows(gw, gw->fleet);
	claim_slots(gw, gw->fleet);
	rc = listeners_bind(gw, cfg, NULL, changes, err, err_len);
	if (rc)
		goto fail;
	for (unsigned i = 0; i < gw->n_workers; i++)
		listeners_apply(gw->workers[i], changes[i], cfg, false);
	rc = scraper_create(&gw->scraper, &ops, gw);
	if (!rc)
		rc = scrape_fleet(gw, gw->fleet);
	if (rc) {
		snprintf(err, err_len, "scraper: %s", strerror(-rc));
		goto fail;
	}
	*out = gw;
	*err = 0;
	return 0;
fail:
	gateway_destroy(gw);
	return rc;
}

int gateway_start(struct gateway *gw)
{
	for (unsigned i = 0; i < gw->n_workers; i++) {
		int rc = worker_start(gw->workers[i]);

		if (rc)
			return rc;
	}
	return 0;
}

int gateway_reload(struct gateway *gw, struct config *cfg, char *err, size_t err_len)
{
	struct listener_change *changes[GATEWAY_WORKERS_MAX];
	struct access_sink sink = access_sink_of(cfg);
	struct fleet *old = gateway_fleet_get(gw);
	bool same = same_sink(cfg, old->cfg);
	int rc, sink_fd = -1;

	/* everything that may fail, before anything changes */
	if (!same)
		sink_fd = access_log_sink(&sink);
	if (!same && sink_fd < 0) {
		fleet_put(old);
		access_sink_error(cfg, -sink_fd, err, err_len);
		return sink_fd;
	}
	gateway_resolve(cfg);
	rc = listeners_bind(gw, cfg, old->cfg, changes, err, err_len);
	if (!rc) {
		rc = gateway_publish(gw, cfg, old, err, err_len);
		for (unsigned i = 0; i < gw->n_workers; i++) {
			if (rc)
				listeners_forget(changes[i]);
			else
				listeners_apply(gw->workers[i], changes[i], cfg, true);
		}
	}
	if (!rc && same)
		access_log_reopen(gw->access_log); /* rotation: the new file is there when lines go to it */
	else if (!rc)
		access_log_switch(gw->access_log, &sink, sink_fd);
	else if (!same && !sink.off)
		close(sink_fd);
	fleet_put(old);
	return rc;
}

void gateway_drain(struct gateway *gw)
{
	if (!gateway_draining(gw)) {
		struct fleet *f = gateway_fleet_get(gw);

		gw->drain_until_ns = clock_now_ns() + f->cfg->timeouts.drain_ns;
		fleet_put(f);
		__atomic_store_n(&gw->draining, true, __ATOMIC_RELEASE);
	}
	for (unsigned i = 0; i < gw->n_workers; i++)
		if (gw->workers[i])
			worker_wake(gw->workers[i]);
}

bool gateway_draining(const struct gateway *gw)
{
	return __atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE);
}

bool gateway_drained(const struct gateway *gw)
{
	for (unsigned i = 0; i < gw->n_workers; i++)
		if (!__atomic_load_n(&gw->workers[i]->ended, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

bool worker_done(struct worker *w)
{
	struct gateway *gw = w->gw;

	if (!__atomic_load_n(&gw->draining, __ATOMIC_ACQUIRE))
		return false;
	if (!w->draining) {
		/* what had connected before this moment is served, what comes later is refused by the kernel */
		while (w->listeners)
			listener_close(w, w->listeners);
		w->draining = true;
		client_close_idle(w);
	}
	if (!w->n_clients && !upstream_busy(w))
		return true;
	return __atomic_load_n(&gw->drain_over, __ATOMIC_ACQUIRE) || w->now_ns >= gw->drain_until_ns;
}

void gateway_destroy(struct gateway *gw)
{
	if (!gw)
		return;
	__atomic_store_n(&gw->drain_over, true, __ATOMIC_RELEASE);
	if (gw->fleet)
		gateway_drain(gw);
	for (unsigned i = 0; i < gw->n_workers; i++)
		worker_destroy(gw->workers[i]);
	splice_close(gw->splice);
	if (gw->stats_correction)
		stats_worker_free(gw->stats_correction);
	scraper_destroy(gw->scraper);
	resolve_abandon(gw);
	if (gw->requests_cut)
		log_warn("requests_cut", "requests=%llu reason=draining", (unsigned long long)gw->requests_cut);
	access_log_close(gw->access_log);
	if (gw->fleet)
		fleet_put(gw->fleet);
	ledger_destroy(&gw->ledger);
	pthread_mutex_destroy(&gw->fleet_lock);
	pthread_mutex_destroy(&gw->registry.lock);
	free(gw);
}
