/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The schema of the configuration file: one table from which the loader, the error
 * messages, the reference page and the tests work. A key is a row of schema.c and
 * nothing else. Private to config/, its tests and the reference page. */
#ifndef KVSTEER_CONFIG_SCHEMA_H
#define KVSTEER_CONFIG_SCHEMA_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/arena.h"

enum schema_type {
	SCHEMA_MAP,	 /* sub: its keys */
	SCHEMA_LIST,	 /* item: what it holds; offset: pointer, count_offset: unsigned */
	SCHEMA_ALIASES,	 /* string: string, into config_alias[] */
	SCHEMA_BOOL,	 /* bool */
	SCHEMA_UINT,	 /* uint16_t, uint32_t or uint64_t, by size */
	SCHEMA_NUMBER,	 /* double */
	SCHEMA_SIZE,	 /* uint64_t bytes */
	SCHEMA_DURATION, /* uint64_t ns */
	SCHEMA_PERCENT,	 /* double, 0..1 */
	SCHEMA_ENUM,	 /* an enum or int; values: what is allowed */
	SCHEMA_LABEL,	 /* const char *: name of an object of ours: bounded charset, it becomes a metric's label */
	SCHEMA_MODEL,	 /* const char *: a model's name: anything printable */
	SCHEMA_PATTERN,	 /* const char *: a line of text, `*` in it stands for any */
	SCHEMA_HEADER,	 /* const char *: field name, kept in lower case */
	SCHEMA_URLPATH,	 /* const char *: absolute path of a URL, no query */
	SCHEMA_FILE,	 /* const char *: absolute file name */
	SCHEMA_ACCESS,	 /* struct config_log: stdout, off or a file name */
	SCHEMA_ADDRESS,	 /* struct config_address: ADDRESS:PORT, no names */
	SCHEMA_CIDR,	 /* struct config_cidr */
	SCHEMA_URL,	 /* struct config_backend: url, host, host_header, path_prefix, port, sa */
};

enum schema_flags {
	SCHEMA_REQUIRED = 1 << 0,
	SCHEMA_ZERO = 1 << 1,  /* 0 is allowed beside the range; the doc says what it means */
	SCHEMA_AUTO = 1 << 2,  /* "auto" is allowed and stored as 0 */
	SCHEMA_OFF = 1 << 3,   /* "off" is allowed and stored as empty */
	SCHEMA_ABOVE = 1 << 5, /* above min, which is 0 */
	SCHEMA_LATER = 1 << 4, /* known, not in this version: refused unless it has the value that switches it off */
};

struct schema_value {
	const char *name;
	int value;
	unsigned flags; /* SCHEMA_LATER */
	const char *doc; /* NULL: its name says it */
};

struct schema_key {
	const char *name;
	enum schema_type type;
	unsigned flags;
	size_t offset, size;	   /* of the field in its struct */
	size_t count_offset;	   /* SCHEMA_LIST, SCHEMA_ALIASES */
	const char *def;	   /* the default, as it would stand in the file; NULL: none */
	const char *neutral;	   /* SCHEMA_LATER: the value that is accepted; for maps and lists "" means empty */
	uint64_t min, max;	   /* numbers: value; strings: length; lists: entries */
	const struct schema_value *values; /* SCHEMA_ENUM, ended by a NULL name */
	const struct schema_key *sub;	   /* SCHEMA_MAP, ended by a NULL name */
	const struct schema_key *item;	   /* SCHEMA_LIST */
	const char *shorthand;	   /* SCHEMA_MAP: a plain value is taken for this key */
	const char *doc;
};

/* The root map. */
extern const struct schema_key schema_root;

/* Parses the scalar `text` by row `k` into the struct at `base` (field at
 * base + k->offset). Strings go to `a`. 0, -ENOMEM, or -EINVAL with the reason in
 * why: "is not ...", "is out of range; allowed: ...". */
int schema_parse_scalar(const struct schema_key *k, const char *text, void *base, struct arena *a, char *why,
			size_t why_len);

/* What a row allows, in words: "1..1024", "auto, relay". Returns buf. */
const char *schema_allowed(const struct schema_key *k, char *buf, size_t len);
/* The type in words: "duration". */
const char *schema_type_name(const struct schema_key *k);
/* The name of an enum's value, or "?". */
const char *schema_value_name(const struct schema_value *values, int value);

extern const struct schema_value schema_policies[], schema_engines[], schema_datapaths[];

/* The reference page (Markdown) on `out`. */
void schema_write_reference(FILE *out);
#endif
