/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* HTTP/1.1 message heads, parsed strictly: llhttp without any leniency, and
 * the stricter rules of RFC 9110/9112 that a proxy needs on top of it.
 *
 * The caller owns one contiguous buffer per connection that begins with the
 * first byte of the message, appends to it as bytes arrive, and calls the
 * parser again with the whole of it; only new bytes are looked at. Slices are
 * offsets into that buffer, so it may be moved (realloc) between calls. The
 * result does not depend on how the bytes were split. Nothing allocates. */
#ifndef KVSTEER_HTTP_HTTP1_H
#define KVSTEER_HTTP_HTTP1_H
#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvsteer/http_framing.h"

struct http_slice {
	uint32_t off;
	uint32_t len;
};

static inline const char *http_at(const char *buf, struct http_slice s)
{
	return buf + s.off;
}

enum http_method {
	HTTP_M_NONE,
	HTTP_M_GET,
	HTTP_M_HEAD,
	HTTP_M_POST,
	HTTP_M_PUT,
	HTTP_M_DELETE,
	HTTP_M_OPTIONS,
	HTTP_M_PATCH,
	HTTP_M_COUNT
};

/* "GET" for HTTP_M_GET; "-" for HTTP_M_NONE. */
const char *http_method_text(enum http_method m);

/* Fields that some part of the router knows. Everything else is HTTP_F_OTHER. */
enum http_field_id {
	HTTP_F_OTHER,
	HTTP_F_ACCEPT,
	HTTP_F_AUTHORIZATION,
	HTTP_F_CONNECTION,
	HTTP_F_CONTENT_ENCODING,
	HTTP_F_CONTENT_LENGTH,
	HTTP_F_CONTENT_TYPE,
	HTTP_F_COOKIE,
	HTTP_F_DATE,
	HTTP_F_EXPECT,
	HTTP_F_FORWARDED,
	HTTP_F_HOST,
	HTTP_F_HTTP2_SETTINGS,
	HTTP_F_KEEP_ALIVE,
	HTTP_F_PROXY_AUTHENTICATE,
	HTTP_F_PROXY_AUTHORIZATION,
	HTTP_F_PROXY_CONNECTION,
	HTTP_F_RETRY_AFTER,
	HTTP_F_SERVER,
	HTTP_F_SET_COOKIE,
	HTTP_F_TE,
	HTTP_F_TRAILER,
	HTTP_F_TRANSFER_ENCODING,
	HTTP_F_UPGRADE,
	HTTP_F_USER_AGENT,
	HTTP_F_X_API_KEY,
	HTTP_F_X_FORWARDED_FOR,
	HTTP_F_X_FORWARDED_HOST,
	HTTP_F_X_FORWARDED_PROTO,
	HTTP_F_X_GATEWAY,          /* any X-Gateway-*: the router's own, never a client's */
	HTTP_F_X_KVSTEER,          /* any x-kvsteer-* but x-kvsteer-priority */
	HTTP_F_X_KVSTEER_PRIORITY,
	HTTP_F_X_REAL_IP,
	HTTP_F_X_REQUEST_ID,
	HTTP_F_X_AMZN_PREFIX_AWARE_ID,     /* X-Amzn-SageMaker-Prefix-Aware-Id */
	HTTP_F_X_AMZN_INFERENCE_COMPONENT, /* X-Amzn-SageMaker-Inference-Component */
	HTTP_F_ENDPOINT_LOAD_METRICS,      /* endpoint-load-metrics (ORCA) */
	HTTP_F_COUNT
};

/* Id of a field name, any case. */
enum http_field_id http_field_lookup(const char *name, size_t len);

#define HTTP_FIELD_HOP 1 /* hop-by-hop, by name or because Connection names it: not forwarded */

struct http_field {
	uint32_t name_off;
	uint32_t value_off;
	uint32_t value_len; /* surrounding whitespace removed; may be 0 */
	uint16_t name_len;
	uint8_t id;    /* enum http_field_id */
	uint8_t flags; /* HTTP_FIELD_* */
};

static inline struct http_slice http_field_value(const struct http_field *f)
{
	return (struct http_slice){ f->value_off, f->value_len };
}

/* Limits of one head (and of a request's body). */
struct http_limits {
	uint32_t head_bytes;   /* whole head: 431 */
	uint32_t target_bytes; /* request target: 414 */
	uint32_t line_bytes;   /* one field line: 431 */
	uint16_t headers;      /* fields: 431; also bounded by the storage given */
	uint64_t body_bytes;   /* request body: 413; 0 = no limit */
};

/* The defaults of the configuration: 32 KiB, 8 KiB, 8 KiB, 100, 64 MiB. */
#define HTTP_LIMITS_DEFAULT \
	((struct http_limits){ .head_bytes = 32768, .target_bytes = 8192, .line_bytes = 8192, .headers = 100, \
			       .body_bytes = 64ull << 20 })

