/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Shared by the parsers of this room only. */
#ifndef KVSTEER_HTTP_INTERNAL_H
#define KVSTEER_HTTP_INTERNAL_H
#include <string.h>

#include "http/http1.h"

#define HTTP_METHOD_BYTES_MAX 24
#define HTTP_VERSION_BYTES 8 /* "HTTP/1.1" */
/* "METHOD SP SP HTTP/x.y" around the target */
#define HTTP_START_LINE_EXTRA (HTTP_METHOD_BYTES_MAX + 2 + HTTP_VERSION_BYTES)
/* More Connection options than this are an attack on the field filter. */
#define HTTP_CONNECTION_TOKENS_MAX 32

/* What the line scanner found. */
enum head_scan {
	HEAD_MORE,
	HEAD_LINE,     /* a complete line, CRLF removed */
	HEAD_CTL,      /* a control byte */
	HEAD_BARE_CR,
	HEAD_BARE_LF,
	HEAD_LINE_MAX, /* line too long */
	HEAD_MAX,      /* head too long */
};

/* head->phase */
enum head_phase { HEAD_P_START, HEAD_P_START_AGAIN, HEAD_P_FIELDS, HEAD_P_END };

void head_init(struct http_head *h, llhttp_type_t type, const struct http_limits *limits, struct http_field *fields,
	       uint16_t cap);

/* Finds the next line in buf[h->scanned..len). Events come in the order of their
 * positions, so the outcome is the same however the bytes arrive. */
enum head_scan head_scan(struct http_head *h, const char *buf, size_t len, struct http_slice *line);

/* Lets llhttp read a piece of the head; true if it agrees. */
bool head_tok(struct http_head *h, const char *buf, const char *p, size_t len);

/* What is wrong with a field line; HEAD_F_OK means recorded in fields[nfields-1]. */
enum head_field {
	HEAD_F_OK,
	HEAD_F_TOO_MANY,
	HEAD_F_FOLD,
	HEAD_F_COLON,
	HEAD_F_NAME,
	HEAD_F_TOKENIZER,
};
enum head_field head_add_field(struct http_head *h, const char *buf, struct http_slice line);

/* Ends the head in llhttp too. True if it saw the end and the same framing:
 * `kind` as announced, and h->content_length. */
bool head_tok_finish(struct http_head *h, const char *buf, uint8_t kind);

/* First time this id is seen? Remembers it. */
static inline bool head_first(struct http_head *h, uint8_t id)
{
	bool first = !(h->seen >> id & 1);

	h->seen |= 1ull << id;
	return first;
}
static inline bool head_has(const struct http_head *h, uint8_t id)
{
	return h->seen >> id & 1;
}
_Static_assert(HTTP_F_COUNT <= 64, "http_head.seen is a 64-bit set");

/* Reads all Connection fields: *close, *keep_alive, and HTTP_FIELD_HOP on the
 * fields they name. False if malformed or too many. */
bool head_connection(struct http_head *h, const char *buf, bool *close, bool *keep_alive);

/* Content-Length: one canonical decimal below 2^63. */
bool http_parse_content_length(const char *s, size_t len, uint64_t *out);
/* ASCII case-insensitive equality with a literal. */
bool http_slice_is(const char *s, size_t len, const char *literal);

/* As http_field_lookup(); *flags gets the HTTP_FIELD_* that the name has by itself. */
enum http_field_id http_field_classify(const char *name, size_t len, uint8_t *flags);
enum http_method http_method_lookup(const char *s, size_t len);
/* Sets of bytes. */
#define HTTP_CH_TOKEN 1 /* tchar */
#define HTTP_CH_TEXT 2  /* HT, SP, VCHAR, obs-text: what a value may hold */
extern const uint8_t http_char_class[256];
/* True if all eight bytes at s are HTTP_CH_TEXT and none is HT, which the caller then looks at by the table. */
static inline bool http_text8(const char *s)
{
	const uint64_t ones = 0x0101010101010101ull, highs = 0x8080808080808080ull;
	uint64_t v, ctl, del;

	memcpy(&v, s, sizeof(v));
	ctl = v & ones * 0xe0; /* zero where the byte is below 0x20 */
	del = v ^ ones * 0x7f;
	return !(((ctl - ones) & ~ctl & highs) | ((del - ones) & ~del & highs));
}
bool http_token_ok(const char *s, size_t len); /* 1*tchar */
bool http_text_ok(const char *s, size_t len);  /* a value that can't split a message (RFC 9110 5.5) */
/* Next element of a comma-separated list, whitespace trimmed (may be empty). */
bool http_token_next(const char **p, const char *end, const char **tok, size_t *len);

/* Request target. */
enum target_form { TARGET_BAD, TARGET_ORIGIN, TARGET_ABSOLUTE, TARGET_ASTERISK };
struct target {
	enum target_form form;
	struct http_slice path, query, authority;
	bool has_query;
};
/* Splits and normalises the target at buf[s.off..s.off+s.len) in place. */
struct target target_parse(char *buf, struct http_slice s, enum http_method method);
/* Host or authority: name, IPv4 or [IPv6], optional port 1..65535, no userinfo. */
bool http_authority_ok(const char *s, size_t len);
#endif
