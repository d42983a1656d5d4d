/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static bool is_token(const char *p, size_t n)
{
	/* RFC 9110 5.6.2 */
	static const char extra[] = "!#$%&'*+-.^_`|~";

	if (!n)
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))
			continue;
		if (!c || !strchr(extra, c))
			return false;
	}
	return true;
}

static bool name_is(const char *p, size_t n, const char *name)
{
	return n == strlen(name) && !strncasecmp(p, name, n);
}

static int parse_status(struct load_http *h, const char *p, size_t n)
{
	/* HTTP/1.1 200 OK; the reason may be empty and its space missing. */
	if (n < 12 || memcmp(p, "HTTP/1.", 7) || (p[7] != '0' && p[7] != '1') || p[8] != ' ')
		return -EBADMSG;
	if (n > 12 && p[12] != ' ')
		return -EBADMSG;
	h->status = 0;
	for (int i = 9; i < 12; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -EBADMSG;
		h->status = (uint16_t)(h->status * 10 + (p[i] - '0'));
	}
	if (h->status < 100 || h->status > 599)
		return -EBADMSG;
	h->close = p[7] == '0';
	return 0;
}

static int parse_length(const char *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;

	if (!n || n > 18)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return -EBADMSG;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	*out = v;
	return 0;
}

/* Whether the comma-separated list holds the word. */
static bool list_has(const char *p, size_t n, const char *word)
{
	const char *end = p + n;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end;
		const char *last = stop;

		while (p < last && (*p == ' ' || *p == '\t'))
			p++;
		while (last > p && (last[-1] == ' ' || last[-1] == '\t'))
			last--;
		if (name_is(p, (size_t)(last - p), word))
			return true;
		p = stop + 1;
	}
	return false;
}

struct framing {
	bool chunked;
	bool has_length;
	uint64_t length;
};

static int parse_field(struct load_http *h, const char *p, size_t n, struct framing *f)
{
	const char *colon = memchr(p, ':', n), *value, *end = p + n;
	size_t name_len, len;

	/* A folded line begins with a space and fails here too (RFC 9112 5.2). */
	if (!colon || !is_token(p, (size_t)(colon - p)))
		return -EBADMSG;
	name_len = (size_t)(colon - p);
	value = colon + 1;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	len = (size_t)(end - value);
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)value[i] < 32 && value[i] != '\t') || value[i] == 127)
			return -EBADMSG;

	if (name_is(p, name_len, "content-length")) {
		uint64_t v;

		if (parse_length(value, len, &v) || (f->has_length && v != f->length))
			return -EBADMSG;
		f->has_length = true;
		f->length = v;
	} else if (name_is(p, name_len, "transfer-encoding")) {
		if (f->chunked || !name_is(value, len, "chunked"))
			return -EBADMSG;
		f->chunked = true;
	} else if (name_is(p, name_len, "connection")) {
		if (list_has(value, len, "close"))
			h->close = true;
	} else if (name_is(p, name_len, "content-type")) {
		h->event_stream = len >= 17 && !strncasecmp(value, "text/event-stream", 17) &&
				  (len == 17 || value[17] == ';' || value[17] == ' ');
	} else if (name_is(p, name_len, "x-kvsteer-backend")) {
		if (len >= LOAD_HTTP_BACKEND_MAX)
			len = LOAD_HTTP_BACKEND_MAX - 1;
		memcpy(h->backend, value, len);
		h->backend[len] = 0;
	}
	return 0;
}

int load_http_parse_head(struct load_http *h, const char *head, size_t len)
{
	const char *p = head, *end = head + len;
	struct framing f = { 0 };
	bool first = true;

	for (;;) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		size_t n;

		if (!lf || lf == p || lf[-1] != '\r')
			return -EBADMSG;
		n = (size_t)(lf - p) - 1;
		if (n == 0)
			break;
		if (first ? parse_status(h, p, n) : parse_field(h, p, n, &f))
			return -EBADMSG;
		first = false;
		p = lf + 1;
	}
	if (first)
		return -EBADMSG;
	/* A length beside chunked is the start of response splitting (RFC 9112 6.3). */
	if (f.chunked && f.has_length)
		return -EBADMSG;
	if (h->status < 200) {
		if (h->status == 101 || f.chunked || f.length)
			return -EBADMSG;
		return 1;
	}
	h->remaining = f.length;
	if (h->status == 204 || h->status == 304)
		h->state = LOAD_HTTP_DONE;
	else if (f.chunked)
		h->state = LOAD_HTTP_CHUNK_SIZE;
	else if (f.has_length)
		h->state = f.length ? LOAD_HTTP_BODY_LENGTH : LOAD_HTTP_DONE;
	else
		h->state = LOAD_HTTP_BODY_CLOSE;
	if (h->state == LOAD_HTTP_BODY_CLOSE)
		h->close = true;
	h->digits = 0;
	h->head_done = true;
	return 0;
}
