/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Response heads of backends: as strict as requests. A broken one becomes 502
 * and costs the backend its connection, never the next client its answer. */
#include <string.h>
#include <strings.h>

#include "http/http_internal.h"

#define BAD(r, message_) ((r)->fault = (struct http_fault){ 502, "backend_bad_response", (message_) }, false)

void http_resp_init(struct http_resp *r, const struct http_limits *limits, struct http_field *fields, uint16_t cap,
		    enum http_method method)
{
	memset(r, 0, sizeof(*r));
	head_init(&r->head, HTTP_RESPONSE, limits, fields, cap);
	r->fields = fields;
	r->head_request = method == HTTP_M_HEAD;
	r->keep_alive_max = UINT32_MAX;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* RFC 9112 4: HTTP-version SP 3DIGIT SP [reason]; the last SP may be missing,
 * engines forget it. */
static bool parse_status_line(struct http_resp *r, const char *buf, struct http_slice line)
{
	const char *s = buf + line.off;
	bool v11;

	if (line.len < HTTP_VERSION_BYTES + 4 || memcmp(s, "HTTP/1.", 7) || !is_digit(s[7]) || s[8] != ' ' ||
	    !is_digit(s[9]) || !is_digit(s[10]) || !is_digit(s[11]) || (line.len > 12 && s[12] != ' '))
		return BAD(r, "malformed status line");
	v11 = s[7] != '0';
	r->version_minor = v11;
	r->status = (uint16_t)((s[9] - '0') * 100 + (s[10] - '0') * 10 + (s[11] - '0'));
	if (r->status < 100 || r->status > 599) /* RFC 9110 15 */
		return BAD(r, "invalid status code");
	if (line.len > 13)
		r->reason = (struct http_slice){ line.off + 13, line.len - 13 };
	if (!head_tok(&r->head, buf, v11 ? "HTTP/1.1" : "HTTP/1.0", HTTP_VERSION_BYTES) ||
	    !head_tok(&r->head, buf, s + HTTP_VERSION_BYTES, line.len - HTTP_VERSION_BYTES) ||
	    !head_tok(&r->head, buf, "\r\n", 2))
		return BAD(r, "malformed status line");
	return true;
}

/* Keep-Alive: timeout=5, max=100 (RFC 2068 19.7.1; a hint). Odd values are no hint. */
static void parse_keep_alive(struct http_resp *r, const char *v, size_t len)
{
	const char *p = v, *end = v + len, *tok;
	size_t n;

	while (http_token_next(&p, end, &tok, &n)) {
		uint32_t value = 0;
		size_t name = 0, i;

		while (name < n && tok[name] != '=')
			name++;
		if (n - name < 2 || n - name > 9)
			continue;
		for (i = name + 1; i < n && is_digit(tok[i]); i++)
			value = value * 10 + (uint32_t)(tok[i] - '0');
		if (i < n)
			continue;
		if (http_slice_is(tok, name, "timeout"))
			r->keep_alive_timeout_s = value;
		else if (http_slice_is(tok, name, "max"))
			r->keep_alive_max = value;
	}
}

static bool is_event_stream(const char *v, size_t len)
{
	static const char type[] = "text/event-stream";
	const size_t n = sizeof(type) - 1;

	return len >= n && !strncasecmp(v, type, n) && (len == n || v[n] == ';' || v[n] == ' ' || v[n] == '\t');
}

static bool check_field(struct http_resp *r, const char *buf, const struct http_field *f)
{
	struct http_head *h = &r->head;
	const char *v = buf + f->value_off;

	if (f->id == HTTP_F_OTHER)
		return true;
	switch (f->id) {
	case HTTP_F_CONTENT_LENGTH:
		if (!head_first(h, f->id))
			return BAD(r, "repeated content-length");
		if (r->has_chunked)
			return BAD(r, "both content-length and transfer-encoding");
		if (!http_parse_content_length(v, f->value_len, &r->content_length))
			return BAD(r, "invalid content-length");
		h->content_length = r->content_length;
		r->has_content_length = true;
		return true;
	case HTTP_F_TRANSFER_ENCODING:
		if (!head_first(h, f->id))
			return BAD(r, "repeated transfer-encoding");
		if (!r->version_minor) /* RFC 9112 6.1: faulty framing */
			return BAD(r, "transfer-encoding in an HTTP/1.0 response");
		if (r->has_content_length)
			return BAD(r, "both content-length and transfer-encoding");
		if (!http_slice_is(v, f->value_len, "chunked"))
			return BAD(r, "unknown transfer coding");
		r->has_chunked = true;
		return true;
	case HTTP_F_KEEP_ALIVE:
		parse_keep_alive(r, v, f->value_len);
		return true;
	case HTTP_F_CONTENT_TYPE:
		if (!head_first(h, f->id))
			return BAD(r, "repeated content-type");
		r->event_stream = is_event_stream(v, f->value_len);
		return true;
	default:
		return true;
	}
}

static bool parse_field(struct http_resp *r, const char *buf, struct http_slice line)
{
	switch (head_add_field(&r->head, buf, line)) {
	case HEAD_F_OK:
		r->nfields = r->head.nfields;
		return check_field(r, buf, &r->fields[r->nfields - 1]);
	case HEAD_F_TOO_MANY:
		return BAD(r, "too many header fields");
	case HEAD_F_FOLD: /* RFC 9112 5.2 lets a proxy refuse it with 502 */
		return BAD(r, "header line begins with whitespace");
	case HEAD_F_COLON:
		return BAD(r, "header line without a colon");
	case HEAD_F_NAME:
		return BAD(r, "invalid header name");
	default:
		return BAD(r, "malformed header field");
	}
}

static bool finish(struct http_resp *r, const char *buf)
{
	uint8_t announced = r->has_chunked	  ? HTTP_BODY_CHUNKED :
			    r->has_content_length ? HTTP_BODY_LENGTH :
						    HTTP_BODY_NONE;
	bool close, keep_alive;

	if (!head_connection(&r->head, buf, &close, &keep_alive))
		return BAD(r, "malformed connection field");
	if (!head_tok_finish(&r->head, buf, announced))
		return BAD(r, "malformed header");
	if (r->status == 101) /* RFC 9110 7.8: nobody asked to switch */
		return BAD(r, "unsolicited protocol switch");
	/* RFC 9112 6.3, in its order */
	if (r->head_request || r->status < 200 || r->status == 204 || r->status == 304)
		r->body = HTTP_BODY_NONE;
	else if (announced != HTTP_BODY_NONE)
		r->body = announced;
	else
		r->body = HTTP_BODY_UNTIL_CLOSE;
	r->keep_alive = !close && (r->version_minor || keep_alive) && r->body != HTTP_BODY_UNTIL_CLOSE &&
			r->keep_alive_max != 0;
	return true;
}

static bool take_line(struct http_resp *r, const char *buf, struct http_slice line)
{
	struct http_head *h = &r->head;

	if (h->phase == HEAD_P_START) {
		h->phase = HEAD_P_FIELDS;
		return parse_status_line(r, buf, line);
	}
	if (line.len)
		return parse_field(r, buf, line);
	h->phase = HEAD_P_END;
	r->head_bytes = h->scanned;
	return finish(r, buf);
}

enum http_result http_resp_parse(struct http_resp *r, const char *buf, size_t len)
{
	struct http_head *h = &r->head;
	struct http_slice line;

	while (h->result == HTTP_MORE) {
		bool ok;

		switch (head_scan(h, buf, len, &line)) {
		case HEAD_MORE:
			return HTTP_MORE;
		case HEAD_LINE:
			ok = take_line(r, buf, line);
			break;
		case HEAD_BARE_CR:
			ok = BAD(r, "bare CR");
			break;
		case HEAD_BARE_LF:
			ok = BAD(r, "bare LF");
			break;
		case HEAD_CTL:
			ok = BAD(r, "control character");
			break;
		default:
			ok = BAD(r, "response header too large");
			break;
		}
		if (!ok)
			h->result = (int8_t)HTTP_FAULT;
		else if (h->phase == HEAD_P_END)
			h->result = r->status < 200 ? HTTP_INTERIM : HTTP_DONE;
	}
	return (enum http_result)h->result;
}
