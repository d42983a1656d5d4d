/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A bounded output cursor: appends never overrun, the error is kept. Private to
 * the writers of this room. */
#ifndef KVSTEER_HTTP_OUT_H
#define KVSTEER_HTTP_OUT_H
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "http/write.h"

struct out {
	char *p;
	size_t cap, len;
	int err; /* 0 or the first negative errno */
};

static inline void out_mem(struct out *o, const char *s, size_t n)
{
	if (o->err)
		return;
	if (n > o->cap - o->len) {
		o->err = -ENOBUFS;
		return;
	}
	if (n)
		memcpy(o->p + o->len, s, n);
	o->len += n;
}

static inline void out_str(struct out *o, const char *s)
{
	out_mem(o, s, strlen(s));
}

static inline void out_u64(struct out *o, uint64_t v)
{
	char text[20];
	size_t i = sizeof(text);

	do {
		text[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	out_mem(o, text + i, sizeof(text) - i);
}

static inline ssize_t out_done(const struct out *o)
{
	return o->err ? o->err : (ssize_t)o->len;
}

/* "name: value CRLF". Values come from the parsers, which refuse what could split
 * a message, or from callers: -EINVAL for those. */
void out_field(struct out *o, const char *name, size_t name_len, const char *value, size_t value_len);
/* The same for a constant name and a string; nothing if value is NULL. */
void out_field_str(struct out *o, const char *name, const char *value);
void out_extra(struct out *o, const struct http_extra *extra, size_t n);
/* Content-Length or Transfer-Encoding, never both. */
void out_framing(struct out *o, uint8_t kind, uint64_t content_length);
#endif
