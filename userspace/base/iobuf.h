/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A contiguous byte buffer with a read offset: connection input and output.
 * An empty one owns no memory, so that idle connections hold none. */
#ifndef KVSTEER_BASE_IOBUF_H
#define KVSTEER_BASE_IOBUF_H
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct iobuf {
	uint8_t *mem; /* cap bytes, or NULL */
	uint32_t off; /* first unread byte */
	uint32_t len; /* unread bytes from off */
	uint32_t cap;
};

static inline uint8_t *iobuf_head(const struct iobuf *b)
{
	return b->mem + b->off;
}

static inline uint8_t *iobuf_tail(const struct iobuf *b)
{
	return b->mem + b->off + b->len;
}

static inline uint32_t iobuf_room(const struct iobuf *b)
{
	return b->cap - b->off - b->len;
}

static inline void iobuf_free(struct iobuf *b)
{
	free(b->mem);
	memset(b, 0, sizeof(*b));
}

/* Makes room for `n` more bytes behind the tail. -ENOBUFS if more than `max`
 * unread bytes would be held, -ENOMEM. Moves bytes: pointers into it end. */
int iobuf_reserve(struct iobuf *b, uint32_t n, uint32_t max);
/* Appends a copy of `n` bytes; errors as iobuf_reserve(). */
int iobuf_append(struct iobuf *b, const void *p, uint32_t n, uint32_t max);

/* `n` bytes at the tail were filled in by the caller. */
static inline void iobuf_produced(struct iobuf *b, uint32_t n)
{
	b->len += n;
}

/* Drops `n` bytes from the front; gives the memory back with the last one. */
static inline void iobuf_consume(struct iobuf *b, uint32_t n)
{
	b->off += n;
	b->len -= n;
	if (!b->len)
		iobuf_free(b);
}
#endif
