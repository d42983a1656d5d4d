/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The line scanner below both head parsers.
 *
 * llhttp is always fed whole lines, with the whitespace after a value removed.
 * So its spans never break, its verdict can't depend on how TCP cut the bytes,
 * and early bytes of an attack are judged here, by position. */
#include <string.h>
#include <strings.h>

#include "http/http_internal.h"

#define TOK_NAME 1
#define TOK_VALUE 2
#define TOK_END 4
#define TOK_LENGTH 8
#define TOK_CHUNKED 16

static int on_name(llhttp_t *p, const char *at, size_t len)
{
	struct http_head *h = p->data;

	if (!len)
		return 0;
	if (h->tok_seen & TOK_NAME) /* one name a line; a second span means that we disagree */
		return -1;
	h->tok_seen |= TOK_NAME;
	h->tok_name = (struct http_slice){ (uint32_t)(at - h->base), (uint32_t)len };
	return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	struct http_head *h = p->data;

	if (!len)
		return 0;
	if (h->tok_seen & TOK_VALUE)
		return -1;
	h->tok_seen |= TOK_VALUE;
	h->tok_value = (struct http_slice){ (uint32_t)(at - h->base), (uint32_t)len };
	return 0;
}

static int on_end(llhttp_t *p)
{
	struct http_head *h = p->data;

	/* llhttp learns a value's meaning only here, behind its line's last byte. */
	h->tok_seen = TOK_END;
	if (p->flags & F_CONTENT_LENGTH) {
		h->tok_seen |= TOK_LENGTH;
		if (p->content_length != h->content_length)
			return -1;
	}
	if (p->flags & F_CHUNKED)
		h->tok_seen |= TOK_CHUNKED;
	return 0;
}

/* Constant after load: llhttp only reads it. */
static const llhttp_settings_t settings = {
	.on_header_field = on_name,
	.on_header_value = on_value,
	.on_headers_complete = on_end,
};

void head_init(struct http_head *h, llhttp_type_t type, const struct http_limits *limits, struct http_field *fields,
	       uint16_t cap)
{
	memset(h, 0, sizeof(*h));
	h->limits = *limits;
	if (h->limits.line_bytes > UINT16_MAX) /* http_field.name_len */
		h->limits.line_bytes = UINT16_MAX;
	h->fields = fields;
	h->fields_cap = cap < limits->headers ? cap : limits->headers;
	llhttp_init(&h->tok, type, &settings);
	h->tok.data = h;
}

enum head_scan head_scan(struct http_head *h, const char *buf, size_t len, struct http_slice *line)
{
	uint32_t line_max = h->phase == HEAD_P_FIELDS ? h->limits.line_bytes :
							h->limits.target_bytes + HTTP_START_LINE_EXTRA;
	size_t head_end = len < h->limits.head_bytes ? len : h->limits.head_bytes;
	size_t line_end = (size_t)h->line + line_max;
	size_t stop = line_end < head_end ? line_end : head_end;
	size_t i = h->scanned;

	while (i + 8 <= stop && http_text8(buf + i))
		i += 8;
	while (i < stop && (http_char_class[(uint8_t)buf[i]] & HTTP_CH_TEXT))
		i++;
	if (i < head_end) {
		char c = buf[i];

		if (c == '\n') /* RFC 9112 2.2 allows it as a terminator; smugglers like it */
			return HEAD_BARE_LF;
		if (c != '\r')
			return http_char_class[(uint8_t)c] & HTTP_CH_TEXT ? HEAD_LINE_MAX : HEAD_CTL;
		if (i + 1 < head_end) {
			if (buf[i + 1] != '\n')
				return HEAD_BARE_CR;
			*line = (struct http_slice){ h->line, (uint32_t)(i - h->line) };
			h->line = h->scanned = (uint32_t)i + 2;
			return HEAD_LINE;
		}
		/* a CR at the end: its LF decides */
	}
	h->scanned = (uint32_t)i;
	return len >= h->limits.head_bytes ? HEAD_MAX : HEAD_MORE;
}

bool head_tok(struct http_head *h, const char *buf, const char *p, size_t len)
{
	h->base = buf;
	return llhttp_execute(&h->tok, p, len) == HPE_OK;
}

enum head_field head_add_field(struct http_head *h, const char *buf, struct http_slice line)
{
	const char *s = buf + line.off;
	const char *colon, *end, *value;
	struct http_field *f;
	size_t name_len;

