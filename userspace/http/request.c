/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Request heads: the rules of RFC 9112 and 9110 over the line scanner. Where the
 * RFC leaves a choice between repairing and refusing, a request is refused. */
#include <string.h>

#include "http/http_internal.h"

#define FAULT(r, status_, code_, message_) \
	((r)->fault = (struct http_fault){ (status_), (code_), (message_) }, false)
#define BAD(r, message_) FAULT(r, 400, "bad_request", message_)

void http_req_init(struct http_req *r, const struct http_limits *limits, struct http_field *fields, uint16_t cap)
{
	memset(r, 0, sizeof(*r));
	head_init(&r->head, HTTP_REQUEST, limits, fields, cap);
	r->fields = fields;
}

bool http_req_started(const struct http_req *r)
{
	return r->head.phase >= HEAD_P_FIELDS || r->head.scanned > r->head.line || r->head.result != HTTP_MORE;
}

/* RFC 9112 2.3: major version 1, any minor; 1.2 and up are served as 1.1. */
static bool parse_version(struct http_req *r, const char *v, size_t len)
{
	if (len != HTTP_VERSION_BYTES || memcmp(v, "HTTP/", 5) || v[5] < '0' || v[5] > '9' || v[6] != '.' ||
	    v[7] < '0' || v[7] > '9')
		return BAD(r, "malformed HTTP version");
	if (v[5] != '1')
		return FAULT(r, 505, "http_version", "HTTP version not supported");
	r->version_minor = v[7] == '0' ? 0 : 1;
	return true;
}

static bool parse_request_line(struct http_req *r, char *buf, struct http_slice line)
{
	const char *s = buf + line.off, *end = s + line.len;
	const char *sp = memchr(s, ' ', line.len);
	const char *version = sp ? memrchr(sp, ' ', (size_t)(end - sp)) : NULL;
	struct http_slice target;
	struct target t;

	/* RFC 9112 3: exactly one SP on each side of the target. */
	if (!sp || version == sp || sp == s || sp + 1 == version)
		return BAD(r, "malformed request line");
	if (sp - s > HTTP_METHOD_BYTES_MAX || !http_token_ok(s, (size_t)(sp - s)))
		return BAD(r, "malformed method");
	target = (struct http_slice){ (uint32_t)(sp + 1 - buf), (uint32_t)(version - sp - 1) };
	version++;
	if (!parse_version(r, version, (size_t)(end - version)))
		return false;
	r->method = (uint8_t)http_method_lookup(s, (size_t)(sp - s));
	if (target.len > r->head.limits.target_bytes)
		return FAULT(r, 414, "uri_too_long", "request target too long");
	/* RFC 9112 3: whitespace inside the target is an attack or a bug. */
	if (memchr(buf + target.off, ' ', target.len) || memchr(buf + target.off, '\t', target.len))
		return BAD(r, "whitespace in the request target");
	if (r->method == HTTP_M_NONE)
		return FAULT(r, 405, "method_not_allowed", "method not allowed");
	if (!head_tok(&r->head, buf, s, (size_t)(version - s)) ||
	    !head_tok(&r->head, buf, r->version_minor ? "HTTP/1.1\r\n" : "HTTP/1.0\r\n", HTTP_VERSION_BYTES + 2))
		return BAD(r, "malformed request line");

	t = target_parse(buf, target, (enum http_method)r->method);
	if (t.form == TARGET_BAD)
		return BAD(r, "malformed request target");
	r->asterisk = t.form == TARGET_ASTERISK;
	r->path = t.path;
	r->query = t.query;
	r->has_query = t.has_query;
	r->host = t.authority;
	return true;
}

