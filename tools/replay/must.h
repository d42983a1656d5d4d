/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory for a tool that has nothing better to do than to end without it. */
#ifndef KVSTEER_REPLAY_MUST_H
#define KVSTEER_REPLAY_MUST_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *must(void *p)
{
	if (!p) {
		fputs("kvsteer-replay: out of memory\n", stderr);
		exit(1);
	}
	return p;
}

static inline void *must_calloc(size_t n, size_t size)
{
	return must(calloc(n ? n : 1, size));
}

static inline void *must_realloc(void *p, size_t bytes)
{
	return must(realloc(p, bytes ? bytes : 1));
}

/* A copy of `bytes` bytes, which may be 0. */
static inline void *must_copy(const void *p, size_t bytes)
{
	void *to = must(malloc(bytes ? bytes : 1));

	return bytes ? memcpy(to, p, bytes) : to;
}

/* More room for an array of *room elements. */
static inline void *must_grow(void *p, uint32_t *room, size_t size)
{
	*room = *room ? *room + *room / 2 + 8 : 16;
	return must_realloc(p, *room * size);
}
#endif
