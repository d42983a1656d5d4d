/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rules over several keys. The snapshot is still being made: it may be written
 * through its const pointers, which point into its own arena. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "config/load.h"
#include "kvsteer/backends_abi.h"

_Static_assert(CONFIG_MAX_BACKENDS_TOTAL == BACKENDS_MAX_ROWS, "each backend has a row");

/* A name and the field that holds it, for finding two that are equal. */
struct check_name {
	const char *text;
	const void *field;
	unsigned order; /* in the file: the later of two is the fault */
};

static int check_name_compare(const void *a, const void *b)
{
	const struct check_name *x = a, *y = b;
	int d = strcmp(x->text, y->text);

	return d ? d : x->order < y->order ? -1 : x->order > y->order;
}

/* Sorts; -EINVAL for the first name that is there twice. */
static int check_names_unique(struct loader *l, struct check_name *v, size_t n, const char *what)
{
	if (n)
		qsort(v, n, sizeof(*v), check_name_compare);
	for (size_t i = 1; i < n; i++) {
		const struct load_mark *m, *first;

		if (strcmp(v[i].text, v[i - 1].text))
			continue;
		m = load_mark_find(l, v[i].field);
		first = load_mark_find(l, v[i - 1].field);
		return load_fail(l, m ? m : first, "%s \"%s\" is already taken by %s at line %u", what, v[i].text,
				 first ? first->path : "another", first ? first->line : 0);
	}
	return 0;
}

static void name_add(struct check_name *v, size_t *n, const char *text, const void *field)
{
	v[*n] = (struct check_name){ .text = text, .field = field, .order = (unsigned)*n };
	++*n;
}

/* Model names, adapters and aliases lead to one pool each. */
static int check_models(struct loader *l, const struct config *cfg)
{
	size_t max = 0, n = 0;
	struct check_name *v;
	int r;

	for (unsigned i = 0; i < cfg->n_pools; i++)
		max += cfg->pools[i].models.n + cfg->pools[i].adapters.n + cfg->pools[i].n_aliases;
	v = calloc(max ? max : 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (unsigned i = 0; i < cfg->n_pools; i++) {
		const struct config_pool *p = &cfg->pools[i];

		for (unsigned j = 0; j < p->models.n; j++)
			name_add(v, &n, p->models.v[j], &p->models.v[j]);
		for (unsigned j = 0; j < p->adapters.n; j++)
			name_add(v, &n, p->adapters.v[j], &p->adapters.v[j]);
		for (unsigned j = 0; j < p->n_aliases; j++)
			name_add(v, &n, p->aliases[j].alias, &p->aliases[j].alias);
	}
	r = check_names_unique(l, v, n, "model name");
	free(v);
	return r;
}

static bool strings_have(const struct config_strings *s, const char *name)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!strcmp(s->v[i], name))
			return true;
	return false;
}

/* The names of `s` behind what buf holds, as far as there is room. */
static void strings_list(char *buf, size_t len, const struct config_strings *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		size_t n = strlen(buf), want = strlen(s->v[i]) + 2;

		if (n + want + 5 > len) {
			snprintf(buf + n, len - n, ", ...");
			return;
		}
		snprintf(buf + n, len - n, "%s%s", n ? ", " : "", s->v[i]);
	}
}

static int check_aliases(struct loader *l, const struct config_pool *p)
{
	char names[400] = "";

	for (unsigned i = 0; i < p->n_aliases; i++) {
		if (strings_have(&p->models, p->aliases[i].model) || strings_have(&p->adapters, p->aliases[i].model))
			continue;
		strings_list(names, sizeof(names), &p->models);
		strings_list(names, sizeof(names), &p->adapters);
		return load_fail(l, load_mark_find(l, &p->aliases[i].model),
				 "not one of this pool's models or adapters%s%s", *names ? "; allowed: " : "; it has none",
				 names);
	}
	if (p->adapters.n && !p->models.n)
		return load_fail(l, load_mark_find(l, &p->adapters.v),
				 "adapters need a base model: the first of \"models\"");
	return 0;
}