	if (*s == ' ' || *s == '\t') /* RFC 9112 5.2 obs-fold, 2.2 space before the first field */
		return HEAD_F_FOLD;
	colon = memchr(s, ':', line.len);
	if (!colon)
		return HEAD_F_COLON;
	name_len = (size_t)(colon - s);
	if (!http_token_ok(s, name_len)) /* 5.1: no whitespace before the colon either */
		return HEAD_F_NAME;
	if (h->nfields >= h->fields_cap)
		return HEAD_F_TOO_MANY;
	value = colon + 1;
	end = s + line.len;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;

	h->tok_seen = 0;
	h->tok_name = (struct http_slice){ line.off, 0 };
	h->tok_value = (struct http_slice){ (uint32_t)(value - buf), 0 };
	/* In one go where nothing was removed: the line's CRLF follows. */
	if (end == s + line.len ? !head_tok(h, buf, s, line.len + 2) :
				  !head_tok(h, buf, s, (size_t)(end - s)) || !head_tok(h, buf, "\r\n", 2))
		return HEAD_F_TOKENIZER;
	/* Two parsers that see different fields are how requests are smuggled. */
	if (h->tok_name.off != line.off || h->tok_name.len != name_len ||
	    h->tok_value.off != (uint32_t)(value - buf) || h->tok_value.len != (uint32_t)(end - value))
		return HEAD_F_TOKENIZER;

	f = &h->fields[h->nfields++];
	f->name_off = line.off;
	f->name_len = (uint16_t)name_len;
	f->value_off = h->tok_value.off;
	f->value_len = h->tok_value.len;
	f->id = (uint8_t)http_field_classify(s, name_len, &f->flags);
	return HEAD_F_OK;
}

bool head_tok_finish(struct http_head *h, const char *buf, uint8_t kind)
{
	uint8_t want = TOK_END | (kind == HTTP_BODY_LENGTH ? TOK_LENGTH : kind == HTTP_BODY_CHUNKED ? TOK_CHUNKED : 0);

	enum llhttp_errno e;

	h->tok_seen = 0;
	h->base = buf;
	e = llhttp_execute(&h->tok, "\r\n", 2);
	/* An Upgrade pauses llhttp; here it is only a field to strip (RFC 9110 7.8: a
	 * server may ignore it). */
	return (e == HPE_OK || e == HPE_PAUSED_UPGRADE) && h->tok_seen == want;
}

bool head_connection(struct http_head *h, const char *buf, bool *close, bool *keep_alive)
{
	unsigned int tokens = 0;

	*close = *keep_alive = false;
	for (uint16_t i = 0; i < h->nfields; i++) {
		const struct http_field *c = &h->fields[i];
		const char *p = buf + c->value_off, *end = p + c->value_len, *tok;
		size_t len;

		if (c->id != HTTP_F_CONNECTION)
			continue;
		while (http_token_next(&p, end, &tok, &len)) {
			if (!len)
				continue; /* RFC 9110 5.6.1.2: empty list elements are ignored */
			if (!http_token_ok(tok, len) || ++tokens > HTTP_CONNECTION_TOKENS_MAX)
				return false;
			if (http_slice_is(tok, len, "close"))
				*close = true;
			else if (http_slice_is(tok, len, "keep-alive"))
				*keep_alive = true;
			/* RFC 9110 7.6.1 removes what Connection names, but a client must
			 * not have Host, Authorization or our own fields removed: only
			 * names that nobody here knows. */
			for (uint16_t j = 0; j < h->nfields; j++) {
				struct http_field *f = &h->fields[j];

				if (f->id == HTTP_F_OTHER && f->name_len == len &&
				    !strncasecmp(buf + f->name_off, tok, len))
					f->flags |= HTTP_FIELD_HOP;
			}
		}
	}
	return true;
}

bool http_parse_content_length(const char *s, size_t len, uint64_t *out)
{
	uint64_t v = 0;

	/* RFC 9110 8.6: 1*DIGIT. Leading zeros: some parsers read octal. 19 digits
	 * fit 64 bits; 2^63 and up is refused as no sum of ours could hold it. */
	if (!len || len > 19 || (s[0] == '0' && len > 1))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	if (v >> 63)
		return false;
	*out = v;
	return true;
}

bool http_slice_is(const char *s, size_t len, const char *literal)
{
	return strlen(literal) == len && !strncasecmp(s, literal, len);
}
