/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* YAML to snapshot: libyaml's document tree is walked along the schema, so depth
 * and size are the schema's, whatever the file (anchors can't recurse). */
#include "config/load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kvsteer/version.h"

static const char *node_text(const yaml_node_t *node)
{
	switch (node->type) {
	case YAML_SCALAR_NODE: return (const char *)node->data.scalar.value;
	case YAML_SEQUENCE_NODE: return "a list";
	case YAML_MAPPING_NODE: return "a map";
	default: return "nothing";
	}
}

static struct load_mark node_mark(const struct loader *l, const yaml_node_t *node)
{
	return (struct load_mark){ .path = l->path,
				   .given = node_text(node),
				   .line = (unsigned)node->start_mark.line + 1,
				   .column = (unsigned)node->start_mark.column + 1 };
}

static int mark_add(struct loader *l, const yaml_node_t *node, const void *field)
{
	struct load_mark *m;

	if (!node)
		return 0;
	if (l->n_marks == l->cap_marks) {
		size_t cap = l->cap_marks ? 2 * l->cap_marks : 256;

		m = realloc(l->marks, cap * sizeof(*m));
		if (!m)
			return -ENOMEM;
		l->marks = m;
		l->cap_marks = cap;
	}
	m = &l->marks[l->n_marks++];
	*m = node_mark(l, node);
	m->field = field;
	m->path = arena_strndup(&l->tmp, l->path, l->path_len);
	return m->path ? 0 : -ENOMEM;
}

/* Appends to the path; returns what to give to path_pop(). */
static size_t path_push(struct loader *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static size_t path_push(struct loader *l, const char *fmt, ...)
{
	size_t old = l->path_len, room = sizeof(l->path) - old;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->path + old, room, fmt, ap);
	va_end(ap);
	l->path_len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
	return old;
}

static void path_pop(struct loader *l, size_t old)
{
	l->path_len = old;
	l->path[old] = 0;
}

/* --- unknown keys --- */

static int fail_unknown(struct loader *l, const struct schema_key *map, const yaml_node_t *key)
{
	const char *name = node_text(key), *near = NULL;
	unsigned best = (unsigned)strlen(name) / 3 + 1; /* a third of it mistyped, no more: else it is another word */
	struct load_mark m = node_mark(l, key);
	char known[640] = "";
	size_t n = 0;

	for (const struct schema_key *k = map->sub; k && k->name; k++) {
		unsigned d = load_word_distance(name, k->name);

		if (d < best) {
			best = d;
			near = k->name;
		}
		if (n < sizeof(known) && !(k->flags & SCHEMA_LATER))
			n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", k->name);
	}
	if (near)
		return load_fail(l, &m, "unknown key; did you mean \"%s\"?", near);
	return load_fail(l, &m, "unknown key; allowed: %s", known);
}

/* A list, a map or a single value where something else belongs. */
static int fail_kind(struct loader *l, const struct schema_key *k, const yaml_node_t *node, const char *what)
{
	struct load_mark m = node_mark(l, node);
	char allowed[288];

	return load_fail(l, &m, "not a %s; allowed: %s", what, schema_allowed(k, allowed, sizeof(allowed)));
}

/* --- the walk --- */

static int load_value(struct loader *l, const struct schema_key *k, yaml_node_t *node, void *base);

static yaml_node_t *node_get(struct loader *l, int index)
{
	return yaml_document_get_node(&l->doc, index);
}

static int load_scalar(struct loader *l, const struct schema_key *k, yaml_node_t *node, const char *text, void *base)
{
	char why[320];
	int r;

	if (node) {
		struct load_mark m = node_mark(l, node);

		if (node->type != YAML_SCALAR_NODE)
			return fail_kind(l, k, node, schema_type_name(k));
		text = node_text(node);
		if (strlen(text) != node->data.scalar.length)
			return load_fail(l, &m, "has a NUL byte");
	}
	r = schema_parse_scalar(k, text, base, l->arena, why, sizeof(why));
	if (r == -EINVAL) {
		struct load_mark m = { .path = l->path };

		if (node)
			m = node_mark(l, node);
		return load_fail(l, &m, "%s", why);
	}
	return r;
}

