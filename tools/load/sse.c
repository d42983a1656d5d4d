/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/sse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void load_sse_reset(struct load_sse *s)
{
	s->len = 0;
	s->has_data = false;
}

void load_sse_free(struct load_sse *s)
{
	free(s->line);
	memset(s, 0, sizeof(*s));
}

static int keep_line(struct load_sse *s, const char *p, size_t n)
{
	size_t cap = s->cap ? s->cap : 512;

	if (s->len + n > LOAD_SSE_LINE_MAX)
		return -EBADMSG;
	while (cap < s->len + n)
		cap *= 2;
	if (cap != s->cap) {
		char *line = realloc(s->line, cap);

		if (!line)
			return -ENOMEM;
		s->line = line;
		s->cap = cap;
	}
	memcpy(s->line + s->len, p, n);
	s->len += n;
	return 0;
}

static void take_line(struct load_sse *s, const char *p, size_t n, load_sse_data_fn data, load_sse_event_fn event,
		      void *arg)
{
	if (n && p[n - 1] == '\r')
		n--;
	if (!n) {
		if (s->has_data)
			event(arg);
		s->has_data = false;
		return;
	}
	if (n < 5 || memcmp(p, "data:", 5))
		return;
	p += 5;
	n -= 5;
	if (n && *p == ' ') {
		p++;
		n--;
	}
	s->has_data = true;
	data(arg, p, n);
}

int load_sse_feed(struct load_sse *s, const char *p, size_t len, load_sse_data_fn data, load_sse_event_fn event,
		  void *arg)
{
	const char *end = p + len;

	while (p < end) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		int rc;

		if (!lf)
			return keep_line(s, p, (size_t)(end - p));
		if (s->len) {
			rc = keep_line(s, p, (size_t)(lf - p));
			if (rc)
				return rc;
			take_line(s, s->line, s->len, data, event, arg);
			s->len = 0;
		} else {
			take_line(s, p, (size_t)(lf - p), data, event, arg);
		}
		p = lf + 1;
	}
	return 0;
}
