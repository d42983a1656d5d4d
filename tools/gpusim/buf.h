/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A growing byte buffer. A failed allocation is remembered in `failed` and
 * checked once, by whoever sends the buffer. */
#ifndef KVSTEER_TOOLS_GPUSIM_BUF_H
#define KVSTEER_TOOLS_GPUSIM_BUF_H
#include <stdbool.h>
#include <stddef.h>

struct sim_buf {
	char *data;
	size_t len, room;
	bool failed;
};

void sim_buf_free(struct sim_buf *b);
/* Drops the first `n` bytes. */
void sim_buf_consume(struct sim_buf *b, size_t n);
void sim_buf_add(struct sim_buf *b, const void *data, size_t len);
void sim_buf_str(struct sim_buf *b, const char *s);
void sim_buf_fmt(struct sim_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* `s` as the inside of a JSON string. */
void sim_buf_json(struct sim_buf *b, const char *s, size_t len);
/* One chunk of HTTP chunked coding; an empty one ends the body. */
void sim_buf_chunk(struct sim_buf *b, const void *data, size_t len);
#endif
