/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* docs/configuration.md from the schema: what the page says is what the loader does. */
#include <stdbool.h>
#include <string.h>

#include "config/schema.h"
#include "kvsteer/version.h"

/* A cell of a table: | would end it. */
static void ref_cell(FILE *out, const char *s)
{
	for (; *s; s++)
		if (*s == '|')
			fputs("\\|", out);
		else
			fputc(*s, out);
}

static const struct schema_key *ref_children(const struct schema_key *k)
{
	return k->type == SCHEMA_MAP ? k->sub : k->type == SCHEMA_LIST ? k->item->sub : NULL;
}

static void ref_allowed(FILE *out, const struct schema_key *k)
{
	char allowed[288];
	bool later = false;

	ref_cell(out, schema_allowed(k, allowed, sizeof(allowed)));
	if (k->type == SCHEMA_LIST && k->item->type != SCHEMA_MAP) {
		fputs("; each: ", out);
		ref_cell(out, schema_allowed(k->item, allowed, sizeof(allowed)));
	} else if (k->type == SCHEMA_LIST && k->item->shorthand) {
		fprintf(out, "; each a map, or its `%s` alone", k->item->shorthand);
	}
	for (const struct schema_value *v = k->values; v && v->name; v++)
		if (v->flags & SCHEMA_LATER) {
			fprintf(out, "%s%s", later ? ", " : "; not in this version: ", v->name);
			later = true;
		}
}

static void ref_row(FILE *out, const struct schema_key *k)
{
	bool first = true;

	fprintf(out, "| `%s` | %s | ", k->name, schema_type_name(k));
	if (k->def)
		fprintf(out, k->type == SCHEMA_LIST ? "`[%s]`" : "`%s`", k->def);
	else
		fputs(k->flags & SCHEMA_REQUIRED			    ? "required"
		      : k->type == SCHEMA_LIST || k->type == SCHEMA_ALIASES ? "empty"
									    : "",
		      out);
	fputs(" | ", out);
	ref_allowed(out, k);
	fputs(" | ", out);
	ref_cell(out, k->doc);
	for (const struct schema_value *v = k->values; v && v->name; v++)
		if (v->doc && !(v->flags & SCHEMA_LATER)) {
			fprintf(out, "%s`%s`: ", first ? " " : "; ", v->name);
			ref_cell(out, v->doc);
			first = false;
		}
	fputs(first ? " |\n" : ". |\n", out);
}

static void ref_section(FILE *out, const char *path, const struct schema_key *keys, const char *doc)
{
	char child[128];

	if (*path)
		fprintf(out, "\n## %s\n\n%s\n", path, doc);
	fputs("\n| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n", out);
	for (const struct schema_key *k = keys; k->name; k++)
		if (!(k->flags & SCHEMA_LATER))
			ref_row(out, k);
	for (const struct schema_key *k = keys; k->name; k++) {
		const struct schema_key *sub = ref_children(k);

		if (!sub || (k->flags & SCHEMA_LATER))
			continue;
		snprintf(child, sizeof(child), "%s%s%s%s", path, *path ? "." : "", k->name,
			 k->type == SCHEMA_LIST ? "[]" : "");
		ref_section(out, child, sub, k->doc);
	}
}

static void ref_later(FILE *out, const char *path, const struct schema_key *keys)
{
	char child[128];

	for (const struct schema_key *k = keys; k && k->name; k++) {
		snprintf(child, sizeof(child), "%s%s%s", path, *path ? "." : "", k->name);
		if (k->flags & SCHEMA_LATER) {
			fprintf(out, "| `%s` | %s%s%s | ", child, k->neutral && *k->neutral ? "`" : "",
				!k->neutral   ? "nothing"
				: *k->neutral ? k->neutral
					      : "an empty one",
				k->neutral && *k->neutral ? "`" : "");
			ref_cell(out, k->doc);
			fputs(" |\n", out);
			continue;
		}
		if (k->type == SCHEMA_LIST)
			strncat(child, "[]", sizeof(child) - strlen(child) - 1);
		ref_later(out, child, ref_children(k));
	}
}

void schema_write_reference(FILE *out)
{
	fprintf(out,
		"<!-- Made by `kvsteerd --config-reference`; do not edit. -->\n"
		"# Configuration of kvsteer %s\n\n"
		"One YAML file, given with `kvsteerd -c FILE`. One pool with its backends is enough:\n\n"
		"```yaml\npools:\n  - backends: [http://10.0.0.1:8000, http://10.0.0.2:8000]\n```\n\n"
		"`kvsteerd --check -c FILE` says whether a file is good (exit 0) or where its first fault is (exit 2). It\n"
		"needs no privilege and no network: host names are resolved when the daemon starts and when it reloads,\n"
		"not by the check.\n\n"
		"SIGHUP or `kvsteerctl reload` reads the file again; if it has a fault, the daemon says so and goes on\n"
		"with the old one. Changes of `admin`, `workers` and `limits.connections` need a restart.\n\n"
		"Unknown and duplicate keys are errors. Sizes: bytes, or with `KiB`, `MiB`, `GiB`. Durations: with `us`,\n"
		"`ms`, `s`, `m` or `h`. Booleans: `true`, `false`. A whole file that shows every key:\n"
		"[kvsteer.example.yaml](kvsteer.example.yaml).\n",
		KVSTEER_VERSION);
	ref_section(out, "", schema_root.sub, "");
	fputs("\n## Not in this version\n\nThese keys are known and refused by name, but for the value that switches "
	      "the feature off.\n\n"
	      "| key | accepted | what it will be |\n| --- | --- | --- |\n",
	      out);
	ref_later(out, "", schema_root.sub);
}
