/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRAILER_MAX 8192u
#define CHUNK_EXT_MAX 4096u

void load_http_reset(struct load_http *h)
{
	char *head = h->head;
	uint32_t cap = h->head_cap;

	memset(h, 0, sizeof(*h));
	h->head = head;
	h->head_cap = cap;
}

void load_http_free(struct load_http *h)
{
	free(h->head);
	memset(h, 0, sizeof(*h));
}

/* Appends to the unfinished head. */
static int keep_head(struct load_http *h, const char *p, size_t n)
{
	size_t need = h->head_len + n;

	if (need > LOAD_HTTP_HEAD_MAX)
		return -EBADMSG;
	if (need > h->head_cap) {
		size_t cap = need < 1024 ? 1024 : LOAD_HTTP_HEAD_MAX;
		char *head = realloc(h->head, cap);

		if (!head)
			return -ENOMEM;
		h->head = head;
		h->head_cap = (uint32_t)cap;
	}
	memcpy(h->head + h->head_len, p, n);
	h->head_len += (uint32_t)n;
	return 0;
}

/* The length of a complete head at `p`, or 0. */
static size_t head_end(const char *p, size_t n, size_t from)
{
	const char *end = p + n;

	for (const char *at = p + from; at < end; at++) {
		at = memchr(at, '\n', (size_t)(end - at));
		if (!at)
			return 0;
		if (at - p >= 3 && !memcmp(at - 3, "\r\n\r", 3))
			return (size_t)(at - p) + 1;
	}
	return 0;
}

static long feed_head(struct load_http *h, const char *p, size_t n)
{
	size_t before = h->head_len, len;
	int rc;

	h->started = true;
	if (!before) {
		/* The usual case: the whole head in one read, parsed in place. */
		len = head_end(p, n, 0);
		if (len) {
			if (len > LOAD_HTTP_HEAD_MAX)
				return -EBADMSG;
			rc = load_http_parse_head(h, p, len);
			return rc < 0 ? rc : (long)len;
		}
	}
	rc = keep_head(h, p, n < LOAD_HTTP_HEAD_MAX ? n : LOAD_HTTP_HEAD_MAX);
	if (rc == -EBADMSG && before < LOAD_HTTP_HEAD_MAX) {
		/* Bytes of the body that came along may not count against the head. */
		n = LOAD_HTTP_HEAD_MAX - before;
		rc = keep_head(h, p, n);
	}
	if (rc)
		return rc;
	len = head_end(h->head, h->head_len, h->head_scan);
	if (!len) {
		if (h->head_len >= LOAD_HTTP_HEAD_MAX)
			return -EBADMSG;
		h->head_scan = h->head_len;
		return (long)n;
	}
	rc = load_http_parse_head(h, h->head, len);
	h->head_len = 0;
	h->head_scan = 0;
	return rc < 0 ? rc : (long)(len - before);
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 32;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte between chunks (RFC 9112 7.1). */
static int feed_frame(struct load_http *h, char c)
{
	switch (h->state) {
	case LOAD_HTTP_CHUNK_SIZE:
		if (hex(c) >= 0) {
			if (h->digits++ == 15)
				return -EBADMSG;
			h->remaining = h->remaining << 4 | (uint64_t)hex(c);
			return 0;
		}
		if (!h->digits)
			return -EBADMSG;
		h->digits = 0;
		if (c == '\r')
			h->state = LOAD_HTTP_CHUNK_SIZE_LF;
		else if (c == ';')
			h->state = LOAD_HTTP_CHUNK_EXT;
		else
			return -EBADMSG;
		return 0;
	case LOAD_HTTP_CHUNK_EXT:
		if (c == '\n' || h->digits++ == CHUNK_EXT_MAX)
			return -EBADMSG;
		if (c == '\r') {
			h->digits = 0;
			h->state = LOAD_HTTP_CHUNK_SIZE_LF;
		}
		return 0;
	case LOAD_HTTP_CHUNK_SIZE_LF:
		h->state = h->remaining ? LOAD_HTTP_CHUNK_DATA : LOAD_HTTP_TRAILER_START;
		return c == '\n' ? 0 : -EBADMSG;
	case LOAD_HTTP_CHUNK_DATA_CR:
		h->state = LOAD_HTTP_CHUNK_DATA_LF;
		return c == '\r' ? 0 : -EBADMSG;
	case LOAD_HTTP_CHUNK_DATA_LF:
		h->state = LOAD_HTTP_CHUNK_SIZE;
		h->remaining = 0;
		return c == '\n' ? 0 : -EBADMSG;
	case LOAD_HTTP_TRAILER_START:
		h->state = c == '\r' ? LOAD_HTTP_END_LF : LOAD_HTTP_TRAILER_LINE;
		return c == '\n' || c == ' ' || c == '\t' || h->digits++ >= TRAILER_MAX ? -EBADMSG : 0;
	case LOAD_HTTP_TRAILER_LINE:
		if (c == '\r')
			h->state = LOAD_HTTP_TRAILER_LF;
		return c == '\n' || h->digits++ >= TRAILER_MAX ? -EBADMSG : 0;
	case LOAD_HTTP_TRAILER_LF:
		h->state = LOAD_HTTP_TRAILER_START;
		return c == '\n' ? 0 : -EBADMSG;
	case LOAD_HTTP_END_LF:
		h->state = LOAD_HTTP_DONE;
		return c == '\n' ? 0 : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

long load_http_feed(struct load_http *h, const char *data, size_t len, load_http_body_fn body, void *arg)
{
	size_t used = 0;

	while (used < len && h->state != LOAD_HTTP_DONE) {
		const char *p = data + used;
		size_t n = len - used;
		long rc;

		switch (h->state) {
		case LOAD_HTTP_HEAD:
			rc = feed_head(h, p, n);
			if (rc < 0)
				return rc;
			used += (size_t)rc;
			break;
		case LOAD_HTTP_BODY_CLOSE:
			body(arg, p, n);
			used = len;
			break;
		case LOAD_HTTP_BODY_LENGTH:
		case LOAD_HTTP_CHUNK_DATA:
			if (n > h->remaining)
				n = h->remaining;
			body(arg, p, n);
			used += n;
			h->remaining -= n;
			if (!h->remaining)
				h->state = h->state == LOAD_HTTP_BODY_LENGTH ? LOAD_HTTP_DONE : LOAD_HTTP_CHUNK_DATA_CR;
			break;
		default:
			rc = feed_frame(h, *p);
			if (rc < 0)
				return rc;
			used++;
		}
	}
	return (long)used;
}

int load_http_eof(struct load_http *h)
{
	if (h->state != LOAD_HTTP_BODY_CLOSE)
		return -EPIPE;
	h->state = LOAD_HTTP_DONE;
	return 0;
}