static int load_list(struct loader *l, const struct schema_key *k, yaml_node_t *node, void *base)
{
	size_t n = 0, item = k->item->size;
	char *items;
	int r;

	if (node) {
		struct load_mark m = node_mark(l, node);

		if (node->type != YAML_SEQUENCE_NODE)
			return fail_kind(l, k, node, "list");
		n = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
		m.given = NULL;
		if (n < k->min || n > k->max)
			return load_fail(l, &m, "%zu entries; allowed: %llu..%llu", n, (unsigned long long)k->min,
					 (unsigned long long)k->max);
	} else if (k->def) {
		n = 1;
	}
	items = arena_alloc(l->arena, n ? n * item : 1);
	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		yaml_node_t *child = node ? node_get(l, node->data.sequence.items.start[i]) : NULL;
		size_t old = path_push(l, "[%zu]", i);

		if (!node && k->item->shorthand) {
			/* the default of a list is one entry in its short form */
			const struct schema_key *s = k->item->sub;

			while (strcmp(s->name, k->item->shorthand))
				s++;
			r = load_scalar(l, s, NULL, k->def, items + i * item);
		} else if (!node) {
			r = load_scalar(l, k->item, NULL, k->def, items + i * item);
		} else {
			r = load_value(l, k->item, child, items + i * item);
		}
		path_pop(l, old);
		if (r)
			return r;
	}
	*(void **)((char *)base + k->offset) = items;
	*(unsigned *)((char *)base + k->count_offset) = (unsigned)n;
	return 0;
}

static int fail_key_scalar(struct loader *l, const yaml_node_t *key)
{
	struct load_mark m = node_mark(l, key);

	return load_fail(l, &m, "a key must be a plain word");
}

/* No two keys of a map are equal; YAML 1.1 section 3.2.1.3, which libyaml leaves to us. */
static int load_unique_keys(struct loader *l, yaml_node_t *map)
{
	yaml_node_pair_t *start = map->data.mapping.pairs.start, *top = map->data.mapping.pairs.top;

	if (top - start > CONFIG_MAX_NAMES) {
		struct load_mark m = node_mark(l, map);

		return load_fail(l, &m, "more than %d entries", CONFIG_MAX_NAMES);
	}
	for (yaml_node_pair_t *p = start; p < top; p++) {
		yaml_node_t *key = node_get(l, p->key);

		if (key->type != YAML_SCALAR_NODE || strlen(node_text(key)) != key->data.scalar.length)
			return fail_key_scalar(l, key);
		for (yaml_node_pair_t *q = start; q < p; q++) {
			yaml_node_t *other = node_get(l, q->key);

			if (!strcmp(node_text(key), node_text(other))) {
				size_t old = path_push(l, "%s%s", l->path_len ? "." : "", node_text(key));
				struct load_mark m = node_mark(l, key);
				int r = load_fail(l, &m, "duplicate key; first at line %zu",
						  other->start_mark.line + 1);

				path_pop(l, old);
				return r;
			}
		}
	}
	return 0;
}

static int load_aliases(struct loader *l, const struct schema_key *k, yaml_node_t *node, void *base)
{
	static const struct schema_key name = { .type = SCHEMA_MODEL,
						.size = sizeof(char *),
						.min = 1,
						.max = 256,
						.offset = offsetof(struct config_alias, alias) };
	static const struct schema_key model = { .type = SCHEMA_MODEL,
						 .size = sizeof(char *),
						 .min = 1,
						 .max = 256,
						 .offset = offsetof(struct config_alias, model) };
	struct config_alias *v;
	size_t n, i = 0;
	int r;

	if (!node)
		return 0;
	if (node->type != YAML_MAPPING_NODE)
		return fail_kind(l, k, node, "map");
	r = load_unique_keys(l, node);
	if (r)
		return r;
	n = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
	v = arena_alloc(l->arena, n ? n * sizeof(*v) : 1);
	if (!v)
		return -ENOMEM;
	for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++, i++) {
		yaml_node_t *key = node_get(l, p->key), *val = node_get(l, p->value);
		size_t old = path_push(l, ".%s", node_text(key));

		r = load_scalar(l, &name, key, NULL, &v[i]);
		r = r ? r : load_scalar(l, &model, val, NULL, &v[i]);
		r = r ? r : mark_add(l, key, &v[i].alias);
		r = r ? r : mark_add(l, val, &v[i].model);
		path_pop(l, old);
		if (r)
			return r;
	}
	*(void **)((char *)base + k->offset) = v;
	*(unsigned *)((char *)base + k->count_offset) = (unsigned)n;
	return 0;
}

