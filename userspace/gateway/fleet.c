/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/fleet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gateway/internal.h"

static void pool_config(const struct config_pool *p, const struct fleet_backend *addresses, struct route_pool_config *rc,
			struct route_backend_config *backends)
{
	memset(rc, 0, sizeof(*rc));
	rc->name = p->name;
	rc->policy = (enum route_policy)p->policy; /* the same order: asserted below */
	rc->profile = (struct route_profile){
		.a_s = p->profile.a_ms * 1e-3,
		.b_s = p->profile.b_us * 1e-6,
		.c_s = p->profile.c_us * 1e-6,
		.d_s = p->profile.d_ns * 1e-9,
		.e_s = p->profile.e_ns * 1e-9,
		.batch_tokens = (uint32_t)p->profile.batch_tokens,
		.max_seqs = (uint32_t)p->profile.max_seqs,
	};
	rc->kv_tokens = p->kv_tokens;
	rc->adapter_load_s = (double)p->adapter_load_ns * 1e-9;
	rc->weights = (struct route_weights){
		.queue = p->weights.queue,
		.kv_cache = p->weights.kv_cache,
		.prefix = p->weights.prefix,
		.running_requests = p->weights.running_requests,
		.lora_affinity = p->weights.lora_affinity,
		.predicted_latency = p->weights.predicted_latency,
	};
	rc->cap = p->concurrency_threshold;
	rc->stale_ns = p->scrape.stale_ns;
	rc->backends = backends;
	rc->n_backends = p->n_backends;
	for (unsigned i = 0; i < p->n_backends; i++)
		backends[i] = (struct route_backend_config){
			.name = p->backends[i].name,
			.address = p->backends[i].address,
			.cap = p->backends[i].concurrency_threshold,
			.extra_ms = p->backends[i].extra_ms,
			.unresolved = !addresses[i].addr_len,
		};
}
_Static_assert((int)CONFIG_POLICY_COST == (int)ROUTE_POLICY_COST &&
		       (int)CONFIG_POLICY_PREFIX_AWARE == (int)ROUTE_POLICY_PREFIX_AWARE &&
		       (int)CONFIG_POLICY_SESSION == (int)ROUTE_POLICY_SESSION &&
		       (int)CONFIG_POLICY_LEAST_REQUEST == (int)ROUTE_POLICY_LEAST_REQUEST &&
		       (int)CONFIG_POLICY_ROUND_ROBIN == (int)ROUTE_POLICY_ROUND_ROBIN &&
		       (int)CONFIG_POLICY_WEIGHTED == (int)ROUTE_POLICY_WEIGHTED,
	       "policies are numbered alike");

struct fleet_pool_state *fleet_state_get(struct fleet_registry *r, uint32_t slot)
{
	struct fleet_pool_state *s = NULL;

	pthread_mutex_lock(&r->lock);
	if (slot < STATS_POOLS_MAX)
		s = r->by_slot[slot];
	if (s)
		s->refs++;
	pthread_mutex_unlock(&r->lock);
	return s;
}

void fleet_state_put(struct fleet_pool_state *s)
{
	struct fleet_registry *r = s->registry;
	bool last;

	pthread_mutex_lock(&r->lock);
	last = !--s->refs;
	if (last)
		r->by_slot[s->slot] = NULL;
	pthread_mutex_unlock(&r->lock);
	if (!last)
		return;
	route_pool_free(s->route);
	queue_destroy(&s->queue);
	pthread_mutex_destroy(&s->queue_lock);
	free(s);
}

/* The living state of the pool named `name` with a reference, or NULL. */
static struct fleet_pool_state *state_find(struct fleet_registry *r, const char *name)
{
	struct fleet_pool_state *s = NULL;

	pthread_mutex_lock(&r->lock);
	for (unsigned i = 1; i < STATS_POOLS_MAX && !s; i++)
		if (r->by_slot[i] && !strcmp(r->by_slot[i]->name, name))
			s = r->by_slot[i];
	if (s)
		s->refs++;
	pthread_mutex_unlock(&r->lock);
	return s;
}

static int state_register(struct fleet_registry *r, struct fleet_pool_state *s)
{
	unsigned slot = 1;

	pthread_mutex_lock(&r->lock);
	while (slot < STATS_POOLS_MAX && r->by_slot[slot])
		slot++;
	if (slot < STATS_POOLS_MAX) {
		s->slot = slot;
		s->registry = r;
		s->refs = 1;
		r->by_slot[slot] = s;
	}
	pthread_mutex_unlock(&r->lock);
	return slot < STATS_POOLS_MAX ? 0 : -ENOSPC;
}

