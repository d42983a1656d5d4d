/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that is handed out piece by piece and freed as a whole. One thread. */
#ifndef KVSTEER_CONFIG_ARENA_H
#define KVSTEER_CONFIG_ARENA_H
#include <stddef.h>

struct arena_chunk;
struct arena {
	struct arena_chunk *chunks;
};

/* n zeroed bytes, aligned for any type, or NULL. Owned by the arena. */
void *arena_alloc(struct arena *a, size_t n);
/* A NUL-terminated copy of len bytes, or NULL. */
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Frees everything; `a` is empty and usable again. `a` may lie in its own memory. */
void arena_free(struct arena *a);
#endif