static int check_pool(struct loader *l, struct config *cfg, struct config_pool *p, const struct config_pool **any,
		      const struct config_pool **def)
{
	const struct load_mark *m;
	int r;

	if (!p->name) {
		if (cfg->n_pools > 1) {
			m = load_mark_find(l, &p->backends);
			return load_fail(l, m, "its pool needs a \"name\", there are %u pools", cfg->n_pools);
		}
		p->name = "default";
	}
	p->any_model = !p->models.n && !p->adapters.n && !p->n_aliases;
	if (p->any_model) {
		if (*any)
			return load_fail(l, load_mark_find(l, &p->backends),
					 "its pool needs \"models\": pool \"%s\" takes every model already",
					 (*any)->name);
		*any = p;
	}
	r = check_aliases(l, p);
	if (r)
		return r;
	m = load_mark_find(l, &p->prefix_length);
	if (m && p->policy != CONFIG_POLICY_PREFIX_AWARE)
		return load_fail(l, m, "only with policy: prefix_aware; this pool's policy is %s",
				 config_policy_name(p->policy));
	if (p->policy == CONFIG_POLICY_WEIGHTED &&
	    p->weights.queue + p->weights.kv_cache + p->weights.prefix + p->weights.running_requests +
			    p->weights.lora_affinity + p->weights.predicted_latency ==
		    0)
		return load_fail(l, load_mark_find(l, &p->policy), "needs a weight above 0");
	if (p->scrape.stale_ns <= p->scrape.interval_ns) {
		m = load_mark_find(l, &p->scrape.stale_ns);
		if (!m)
			m = load_mark_find(l, &p->scrape.interval_ns);
		return load_fail(l, m, "scrape.stale must be more than scrape.interval");
	}
	if (!load_mark_find(l, &p->is_default))
		p->is_default = (p->any_model || cfg->n_pools == 1) && !*def;
	m = load_mark_find(l, &p->aliases);
	p->aliases_line = m ? m->line : 0;
	p->aliases_column = m ? m->column : 0;
	if (p->is_default) {
		m = load_mark_find(l, &p->is_default);
		if (*def && m)
			return load_fail(l, m, "pool \"%s\" is the default already", (*def)->name);
		*def = p;
	}
	return 0;
}

/* An explicit default wins over that of a pool that takes every model, wherever it stands. */
static const struct config_pool *explicit_default(const struct loader *l, const struct config *cfg)
{
	for (unsigned i = 0; i < cfg->n_pools; i++)
		if (cfg->pools[i].is_default && load_mark_find(l, &cfg->pools[i].is_default))
			return &cfg->pools[i];
	return NULL;
}