/* Slots of all backends together: how fast they may come free is guessed from their number. */
static void set_slots(struct fleet_pool_state *s, const struct config_pool *p)
{
	uint32_t slots = 0;

	for (unsigned i = 0; i < p->n_backends; i++)
		slots += p->backends[i].concurrency_threshold;
	queue_set_slots(&s->queue, slots);
}

static int state_new(struct gateway *gw, const struct config_pool *p, const struct route_pool_config *rc,
		     struct fleet_pool_state **out)
{
	struct fleet_pool_state *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	snprintf(s->name, sizeof(s->name), "%s", p->name);
	pthread_mutex_init(&s->queue_lock, NULL);
	err = queue_init(&s->queue, (uint32_t)p->queue_max_requests);
	if (err)
		goto no_queue;
	set_slots(s, p);
	err = route_pool_create(&s->route, rc, &gw->ledger);
	if (err)
		goto no_route;
	s->queueless = !p->queue_max_requests;
	err = state_register(&gw->registry, s);
	if (err)
		goto no_slot;
	*out = s;
	return 0;
no_slot:
	route_pool_free(s->route);
no_route:
	queue_destroy(&s->queue);
no_queue:
	pthread_mutex_destroy(&s->queue_lock);
	free(s);
	return err;
}

/* Brings the pool's lasting state to `p`, made where there is none; *out has a reference. */
static int state_take(struct gateway *gw, const struct config_pool *p, const struct fleet_backend *addresses,
		      struct fleet_pool_state **out)
{
	struct route_backend_config backends[CONFIG_MAX_BACKENDS];
	struct fleet_pool_state *s = state_find(&gw->registry, p->name);
	struct route_pool_config rc;
	int err;

	pool_config(p, addresses, &rc, backends);
	if (!s)
		return state_new(gw, p, &rc, out);
	err = route_pool_update(s->route, &rc);
	if (!err) {
		pthread_mutex_lock(&s->queue_lock);
		err = queue_set_limit(&s->queue, (uint32_t)p->queue_max_requests);
		if (!err) {
			__atomic_store_n(&s->queueless, !p->queue_max_requests, __ATOMIC_RELAXED);
			set_slots(s, p);
		}
		pthread_mutex_unlock(&s->queue_lock);
	}
	if (err) {
		fleet_state_put(s);
		return err;
	}
	*out = s;
	return 0;
}

/* Puts pools that a failed build has touched back to what `old` says. */
static void states_restore(struct gateway *gw, struct fleet *old)
{
	for (unsigned i = 0; old && i < old->npools; i++) {
		struct fleet_pool_state *s;

		if (!state_take(gw, old->pools[i].cfg, old->pools[i].backends, &s))
			fleet_state_put(s); /* `old` holds its own reference */
		else
			log_error("pool_restore_failed", "pool=%s", old->pools[i].cfg->name);
	}
}

static void fleet_free(struct fleet *f)
{
	for (unsigned i = 0; i < f->npools; i++) {
		free(f->pools[i].backends);
		if (f->pools[i].state)
			fleet_state_put(f->pools[i].state);
	}
	free(f->pools);
	config_unref(f->cfg);
	free(f);
}

/* The address of the configuration's own look-up; of a later one; of the fleet before, where the
 * name can't be resolved just now. */
static void backend_address(struct gateway *gw, const struct fleet *old, struct fleet_backend *b)
{
	b->addr_len = b->cfg->sa_len;
	memcpy(&b->addr, &b->cfg->sa, b->addr_len);
	if (b->addr_len || resolve_found(gw, b->cfg, &b->addr, &b->addr_len))
		return;
	for (unsigned i = 0; old && i < old->npools; i++)
		for (unsigned k = 0; k < old->pools[i].nbackends; k++) {
			const struct fleet_backend *o = &old->pools[i].backends[k];

			if (!o->addr_len || o->cfg->port != b->cfg->port || strcmp(o->cfg->host, b->cfg->host))
				continue;
			b->addr = o->addr;
			b->addr_len = o->addr_len;
			return;
		}
}

