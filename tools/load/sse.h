/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Server-sent events (WHATWG HTML 9.2), fed with body bytes in any split. Only
 * `data:` fields count: comments are pings, not tokens. */
#ifndef KVSTEER_LOAD_SSE_H
#define KVSTEER_LOAD_SSE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_SSE_LINE_MAX (1u << 20)

/* One data line's value (without `data:` and one space); valid during the call. Engines put
 * one JSON text on one line. */
typedef void (*load_sse_data_fn)(void *arg, const char *data, size_t len);
/* The empty line that completes an event which had data. */
typedef void (*load_sse_event_fn)(void *arg);

struct load_sse {
	char *line; /* owned: the unfinished line */
	size_t len;
	size_t cap;
	bool has_data;
};

/* A zeroed reader is ready; reset makes a used one ready and keeps its memory. */
void load_sse_reset(struct load_sse *s);
void load_sse_free(struct load_sse *s);
/* Returns 0, -EBADMSG (a line longer than LOAD_SSE_LINE_MAX) or -ENOMEM. */
int load_sse_feed(struct load_sse *s, const char *p, size_t len, load_sse_data_fn data, load_sse_event_fn event,
		  void *arg);
#endif
