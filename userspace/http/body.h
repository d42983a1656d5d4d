/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Body decoder over kvsteer/http_framing.h for the host: payload spans out of
 * raw bytes, the body limit, and faults ready to be answered. */
#ifndef KVSTEER_HTTP_BODY_H
#define KVSTEER_HTTP_BODY_H
#include "http/http1.h"

struct http_body {
	struct http_framing framing;
	uint64_t limit_bytes; /* payload; 0 = none */
	struct http_fault fault;
};

/* What one step found; offsets count from the `p` given to that step. */
struct http_span {
	size_t consumed; /* bytes to drop from the input, framing included */
	size_t off;      /* payload among them */
	size_t len;
};

/* Starts a body of `kind`; `limit_bytes` bounds its payload (0 = no limit). */
void http_body_init(struct http_body *b, enum http_body_kind kind, uint64_t content_length, uint64_t limit_bytes);

/* Takes bytes of the input up to and including the next run of payload.
 * Returns HTTP_DONE when the body ended with the last consumed byte (a body of
 * kind NONE: at once, consuming nothing), HTTP_FAULT (fault set: 400, 413 or
 * 431; nothing more must be read), else HTTP_MORE: call again with the rest
 * while there is some. At HTTP_DONE the span may hold the last payload. */
enum http_result http_body_step(struct http_body *b, const char *p, size_t n, struct http_span *out);

/* True if the body is complete. */
static inline bool http_body_ended(const struct http_body *b)
{
	return b->framing.state == HTTP_FS_END;
}

/* Chunked coding for what the router frames itself. A chunk is: header, payload,
 * HTTP_CHUNK_END. */
#define HTTP_CHUNK_HEAD_MAX 18
#define HTTP_CHUNK_END "\r\n"
#define HTTP_CHUNK_LAST "0\r\n\r\n"

/* Writes the size line of a chunk of `len` (> 0) bytes; returns its length. */
size_t http_chunk_head(char out[HTTP_CHUNK_HEAD_MAX], uint64_t len);
#endif