/* RFC 9112 6.1 and 6.3. One coding is understood, and it must stand alone. */
static bool check_transfer_encoding(struct http_req *r, const char *v, size_t len)
{
	const char *p = v, *end = v + len, *tok;
	unsigned int chunked = 0, other = 0;
	bool last_chunked = false, malformed = !len || end[-1] == ',';
	size_t n;

	if (!r->version_minor)
		return BAD(r, "transfer-encoding in an HTTP/1.0 request");
	while (http_token_next(&p, end, &tok, &n)) {
		if (!http_token_ok(tok, n))
			malformed = true;
		last_chunked = http_slice_is(tok, n, "chunked");
		if (last_chunked)
			chunked++;
		else
			other++;
	}
	if (malformed)
		return BAD(r, "malformed transfer-encoding");
	if (chunked == 1 && !other) {
		r->body = HTTP_BODY_CHUNKED;
		return true;
	}
	if (last_chunked && chunked == 1)
		return FAULT(r, 501, "not_implemented", "unknown coding in transfer-encoding");
	return BAD(r, "transfer-encoding: chunked must be the last coding, once");
}

/* What a second line of the field would mean is anybody's guess, and the router
 * decides by the first: refused, with this text. NULL: it may stand more than once. */
static const char *repeated(uint8_t id)
{
	switch (id) {
	case HTTP_F_HOST:
		return "repeated host";
	case HTTP_F_CONTENT_LENGTH:
		return "repeated content-length";
	case HTTP_F_TRANSFER_ENCODING:
		return "repeated transfer-encoding";
	case HTTP_F_CONTENT_TYPE:
		return "repeated content-type";
	case HTTP_F_AUTHORIZATION:
		return "repeated authorization";
	case HTTP_F_PROXY_AUTHORIZATION:
		return "repeated proxy-authorization";
	case HTTP_F_X_API_KEY:
		return "repeated x-api-key";
	case HTTP_F_EXPECT:
		return "repeated expect";
	case HTTP_F_X_KVSTEER_PRIORITY:
		return "repeated x-kvsteer-priority";
	case HTTP_F_X_AMZN_PREFIX_AWARE_ID:
		return "repeated x-amzn-sagemaker-prefix-aware-id";
	case HTTP_F_X_AMZN_INFERENCE_COMPONENT:
		return "repeated x-amzn-sagemaker-inference-component";
	default:
		return NULL;
	}
}

static bool check_field(struct http_req *r, const char *buf, const struct http_field *f)
{
	struct http_head *h = &r->head;
	const char *v = buf + f->value_off;

	if (f->id == HTTP_F_OTHER)
		return true;
	if (!head_first(h, f->id) && repeated(f->id))
		return BAD(r, repeated(f->id));
	switch (f->id) {
	case HTTP_F_HOST:
		/* RFC 9112 3.2: invalid Host is 400, even if absolute-form wins over it. */
		if (!http_authority_ok(v, f->value_len))
			return BAD(r, "invalid host");
		if (!r->host.len) /* 3.2.2 */
			r->host = http_field_value(f);
		return true;
	case HTTP_F_CONTENT_LENGTH:
		if (head_has(h, HTTP_F_TRANSFER_ENCODING))
			return BAD(r, "both content-length and transfer-encoding");
		if (!http_parse_content_length(v, f->value_len, &r->content_length))
			return BAD(r, "invalid content-length");
		h->content_length = r->content_length;
		r->body = HTTP_BODY_LENGTH;
		return true;
	case HTTP_F_TRANSFER_ENCODING:
		if (head_has(h, HTTP_F_CONTENT_LENGTH))
			return BAD(r, "both content-length and transfer-encoding");
		return check_transfer_encoding(r, v, f->value_len);
	case HTTP_F_EXPECT:
		if (!r->version_minor) /* RFC 9110 10.1.1: ignored from 1.0 clients */
			return true;
		if (!http_slice_is(v, f->value_len, "100-continue"))
			return FAULT(r, 417, "expectation_failed", "unknown expectation in expect");
		r->expect_continue = true;
		return true;
	default:
		return true;
	}
}

/* The tokenizer did not take the line: which field was it? */
static bool bad_field(struct http_req *r, const char *buf, struct http_slice line)
{
	const char *s = buf + line.off, *colon = memchr(s, ':', line.len);
	enum http_field_id id = colon ? http_field_lookup(s, (size_t)(colon - s)) : HTTP_F_OTHER;

	if (id != HTTP_F_OTHER && head_has(&r->head, id) && repeated((uint8_t)id))
		return BAD(r, repeated((uint8_t)id));
	if (id == HTTP_F_CONTENT_LENGTH)
		return BAD(r, "invalid content-length");
	if (id == HTTP_F_TRANSFER_ENCODING)
		return BAD(r, "malformed transfer-encoding");
	if (id == HTTP_F_HOST)
		return BAD(r, "invalid host");
	return BAD(r, "malformed header field");
}

