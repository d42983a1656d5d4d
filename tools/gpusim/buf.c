/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gpusim/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool buf_reserve(struct sim_buf *b, size_t more)
{
	size_t room = b->room ? b->room : 256;
	char *data;

	if (b->failed)
		return false;
	if (b->len + more <= b->room)
		return true;
	while (room < b->len + more)
		room *= 2;
	data = realloc(b->data, room);
	if (!data) {
		b->failed = true;
		return false;
	}
	b->data = data;
	b->room = room;
	return true;
}

void sim_buf_free(struct sim_buf *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

void sim_buf_consume(struct sim_buf *b, size_t n)
{
	b->len -= n;
	if (b->len)
		memmove(b->data, b->data + n, b->len);
}

void sim_buf_add(struct sim_buf *b, const void *data, size_t len)
{
	if (!len || !buf_reserve(b, len))
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

void sim_buf_str(struct sim_buf *b, const char *s)
{
	sim_buf_add(b, s, strlen(s));
}

void sim_buf_fmt(struct sim_buf *b, const char *fmt, ...)
{
	va_list ap;
	int need;

	if (!buf_reserve(b, 192))
		return;
	va_start(ap, fmt);
	need = vsnprintf(b->data + b->len, b->room - b->len, fmt, ap);
	va_end(ap);
	if (need >= 0 && (size_t)need >= b->room - b->len) {
		if (!buf_reserve(b, (size_t)need + 1))
			return;
		va_start(ap, fmt);
		need = vsnprintf(b->data + b->len, b->room - b->len, fmt, ap);
		va_end(ap);
	}
	if (need > 0)
		b->len += (size_t)need;
}

void sim_buf_json(struct sim_buf *b, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\') {
			char esc[2] = { '\\', (char)c };

			sim_buf_add(b, esc, 2);
		} else if (c < 0x20) {
			sim_buf_fmt(b, "\\u%04x", c);
		} else {
			sim_buf_add(b, &s[i], 1);
		}
	}
}

void sim_buf_chunk(struct sim_buf *b, const void *data, size_t len)
{
	sim_buf_fmt(b, "%zx\r\n", len);
	sim_buf_add(b, data, len);
	sim_buf_add(b, "\r\n", 2);
}
