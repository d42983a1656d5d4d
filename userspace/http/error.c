/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Answers that the router makes itself, in the shape of the API that the client
 * speaks, so that its SDK raises the right exception. */
#include "base/utf8.h"
#include "http/out.h"
#include "http/write.h"

/* "type" of the error object by status. */
static const char *error_type(uint16_t status, enum http_flavour flavour)
{
	bool anthropic = flavour == HTTP_FLAVOUR_ANTHROPIC;

	switch (status) {
	case 401:
		return "authentication_error";
	case 403:
		return "permission_error";
	case 404:
		return anthropic ? "not_found_error" : "invalid_request_error";
	case 413:
		return anthropic ? "request_too_large" : "invalid_request_error";
	case 429:
		return "rate_limit_error";
	case 503:
		return anthropic ? "overloaded_error" : "server_error";
	case 504:
		return anthropic ? "timeout_error" : "server_error";
	default:
		if (status >= 500)
			return anthropic ? "api_error" : "server_error";
		return "invalid_request_error";
	}
}

/* A JSON string; NULL is null. The text may hold anything, e.g. a model name
 * that a client made up: bad UTF-8 becomes U+FFFD. */
static void out_json(struct out *o, const char *text)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *s = (const unsigned char *)text;

	if (!s) {
		out_str(o, "null");
		return;
	}
	out_mem(o, "\"", 1);
	while (*s) {
		size_t n = utf8_sequence((const char *)s, strnlen((const char *)s, 4), NULL);

		if (*s == '"' || *s == '\\') {
			char esc[2] = { '\\', (char)*s };

			out_mem(o, esc, 2);
		} else if (*s < 0x20 || *s == 0x7f) {
			char esc[6] = { '\\', 'u', '0', '0', hex[*s >> 4], hex[*s & 15] };

			out_mem(o, esc, 6);
		} else if (!n) {
			out_str(o, "\\ufffd");
		} else {
			out_mem(o, (const char *)s, n);
		}
		s += n ? n : 1;
	}
	out_mem(o, "\"", 1);
}

ssize_t http_write_error_json(char *out, size_t cap, const struct http_error_out *e)
{
	enum http_flavour flavour = (enum http_flavour)e->flavour;
	struct out o = { .p = out, .cap = cap };

	out_str(&o, flavour == HTTP_FLAVOUR_ANTHROPIC ? "{\"type\":\"error\",\"error\":{\"type\":" : "{\"error\":{\"message\":");
	if (flavour == HTTP_FLAVOUR_ANTHROPIC) {
		out_json(&o, error_type(e->status, flavour));
		out_str(&o, ",\"message\":");
		out_json(&o, e->message ? e->message : "");
	} else {
		out_json(&o, e->message ? e->message : "");
		out_str(&o, ",\"type\":");
		out_json(&o, error_type(e->status, flavour));
		out_str(&o, ",\"param\":");
		out_json(&o, e->param);
	}
	out_str(&o, ",\"code\":");
	out_json(&o, e->code);
	out_str(&o, "}");
	if (flavour == HTTP_FLAVOUR_ANTHROPIC && e->request_id) {
		out_str(&o, ",\"request_id\":");
		out_json(&o, e->request_id);
	}
	out_str(&o, "}");
	return out_done(&o);
}

ssize_t http_write_error(char *out, size_t cap, const struct http_error_out *e)
{
	struct out o = { .p = out, .cap = cap };
	size_t length_at;
	ssize_t body;

	out_str(&o, "HTTP/1.1 ");
	out_u64(&o, e->status);
	out_mem(&o, " ", 1);
	out_str(&o, http_reason(e->status));
	out_mem(&o, "\r\n", 2);
	out_str(&o, "content-type: application/json\r\n");
	out_field_str(&o, "date", e->date);
	out_field_str(&o, "x-request-id", e->request_id);
	if (e->status == 405) /* RFC 9110 15.5.6 */
		out_field_str(&o, "allow", e->allow ? e->allow : "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH");
	if (e->retry_after_s) {
		out_str(&o, "retry-after: ");
		out_u64(&o, e->retry_after_s);
		out_mem(&o, "\r\n", 2);
	}
	out_extra(&o, e->extra, e->nextra);
	if (e->close)
		out_str(&o, "connection: close\r\n");
	else if (e->http10)
		out_str(&o, "connection: keep-alive\r\n");
	out_str(&o, "content-length: ");
	length_at = o.len;
	out_str(&o, "0000000000\r\n\r\n"); /* room for any 32-bit length */
	if (o.err)
		return o.err;
	body = http_write_error_json(out + o.len, cap - o.len, e);
	if (body < 0)
		return body;

	/* Now that the length is known, write it without leading zeros and close the gap. */
	struct out digits = { .p = out + length_at, .cap = 10 };
	size_t body_at = o.len, head_end;

	out_u64(&digits, (uint64_t)body);
	head_end = length_at + digits.len;
	memcpy(out + head_end, "\r\n\r\n", 4);
	head_end += 4;
	if (e->head_only)
		return (ssize_t)head_end;
	memmove(out + head_end, out + body_at, (size_t)body);
	return (ssize_t)head_end + body;
}