/* A key of a later version passes only with the value that switches its feature off. */
static int load_later(struct loader *l, const struct schema_key *k, yaml_node_t *node)
{
	struct load_mark m = node_mark(l, node);

	if (k->neutral) {
		if (k->type == SCHEMA_LIST && node->type == YAML_SEQUENCE_NODE &&
		    node->data.sequence.items.top == node->data.sequence.items.start)
			return 0;
		if (k->type == SCHEMA_MAP && node->type == YAML_MAPPING_NODE &&
		    node->data.mapping.pairs.top == node->data.mapping.pairs.start)
			return 0;
		if (node->type == YAML_SCALAR_NODE && *k->neutral && !strcmp(node_text(node), k->neutral))
			return 0;
		return load_fail(l, &m, "not in this version (%s); allowed: %s", KVSTEER_VERSION,
				 *k->neutral ? k->neutral : "empty, or no such key");
	}
	return load_fail(l, &m, "not in this version (%s)", KVSTEER_VERSION);
}

static int load_map(struct loader *l, const struct schema_key *map, yaml_node_t *node, void *base)
{
	int r;

	if (node && node->type == YAML_SCALAR_NODE && map->shorthand && *node_text(node)) {
		for (const struct schema_key *k = map->sub; k->name; k++) {
			r = load_value(l, k, strcmp(k->name, map->shorthand) ? NULL : node, base);
			if (r)
				return r;
		}
		return 0;
	}
	if (node) {
		if (node->type != YAML_MAPPING_NODE)
			return fail_kind(l, map, node, "map");
		r = load_unique_keys(l, node);
		if (r)
			return r;
		for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
			yaml_node_t *key = node_get(l, p->key);
			const struct schema_key *k = map->sub;
			size_t old = path_push(l, "%s%s", l->path_len ? "." : "", node_text(key));

			while (k->name && strcmp(k->name, node_text(key)))
				k++;
			if (!k->name)
				return fail_unknown(l, map, key);
			r = load_value(l, k, node_get(l, p->value), base);
			path_pop(l, old);
			if (r)
				return r;
		}
	}
	/* what the file doesn't say */
	for (const struct schema_key *k = map->sub; k->name; k++) {
		bool given = false;
		size_t old;

		for (yaml_node_pair_t *p = node ? node->data.mapping.pairs.start : NULL;
		     node && !given && p < node->data.mapping.pairs.top; p++)
			given = !strcmp(node_text(node_get(l, p->key)), k->name);
		if (given)
			continue;
		if (k->flags & SCHEMA_REQUIRED) {
			struct load_mark m = { .path = l->path, .line = 1, .column = 1 };

			if (node)
				m = node_mark(l, node);
			m.given = NULL;
			return load_fail(l, &m, "\"%s\" is missing", k->name);
		}
		old = path_push(l, "%s%s", l->path_len ? "." : "", k->name);
		r = load_value(l, k, NULL, base);
		path_pop(l, old);
		if (r)
			return r;
	}
	return 0;
}

/* node NULL: the key is absent, its default counts. */
static int load_value(struct loader *l, const struct schema_key *k, yaml_node_t *node, void *base)
{
	int r;

	if (k->flags & SCHEMA_LATER)
		return node ? load_later(l, k, node) : 0;
	if (node && node->type == YAML_SCALAR_NODE && !node->data.scalar.length &&
	    node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
		struct load_mark m = node_mark(l, node);
		char allowed[288];

		return load_fail(l, &m, "no value; allowed: %s", schema_allowed(k, allowed, sizeof(allowed)));
	}
	switch (k->type) {
	case SCHEMA_MAP: r = load_map(l, k, node, (char *)base + k->offset); break;
	case SCHEMA_LIST: r = load_list(l, k, node, base); break;
	case SCHEMA_ALIASES: r = load_aliases(l, k, node, base); break;
	default:
		if (!node && !k->def)
			return 0;
		r = load_scalar(l, k, node, k->def, base);
	}
	/* A map in the place of its struct's first field would share its address: only leaves are marked. */
	if (!r && k->type != SCHEMA_MAP)
		r = mark_add(l, node, (char *)base + k->offset);
	return r;
}

/* --- documents --- */

/* libyaml's scanner looks at every open flow level for each token: a file of brackets alone would
 * keep it busy for the square of its length. Faults of other kinds are the loader's to tell. */
