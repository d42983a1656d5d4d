/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "http/body.h"

#include <string.h>

void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t content_length, uint64_t limit_bytes)
{
	memset(b, 0, sizeof(*b));
	http_framing_init(&b->framing, (__u8)kind, content_length);
	b->limit_bytes = limit_bytes;
}

static enum http_result body_fault(struct http_body *b)
{
	static const struct http_fault faults[] = {
		[HTTP_FE_NONE] = { 400, "bad_request", "malformed body" },
		[HTTP_FE_SIZE] = { 400, "bad_request", "malformed chunk size" },
		[HTTP_FE_OVERFLOW] = { 400, "bad_request", "chunk size too large" },
		[HTTP_FE_CRLF] = { 400, "bad_request", "CRLF expected in chunked body" },
		[HTTP_FE_EXT] = { 400, "bad_request", "control character in chunk extension" },
		[HTTP_FE_EXT_MAX] = { 400, "bad_request", "chunk extensions too long" },
		[HTTP_FE_TRAILER] = { 400, "bad_request", "malformed trailer" },
		[HTTP_FE_TRAILER_MAX] = { 431, "header_too_large", "trailers too large" },
		[HTTP_FE_TRUNCATED] = { 400, "bad_request", "body ended early" },
	};
	unsigned int e = b->framing.error;

	if (!b->fault.status)
		b->fault = faults[e < sizeof(faults) / sizeof(faults[0]) ? e : HTTP_FE_NONE];
	return HTTP_FAULT;
}

/* The size of the chunk being read is known from its header's end on: refuse
 * what can't fit before its data arrives. */
static bool over_limit(const struct http_body *b)
{
	const struct http_framing *f = &b->framing;
	uint64_t due = f->state == HTTP_FS_DATA || f->state == HTTP_FS_LENGTH ? f->left : 0;

	return b->limit_bytes && f->payload_bytes + due > b->limit_bytes;
}

static enum http_result too_large(struct http_body *b, struct http_span *out)
{
	http_framing_fail(&b->framing, HTTP_FE_NONE);
	b->fault = (struct http_fault){ 413, "body_too_large", "request body too large (limits.body)" };
	out->len = 0;
	return HTTP_FAULT;
}

enum http_result http_body_step(struct http_body *b, const char *p, size_t n, struct http_span *out)
{
	/* The framing counts in 32 bits; a host's buffer may be larger. */
	__u32 avail = n > 1u << 30 ? 1u << 30 : (__u32)n;
	int status = http_framing_status(&b->framing);
	size_t pos = 0;

	*out = (struct http_span){ 0, 0, 0 };
	if (status == HTTP_FRAMING_MORE && over_limit(b))
		return too_large(b, out);
	while (status == HTTP_FRAMING_MORE && pos < avail && !out->len) {
		struct http_framing_span s;

		status = http_framing_step(&b->framing, p, p + avail, (__u32)pos, avail, &s);
		pos += s.consumed;
		out->consumed = pos;
		out->off = s.off;
		out->len = s.len;
		if (over_limit(b))
			return too_large(b, out);
	}
	if (status == HTTP_FRAMING_ERROR) {
		out->len = 0;
		return body_fault(b);
	}
	return status == HTTP_FRAMING_END ? HTTP_DONE : HTTP_MORE;
}

size_t http_chunk_head(char out[HTTP_CHUNK_HEAD_MAX], uint64_t len)
{
	static const char hex[] = "0123456789abcdef";
	unsigned int digits = 1;

	while (digits < 16 && len >> (4 * digits))
		digits++;
	for (unsigned int i = 0; i < digits; i++)
		out[i] = hex[len >> (4 * (digits - 1 - i)) & 15];
	out[digits] = '\r';
	out[digits + 1] = '\n';
	return digits + 2;
}
