/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Heads are always re-serialised, never forwarded as raw bytes (RFC 9112 11.2):
 * one start line, end-to-end fields, one framing field.
 *
 * Every writer returns the number of bytes written, -ENOBUFS if `cap` is too
 * small (call again with more room; heads are bounded by the parser's limits
 * plus the extra fields), or -EINVAL for an extra name or value that could
 * split the message. The output is not NUL-terminated. */
#ifndef KVSTEER_HTTP_WRITE_H
#define KVSTEER_HTTP_WRITE_H
#include <sys/types.h>

#include "http/http1.h"

/* A field that the router adds. A NULL value skips it. */
struct http_extra {
	const char *name;
	const char *value;
	size_t value_len;
};

/* Client fields that are dropped though they are end-to-end. */
#define HTTP_DROP_AUTHORIZATION 1 /* Authorization and x-api-key */
#define HTTP_DROP_COOKIE 2
#define HTTP_DROP_ENDPOINT_LOAD_METRICS 4 /* responses: endpoint-load-metrics */

struct http_req_out {
	const char *path_prefix;  /* of the backend's URL, without trailing '/', or NULL */
	const char *host;         /* Host of the backend: "name[:port]" */
	uint8_t body;             /* enum http_body_kind to announce: NONE, LENGTH or CHUNKED */
	uint64_t content_length;
	const char *peer_address; /* client's address for X-Forwarded-For, or NULL */
	bool trusted;             /* true: append to the client's X-Forwarded-For and keep its Forwarded,
				   * X-Forwarded-*, X-Real-IP; false: those are dropped */
	const char *request_id;   /* x-request-id, or NULL */
	uint32_t drop;            /* HTTP_DROP_* */
	bool close;               /* connection: close */
	const struct http_extra *extra;
	size_t nextra;
};

/* The request to the backend, origin-form, HTTP/1.1. `buf` is the buffer that
 * `r` was parsed from. Expect is not forwarded: the router has the body or asks
 * for it itself. A client's x-request-id, x-kvsteer-* and X-Gateway-* never are. */
ssize_t http_write_request(char *out, size_t cap, const struct http_req *r, const char *buf,
			   const struct http_req_out *o);

struct http_resp_out {
	uint8_t body;            /* enum http_body_kind: how it is framed to the client; UNTIL_CLOSE writes no framing field */
	bool announce_length;    /* body NONE but a Content-Length belongs there (HEAD, 304) */
	bool announce_chunked;   /* body NONE, HEAD of a chunked answer */
	uint64_t content_length;
	bool http10;             /* the client speaks 1.0 */
	bool close;              /* connection: close */
	uint32_t drop;           /* HTTP_DROP_* */
	const char *date;        /* written if the backend sent none; or NULL */
	const struct http_extra *extra;
	size_t nextra;
};

/* Fills body, announce_*, content_length, http10 and close of `o` from the
 * backend's head and the client's request: a 1.1 client gets the backend's
 * framing, with close-delimited bodies chunked; a 1.0 client gets no chunked
 * coding and a close unless the length is known. `close` is or-ed with
 * `want_close`. */
void http_resp_plan(struct http_resp_out *o, const struct http_resp *resp, const struct http_req *req, bool want_close);

/* The response to the client. Field names that are also in `extra` are the
 * router's: the backend's are dropped (x-kvsteer-* always, x-request-id if given). */
ssize_t http_write_response(char *out, size_t cap, const struct http_resp *r, const char *buf,
			    const struct http_resp_out *o);

/* A 1xx head for a 1.1 client (never for a 1.0 one: RFC 9110 15.2). */
ssize_t http_write_interim(char *out, size_t cap, const struct http_resp *r, const char *buf);
#define HTTP_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

enum http_flavour { HTTP_FLAVOUR_OPENAI, HTTP_FLAVOUR_ANTHROPIC };

/* An answer that the router makes itself. */
struct http_error_out {
	uint16_t status;
	const char *code;    /* "queue_full", ... */
	const char *message; /* any text; escaped */
	const char *param;   /* OpenAI's "param", or NULL */
	const char *allow;   /* 405: the methods of this path; NULL: those that the gateway knows at all */
	uint8_t flavour;     /* enum http_flavour */
	const char *request_id; /* or NULL */
	uint32_t retry_after_s; /* 0 = none */
	bool close;
	bool http10;
	bool head_only; /* answer to HEAD: no body bytes */
	const char *date; /* or NULL */
	const struct http_extra *extra;
	size_t nextra;
};

/* Whole answer: head and JSON body. 405 also carries Allow. Needs up to 9 bytes
 * (and for head_only the body's) more room than it writes. */
ssize_t http_write_error(char *out, size_t cap, const struct http_error_out *e);
/* Only the JSON object, e.g. for an event of a stream. */
ssize_t http_write_error_json(char *out, size_t cap, const struct http_error_out *e);

/* "Not Found" for 404; "Unknown" for a status without a name. */
const char *http_reason(uint16_t status);

/* IMF-fixdate of a unix time, e.g. "Sun, 06 Nov 1994 08:49:37 GMT". */
#define HTTP_DATE_MAX 30
void http_format_date(char out[HTTP_DATE_MAX], int64_t unix_s);

/* True if a client's x-request-id may be kept: 1..128 of [A-Za-z0-9._:+/=@-]. */
bool http_request_id_ok(const char *s, size_t len);
#endif