static int default_name_compare(const void *a, const void *b)
{
	const struct config_backend *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Backends without a name are called by their address. Where several pools have the
 * same address each name says its pool, so that metrics, which are labelled by the
 * backend's name alone, stay apart, and so that order in the file plays no part. */
static int check_backend_names(struct loader *l, struct config *cfg)
{
	struct config_backend **unnamed;
	struct check_name *names;
	size_t total = 0, n = 0, n_unnamed = 0;
	int r = 0;

	for (unsigned i = 0; i < cfg->n_pools; i++)
		total += cfg->pools[i].n_backends;
	if (total > CONFIG_MAX_BACKENDS_TOTAL)
		return load_fail(l, load_mark_find(l, &cfg->pools),
				 "%zu backends in all pools together; allowed: at most %d", total,
				 CONFIG_MAX_BACKENDS_TOTAL);
	/* A file without a backend was refused before this; the analyser does not know. */
	unnamed = calloc(total ? total : 1, sizeof(struct config_backend *));
	names = calloc(total ? total : 1, sizeof(*names));
	for (unsigned i = 0; unnamed && names && i < cfg->n_pools; i++)
		for (unsigned j = 0; j < cfg->pools[i].n_backends; j++) {
			struct config_backend *b = (struct config_backend *)&cfg->pools[i].backends[j];

			if (b->name)
				continue;
			b->name = arena_printf(l->arena, "%s%s", b->address, b->path_prefix);
			if (!b->name)
				r = -ENOMEM;
			else
				unnamed[n_unnamed++] = b;
		}
	if (!unnamed || !names)
		r = -ENOMEM;
	if (!r && n_unnamed)
		qsort(unnamed, n_unnamed, sizeof(struct config_backend *), default_name_compare);
	for (unsigned i = 0; !r && i < cfg->n_pools; i++)
		for (unsigned j = 0; !r && j < cfg->pools[i].n_backends; j++) {
			const struct config_pool *p = &cfg->pools[i];
			struct config_backend *b = (struct config_backend *)&p->backends[j];
			const struct load_mark *m = load_mark_find(l, &b->name);
			const char *text = b->name;

			if (!m) {
				const struct config_backend *key = b, **hit,
							    **end = (const struct config_backend **)unnamed + n_unnamed;
				bool elsewhere = false;

				hit = bsearch(&key, unnamed, n_unnamed, sizeof(struct config_backend *),
					      default_name_compare);
				while (hit > (const struct config_backend **)unnamed && !strcmp(hit[-1]->name, b->name))
					hit--;
				for (; hit < end && !strcmp((*hit)->name, b->name) && !elsewhere; hit++)
					elsewhere = *hit < p->backends || *hit >= p->backends + p->n_backends;
				if (elsewhere)
					text = arena_printf(l->arena, "%s/%s", p->name, b->name);
				if (!text)
					r = -ENOMEM;
				else if (strlen(text) >= BACKEND_NAME_BYTES)
					r = load_fail(l, load_mark_find(l, b),
						      "too long to be its backend's name; give it a \"name\"");
			}
			/* the URL's mark stands for a name that the file doesn't have */
			name_add(names, &n, text, m ? (const void *)&b->name : (const void *)b);
		}
	for (size_t k = 0, i = 0; !r && i < cfg->n_pools; i++)
		for (unsigned j = 0; j < cfg->pools[i].n_backends; j++, k++)
			((struct config_backend *)&cfg->pools[i].backends[j])->name = names[k].text;
	if (!r)
		r = check_names_unique(l, names, n, "backend name");
	free(unnamed);
	free(names);
	return r;
}

static void place_address(struct loader *l, const struct config_address *a)
{
	const struct load_mark *m = load_mark_find(l, a);

	((struct config_address *)a)->line = m ? m->line : 0;
	((struct config_address *)a)->column = m ? m->column : 0;
}

static int check_listeners(struct loader *l, const struct config *cfg)
{
	place_address(l, &cfg->admin.address);
	for (unsigned i = 0; i < cfg->n_listeners; i++) {
		const struct config_address *a = &cfg->listeners[i].address;

		place_address(l, a);

		for (unsigned j = 0; j < i; j++) {
			const struct config_address *b = &cfg->listeners[j].address;

			if (a->sa_len == b->sa_len && !memcmp(&a->sa, &b->sa, a->sa_len))
				return load_fail(l, load_mark_find(l, a), "the same as listeners[%u].address", j);
		}
		if (a->sa_len == cfg->admin.address.sa_len && !memcmp(&a->sa, &cfg->admin.address.sa, a->sa_len))
			return load_fail(l, load_mark_find(l, load_mark_find(l, a) ? a : &cfg->admin.address),
					 "a listener and admin.address are the same");
	}
	return 0;
}

int check_config(struct loader *l, struct config *cfg)
{
	const struct config_pool *any = NULL, *def;
	const struct load_mark *m;
	struct check_name *names;
	size_t n = 0;
	int r;

	names = calloc(cfg->n_pools, sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (unsigned i = 0; i < cfg->n_pools; i++)
		if (cfg->pools[i].name)
			name_add(names, &n, cfg->pools[i].name, &cfg->pools[i].name);
	r = check_names_unique(l, names, n, "pool name");
	free(names);
	def = explicit_default(l, cfg);
	for (unsigned i = 0; !r && i < cfg->n_pools; i++) {
		struct config_pool *p = (struct config_pool *)&cfg->pools[i];
		const struct config_pool *other = def == p ? NULL : def;

		r = check_pool(l, cfg, p, &any, &other);
		if (other)
			def = other;
		for (unsigned j = 0; !r && j < p->n_backends; j++) {
			struct config_backend *b = (struct config_backend *)&p->backends[j];

			m = load_mark_find(l, b);
			if (!load_mark_find(l, &b->concurrency_threshold))
				b->concurrency_threshold = p->concurrency_threshold;
			b->line = m ? m->line : 0;
			b->column = m ? m->column : 0;
		}
	}
	r = r ? r : check_models(l, cfg);
	r = r ? r : check_backend_names(l, cfg);
	r = r ? r : check_listeners(l, cfg);
	m = load_mark_find(l, &cfg->log);
	cfg->log.line = m ? m->line : 0;
	cfg->log.column = m ? m->column : 0;
	m = load_mark_find(l, &cfg->limits.scan_bytes);
	if (!r && cfg->limits.body_bytes && cfg->limits.scan_bytes > cfg->limits.body_bytes) {
		if (m)
			return load_fail(l, m, "more than limits.body, which is %" PRIu64 " bytes", cfg->limits.body_bytes);
		/* the default: a body that is refused need not be kept */
		cfg->limits.scan_bytes = cfg->limits.body_bytes;
	}
	return r;
}