static bool parse_field(struct http_req *r, const char *buf, struct http_slice line)
{
	switch (head_add_field(&r->head, buf, line)) {
	case HEAD_F_OK:
		r->nfields = r->head.nfields;
		return check_field(r, buf, &r->fields[r->nfields - 1]);
	case HEAD_F_TOO_MANY:
		return FAULT(r, 431, "header_too_large", "too many header fields (limits.headers)");
	case HEAD_F_FOLD:
		return BAD(r, "header line begins with whitespace");
	case HEAD_F_COLON:
		return BAD(r, "header line without a colon");
	case HEAD_F_NAME:
		return BAD(r, "invalid header name");
	default:
		return bad_field(r, buf, line);
	}
}

static bool finish(struct http_req *r, const char *buf)
{
	bool close, keep_alive;

	if (r->version_minor && !head_has(&r->head, HTTP_F_HOST))
		return BAD(r, "missing host");
	if (!head_connection(&r->head, buf, &close, &keep_alive))
		return BAD(r, "malformed connection field");
	r->keep_alive = !close && (r->version_minor || keep_alive);
	if (!head_tok_finish(&r->head, buf, r->body))
		return BAD(r, "malformed header");
	if (r->body == HTTP_BODY_NONE || (r->body == HTTP_BODY_LENGTH && !r->content_length))
		r->expect_continue = false;
	if (r->head.limits.body_bytes && r->content_length > r->head.limits.body_bytes)
		return FAULT(r, 413, "body_too_large", "request body too large (limits.body)");
	return true;
}

static bool take_line(struct http_req *r, char *buf, struct http_slice line)
{
	struct http_head *h = &r->head;

	if (h->phase == HEAD_P_FIELDS) {
		if (line.len)
			return parse_field(r, buf, line);
		h->phase = HEAD_P_END;
		r->head_bytes = h->scanned;
		return finish(r, buf);
	}
	if (!line.len) {
		/* RFC 9112 2.2: an empty line before the request line is ignored, one. */
		if (h->phase != HEAD_P_START)
			return BAD(r, "empty lines before the request");
		h->phase = HEAD_P_START_AGAIN;
		return true;
	}
	h->phase = HEAD_P_FIELDS;
	return parse_request_line(r, buf, line);
}

static bool scan_fault(struct http_req *r, enum head_scan event, const char *buf, size_t len)
{
	struct http_head *h = &r->head;

	switch (event) {
	case HEAD_BARE_CR:
		return BAD(r, "bare CR");
	case HEAD_BARE_LF:
		return BAD(r, "bare LF");
	case HEAD_CTL:
		return BAD(r, "control character");
	default:
		break;
	}
	if (event == HEAD_MAX)
		return FAULT(r, 431, "header_too_large", "request header too large (limits.head)");
	if (h->phase == HEAD_P_FIELDS)
		return FAULT(r, 431, "header_too_large", "a line of the request header is too long");
	/* A start line that has no method within bounds has no target to be too long. */
	len -= h->line;
	if (!memchr(buf + h->line, ' ', len < HTTP_METHOD_BYTES_MAX + 1 ? len : HTTP_METHOD_BYTES_MAX + 1))
		return BAD(r, "malformed method");
	return FAULT(r, 414, "uri_too_long", "request target too long");
}

enum http_result http_req_parse(struct http_req *r, char *buf, size_t len)
{
	struct http_head *h = &r->head;
	struct http_slice line;

	while (h->result == HTTP_MORE) {
		enum head_scan event = head_scan(h, buf, len, &line);
		bool ok;

		if (event == HEAD_MORE)
			return HTTP_MORE;
		ok = event == HEAD_LINE ? take_line(r, buf, line) : scan_fault(r, event, buf, len);
		if (!ok)
			h->result = (int8_t)HTTP_FAULT;
		else if (h->phase == HEAD_P_END)
			h->result = HTTP_DONE;
	}
	return (enum http_result)h->result;
}
