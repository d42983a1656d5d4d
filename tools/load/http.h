/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reader of one HTTP/1.1 answer at a time, fed with bytes as they arrive, in
 * any split. Strict (RFC 9112): what a sloppy router would garble must show up
 * as `bad_response`, not be repaired here. Not the gateway's parser on purpose:
 * a fault in one must not hide the same fault in the other. */
#ifndef KVSTEER_LOAD_HTTP_H
#define KVSTEER_LOAD_HTTP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_HTTP_HEAD_MAX 32768u
#define LOAD_HTTP_BACKEND_MAX 96u

enum load_http_state {
	LOAD_HTTP_HEAD,
	LOAD_HTTP_BODY_LENGTH,
	LOAD_HTTP_BODY_CLOSE,
	LOAD_HTTP_CHUNK_SIZE,
	LOAD_HTTP_CHUNK_EXT,
	LOAD_HTTP_CHUNK_SIZE_LF,
	LOAD_HTTP_CHUNK_DATA,
	LOAD_HTTP_CHUNK_DATA_CR,
	LOAD_HTTP_CHUNK_DATA_LF,
	LOAD_HTTP_TRAILER_START,
	LOAD_HTTP_TRAILER_LINE,
	LOAD_HTTP_TRAILER_LF,
	LOAD_HTTP_END_LF,
	LOAD_HTTP_DONE,
};

struct load_http {
	enum load_http_state state;
	bool started;       /* a byte of the answer has been seen */
	bool head_done;     /* status and the fields below are valid */
	bool close;         /* the connection ends with this answer */
	bool event_stream;  /* Content-Type: text/event-stream */
	uint16_t status;
	uint64_t remaining; /* of the body or of the chunk */
	uint32_t digits;    /* of the chunk size; bytes of the extension or the trailers */
	char backend[LOAD_HTTP_BACKEND_MAX]; /* x-kvsteer-backend, "" without */
	char *head;         /* owned: the unfinished head */
	uint32_t head_len;
	uint32_t head_cap;
	uint32_t head_scan; /* up to here no end of head was found */
};

/* Takes a span of body bytes; valid during the call. */
typedef void (*load_http_body_fn)(void *arg, const char *p, size_t len);

/* A zeroed reader is ready; reset makes a used one ready again and keeps its memory. */
void load_http_reset(struct load_http *h);
void load_http_free(struct load_http *h);
/* Returns how many bytes belong to this answer (less than len only when state became
 * LOAD_HTTP_DONE), -EBADMSG when they are not HTTP, -ENOMEM. */
long load_http_feed(struct load_http *h, const char *data, size_t len, load_http_body_fn body, void *arg);
/* The connection was closed by the server: 0 when that ends the answer rightly
 * (no length, no chunks), else -EPIPE. */
int load_http_eof(struct load_http *h);
/* For load_http_head.c: reads the complete head of `len` bytes incl. the empty line and sets
 * the state of the body. Returns 0, 1 for an interim answer to skip (1xx), or -EBADMSG. */
int load_http_parse_head(struct load_http *h, const char *head, size_t len);
#endif