/* Why a message was refused. `code` is a code of the error answers
 * ("bad_request", ...), `message` a short constant text without any input. */
struct http_fault {
	uint16_t status;
	const char *code;
	const char *message;
};

enum http_result {
	HTTP_FAULT = -1,  /* refused: see ->fault; the connection must be closed */
	HTTP_MORE = 0,    /* incomplete */
	HTTP_DONE = 1,    /* complete: head_bytes bytes of the buffer were the head */
	HTTP_INTERIM = 2, /* responses only: a complete 1xx head; consume it, init again */
};

/* State of the line scanner, common to both kinds of head; private. */
struct http_head {
	llhttp_t tok;
	struct http_limits limits;
	struct http_field *fields;
	uint32_t scanned; /* bytes looked at */
	uint32_t line;    /* where the current line begins */
	uint16_t nfields;
	uint16_t fields_cap;
	uint8_t phase;
	int8_t result;  /* enum http_result: of the first final call, kept */
	uint8_t tok_seen; /* what llhttp reported of the current line */
	struct http_slice tok_name, tok_value;
	const char *base; /* valid during a call only */
	uint64_t seen;    /* bit set of the field ids seen */
	uint64_t content_length;
};

struct http_req {
	struct http_head head;
	/* Valid after HTTP_DONE (method, path as far as known also after HTTP_FAULT, for the log). */
	uint8_t method;        /* enum http_method */
	uint8_t version_minor; /* 0 or 1 (1.2 and up count as 1.1) */
	uint8_t body;          /* enum http_body_kind: NONE, LENGTH or CHUNKED */
	bool keep_alive;       /* the client may send another request */
	bool expect_continue;  /* it waits for 100 (Continue) before it sends the body */
	bool asterisk;         /* OPTIONS *; path is "*" */
	bool has_query;
	uint64_t content_length; /* of HTTP_BODY_LENGTH */
	struct http_slice path;  /* normalised: dot segments gone, unreserved characters decoded; this is what is forwarded */
	struct http_slice query; /* without '?' */
	struct http_slice host;  /* absolute-form's authority, else Host; len 0 only for HTTP/1.0 without Host */
	uint32_t head_bytes;
	uint16_t nfields;
	struct http_field *fields; /* the caller's array */
	struct http_fault fault;
};

/* Starts a request head. `fields` has room for `cap` fields and must stay valid
 * while `r` is used; limits are copied. */
void http_req_init(struct http_req *r, const struct http_limits *limits, struct http_field *fields, uint16_t cap);

/* Parses on. buf[0..len) holds the message from its first byte; the path is
 * normalised in place, otherwise the buffer is not written. Returns HTTP_MORE,
 * HTTP_DONE or HTTP_FAULT; calling again after a final result repeats it.
 * Never looks beyond the head. */
enum http_result http_req_parse(struct http_req *r, char *buf, size_t len);

/* True if bytes of a request were seen (more than the one empty line that may
 * precede it): an idle connection may be closed silently, this one gets a 408. */
bool http_req_started(const struct http_req *r);

/* First field with that id, or NULL. */
const struct http_field *http_field_first(const struct http_field *fields, uint16_t n, enum http_field_id id);
/* First field of that name (any case), or NULL: for configured names. */
const struct http_field *http_field_named(const struct http_field *fields, uint16_t n, const char *buf,
					  const char *name, size_t name_len);

struct http_resp {
	struct http_head head;
	/* Valid after HTTP_DONE and HTTP_INTERIM. */
	uint16_t status;
	uint8_t version_minor;
	uint8_t body;              /* enum http_body_kind; NONE for HEAD, 204, 304, 1xx */
	bool keep_alive;           /* the backend connection may be used again after the body */
	bool event_stream;         /* Content-Type: text/event-stream */
	bool head_request;         /* as given to init */
	bool has_content_length;   /* also where there is no body (HEAD, 304) */
	bool has_chunked;          /* Transfer-Encoding: chunked, also where there is no body */
	uint64_t content_length;
	uint32_t keep_alive_timeout_s; /* hint of Keep-Alive: timeout=; 0 = none */
	uint32_t keep_alive_max;       /* hint of Keep-Alive: max=; UINT32_MAX = none */
	struct http_slice reason;
	uint32_t head_bytes;
	uint16_t nfields;
	struct http_field *fields;
	struct http_fault fault; /* always 502 backend_bad_response */
};

/* Starts a response head to a request of method `method`. */
void http_resp_init(struct http_resp *r, const struct http_limits *limits, struct http_field *fields, uint16_t cap,
		    enum http_method method);

/* As http_req_parse(). Also HTTP_INTERIM for 1xx heads: the caller counts them
 * (cap 8), may forward them (http_write_interim), drops head_bytes bytes and
 * inits again. 101 is a fault: the router never forwards Upgrade. */
enum http_result http_resp_parse(struct http_resp *r, const char *buf, size_t len);
#endif