static int load_depth(struct loader *l, const char *text, size_t len)
{
	yaml_parser_t parser;
	unsigned depth = 0;
	bool more = true;
	int r = 0;

	if (!yaml_parser_initialize(&parser))
		return -ENOMEM;
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	while (!r && more) {
		yaml_event_t ev;

		if (!yaml_parser_parse(&parser, &ev))
			break;
		more = ev.type != YAML_STREAM_END_EVENT;
		if (ev.type == YAML_SEQUENCE_START_EVENT || ev.type == YAML_MAPPING_START_EVENT)
			depth++;
		else if (ev.type == YAML_SEQUENCE_END_EVENT || ev.type == YAML_MAPPING_END_EVENT)
			depth--;
		if (depth > CONFIG_MAX_DEPTH) {
			struct load_mark m = { .line = (unsigned)ev.start_mark.line + 1,
					       .column = (unsigned)ev.start_mark.column + 1 };

			r = load_fail(l, &m, "maps and lists inside each other deeper than %d levels", CONFIG_MAX_DEPTH);
		}
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&parser);
	return r;
}

static int load_document(struct loader *l, yaml_parser_t *parser)
{
	yaml_document_t extra;
	bool more;

	if (!yaml_parser_load(parser, &l->doc)) {
		struct load_mark m = { .line = (unsigned)parser->problem_mark.line + 1,
				       .column = (unsigned)parser->problem_mark.column + 1 };

		if (parser->error == YAML_MEMORY_ERROR)
			return -ENOMEM;
		load_fail(l, &m, "not YAML: %s%s%s", parser->problem ? parser->problem : "unreadable",
			  parser->context ? ", " : "", parser->context ? parser->context : "");
		/* nothing was loaded, but yaml_document_delete() must find an empty document */
		memset(&l->doc, 0, sizeof(l->doc));
		return -EINVAL;
	}
	if (!yaml_document_get_root_node(&l->doc)) {
		struct load_mark m = { .line = 1, .column = 1 };

		return load_fail(l, &m, "the file is empty; it needs at least one pool with its backends");
	}
	if (!yaml_parser_load(parser, &extra)) {
		struct load_mark m = { .line = (unsigned)parser->problem_mark.line + 1,
				       .column = (unsigned)parser->problem_mark.column + 1 };

		return load_fail(l, &m, "not YAML: %s", parser->problem ? parser->problem : "unreadable");
	}
	more = yaml_document_get_root_node(&extra) != NULL;
	if (more) {
		struct load_mark m = { .line = (unsigned)extra.start_mark.line + 1, .column = 1 };

		load_fail(l, &m, "a second document; a file holds one");
	}
	yaml_document_delete(&extra);
	return more ? -EINVAL : 0;
}

int config_load_buffer(const char *text, size_t len, const char *name, struct config **out, struct config_error *err)
{
	struct loader l = { .err = err };
	struct config *cfg;
	yaml_parser_t parser;
	int r;

	*out = NULL;
	memset(err, 0, sizeof(*err));
	snprintf(err->file, sizeof(err->file), "%s", name ? name : "");
	if (len > CONFIG_MAX_FILE_BYTES)
		return load_fail(&l, NULL, "larger than %u bytes", CONFIG_MAX_FILE_BYTES);
	cfg = config_alloc(&l.arena);
	if (!cfg || !yaml_parser_initialize(&parser)) {
		config_unref(cfg);
		snprintf(err->message, sizeof(err->message), "out of memory");
		return -ENOMEM;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	r = load_depth(&l, text, len);
	if (!r)
		r = load_document(&l, &parser);
	if (!r)
		r = load_map(&l, &schema_root, yaml_document_get_root_node(&l.doc), cfg);
	if (!r) {
		cfg->file = arena_strndup(l.arena, err->file, strlen(err->file));
		load_marks_sort(&l);
		r = cfg->file ? check_config(&l, cfg) : -ENOMEM;
	}
	yaml_document_delete(&l.doc);
	yaml_parser_delete(&parser);
	arena_free(&l.tmp);
	free(l.marks);
	if (r == -ENOMEM)
		snprintf(err->message, sizeof(err->message), "out of memory");
	if (r) {
		config_unref(cfg);
		return r;
	}
	*out = cfg;
	return 0;
}
