/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Inside config/: what the loader knows while it works. */
#ifndef KVSTEER_CONFIG_LOAD_H
#define KVSTEER_CONFIG_LOAD_H
#include <yaml.h>

#include "config/arena.h"
#include "config/config.h"
#include "config/schema.h"

/* Where a field came from. Fields that the file doesn't set have none. */
struct load_mark {
	const void *field;
	const char *path;  /* "pools[0].name" */
	const char *given;
	unsigned line, column;
};

struct loader {
	yaml_document_t doc;
	struct arena *arena; /* of the snapshot */
	struct arena tmp;    /* marks, paths: freed after loading */
	struct config_error *err;
	struct load_mark *marks;
	size_t n_marks, cap_marks;
	char path[160];
	size_t path_len;
};

/* The mark of a field of the snapshot, or NULL if the file doesn't have it. Only
 * after load_marks_sort(). */
const struct load_mark *load_mark_find(const struct loader *l, const void *field);
void load_marks_sort(struct loader *l);

/* Fills l->err. `mark` NULL: no position. Returns -EINVAL. */
int load_fail(struct loader *l, const struct load_mark *mark, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Edits between two words, as typing errors go; 32 if one is longer than that. */
unsigned load_word_distance(const char *a, const char *b);

/* An empty snapshot with one reference and its arena. NULL: no memory. */
struct config *config_alloc(struct arena **arena);

/* What one key alone can't say: names that clash, aliases without a target, keys
 * that contradict each other; and defaults that depend on other keys. */
int check_config(struct loader *l, struct config *cfg);
#endif