static int pool_build(struct gateway *gw, const struct config_pool *p, const struct fleet *old, struct fleet_pool *out)
{
	int err;

	out->cfg = p;
	out->backends = calloc(p->n_backends, sizeof(*out->backends));
	if (!out->backends)
		return -ENOMEM;
	for (unsigned i = 0; i < p->n_backends; i++) {
		out->backends[i].cfg = &p->backends[i];
		backend_address(gw, old, &out->backends[i]);
	}
	err = state_take(gw, p, out->backends, &out->state);
	if (err)
		return err;
	out->nbackends = p->n_backends;
	for (unsigned i = 0; i < p->n_backends; i++) {
		struct fleet_backend *b = &out->backends[i];

		b->node = route_node_by_name(out->state->route, b->cfg->name);
		b->row = route_node_row(out->state->route, b->node);
	}
	return 0;
}

int fleet_build(struct gateway *gw, struct config *cfg, struct fleet *old, struct fleet **out, char *err, size_t err_len)
{
	struct fleet *f = calloc(1, sizeof(*f));
	int rc = -ENOMEM;

	*out = NULL;
	if (!f) {
		snprintf(err, err_len, "out of memory");
		return rc;
	}
	f->refs = 1;
	f->version = old ? old->version + 1 : 1;
	f->cfg = config_ref(cfg);
	f->pools = calloc(cfg->n_pools, sizeof(*f->pools));
	for (unsigned i = 0; f->pools && i < cfg->n_pools; i++) {
		f->npools = i + 1;
		rc = pool_build(gw, &cfg->pools[i], old, &f->pools[i]);
		if (rc)
			break;
	}
	if (rc) {
		snprintf(err, err_len, "pool %s: %s", f->npools ? cfg->pools[f->npools - 1].name : "-",
			 rc == -ENOSPC ? "too many backends or pools for the tables (1024 backends in all)" : strerror(-rc));
		fleet_free(f);
		states_restore(gw, old);
		return rc;
	}
	*out = f;
	return 0;
}

void fleet_ref(struct fleet *f)
{
	__atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
}

void fleet_put(struct fleet *f)
{
	if (f && !__atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL))
		fleet_free(f);
}

static bool listed(const struct config_strings *s, const char *name)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!strcmp(s->v[i], name))
			return true;
	return false;
}

/* Fills the names if the pool serves `model` by name. */
static bool pool_serves(const struct config_pool *p, const char *model, struct fleet_model *m)
{
	for (unsigned i = 0; i < p->n_aliases; i++)
		if (!strcmp(p->aliases[i].alias, model)) {
			m->alias = true;
			model = p->aliases[i].model;
			break;
		}
	m->adapter = listed(&p->adapters, model);
	if (!m->adapter && !listed(&p->models, model))
		return false;
	m->served = model;
	m->base = m->adapter && p->models.n ? p->models.v[0] : model;
	return true;
}

static struct fleet_pool *pool_without_name(const struct fleet *f)
{
	for (unsigned i = 0; i < f->npools; i++)
		if (f->pools[i].cfg->is_default)
			return &f->pools[i];
	return NULL;
}

struct fleet_pool *fleet_pool_for_model(const struct fleet *f, const char *model, struct fleet_model *m)
{
	struct fleet_pool *p;

	memset(m, 0, sizeof(*m));
	if (!model || !*model) {
		p = pool_without_name(f);
		if (p)
			m->served = m->base = p->cfg->models.n ? p->cfg->models.v[0] : "";
		return p;
	}
	for (unsigned i = 0; i < f->npools; i++)
		if (pool_serves(f->pools[i].cfg, model, m))
			return &f->pools[i];
	for (unsigned i = 0; i < f->npools; i++)
		if (f->pools[i].cfg->any_model) {
			m->served = m->base = model;
			return &f->pools[i];
		}
	return NULL;
}

void fleet_rename(const struct fleet *f, const struct fleet_pool *p, const char *model, struct fleet_model *m)
{
	memset(m, 0, sizeof(*m));
	if (model && *model && pool_serves(p->cfg, model, m))
		return;
	m->served = m->base = model && *model ? model : p->cfg->models.n ? p->cfg->models.v[0] : "";
}

const struct fleet_backend *fleet_pool_backend(const struct fleet_pool *p, uint32_t row)
{
	for (unsigned i = 0; i < p->nbackends; i++)
		if (p->backends[i].row == row)
			return &p->backends[i];
	return NULL;
}
