/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Heads to backends and clients. */
#include "http/write.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

#include "http/http_internal.h"
#include "http/out.h"

void out_field(struct out *o, const char *name, size_t name_len, const char *value, size_t value_len)
{
	if (!http_token_ok(name, name_len) || !http_text_ok(value, value_len)) {
		if (!o->err)
			o->err = -EINVAL;
		return;
	}
	out_mem(o, name, name_len);
	out_mem(o, ": ", 2);
	out_mem(o, value, value_len);
	out_mem(o, "\r\n", 2);
}

void out_field_str(struct out *o, const char *name, const char *value)
{
	if (value)
		out_field(o, name, strlen(name), value, strlen(value));
}

void out_extra(struct out *o, const struct http_extra *extra, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (extra[i].value)
			out_field(o, extra[i].name, strlen(extra[i].name), extra[i].value, extra[i].value_len);
}

void out_framing(struct out *o, uint8_t kind, uint64_t content_length)
{
	if (kind == HTTP_BODY_CHUNKED) {
		out_str(o, "transfer-encoding: chunked\r\n");
	} else if (kind == HTTP_BODY_LENGTH) {
		out_str(o, "content-length: ");
		out_u64(o, content_length);
		out_mem(o, "\r\n", 2);
	}
}

static bool in_extra(const struct http_extra *extra, size_t n, const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (extra[i].value && http_slice_is(name, len, extra[i].name))
			return true;
	return false;
}

static bool is_dropped(uint8_t id, uint32_t drop)
{
	switch (id) {
	case HTTP_F_AUTHORIZATION:
	case HTTP_F_X_API_KEY:
		return drop & HTTP_DROP_AUTHORIZATION;
	case HTTP_F_COOKIE:
		return drop & HTTP_DROP_COOKIE;
	case HTTP_F_ENDPOINT_LOAD_METRICS:
		return drop & HTTP_DROP_ENDPOINT_LOAD_METRICS;
	default:
		return false;
	}
}

/* Does this field of the client go to the backend as it is? */
static bool request_field_passes(const struct http_field *f, const struct http_req_out *q)
{
	if ((f->flags & HTTP_FIELD_HOP) || is_dropped(f->id, q->drop))
		return false;
	switch (f->id) {
	case HTTP_F_HOST:
	case HTTP_F_CONTENT_LENGTH:
	case HTTP_F_EXPECT:
	case HTTP_F_X_REQUEST_ID:
	case HTTP_F_X_GATEWAY:
	case HTTP_F_X_KVSTEER:
	case HTTP_F_X_KVSTEER_PRIORITY:
	case HTTP_F_X_FORWARDED_FOR: /* rewritten */
		return false;
	case HTTP_F_FORWARDED:
	case HTTP_F_X_FORWARDED_HOST:
	case HTTP_F_X_FORWARDED_PROTO:
	case HTTP_F_X_REAL_IP:
		return q->trusted; /* anybody can claim to be anybody */
	default:
		return true;
	}
}

static void write_forwarded_for(struct out *o, const struct http_req *r, const char *buf, const struct http_req_out *q)
{
	bool first = true;

	if (!q->peer_address)
		return;
	if (!http_text_ok(q->peer_address, strlen(q->peer_address))) {
		o->err = o->err ? o->err : -EINVAL;
		return;
	}
	out_str(o, "x-forwarded-for: ");
	/* Several lines are one list (RFC 9110 5.3). */
	for (uint16_t i = 0; q->trusted && i < r->nfields; i++) {
		const struct http_field *f = &r->fields[i];

		if (f->id != HTTP_F_X_FORWARDED_FOR || !f->value_len)
			continue;
		if (!first)
			out_mem(o, ", ", 2);
		out_mem(o, buf + f->value_off, f->value_len);
		first = false;
	}
	if (!first)
		out_mem(o, ", ", 2);
	out_str(o, q->peer_address);
	out_mem(o, "\r\n", 2);
}

/* The path of a backend's URL comes from the configuration: checked all the same. */
static bool prefix_ok(const char *s)
{
	for (; *s; s++)
		if (*s <= 0x20 || *s >= 0x7f)
			return false;
	return true;
}

ssize_t http_write_request(char *out, size_t cap, const struct http_req *r, const char *buf,
			   const struct http_req_out *q)
{
	struct out o = { .p = out, .cap = cap };
	bool wants_body = r->method == HTTP_M_POST || r->method == HTTP_M_PUT || r->method == HTTP_M_PATCH;

	out_str(&o, http_method_text((enum http_method)r->method));
	out_mem(&o, " ", 1);
	if (q->path_prefix && !r->asterisk) {
		if (!prefix_ok(q->path_prefix))
			return -EINVAL;
		out_str(&o, q->path_prefix);
	}
	out_mem(&o, buf + r->path.off, r->path.len);
	if (r->has_query) {
		out_mem(&o, "?", 1);
		out_mem(&o, buf + r->query.off, r->query.len);
	}
	out_str(&o, " HTTP/1.1\r\n");
	out_field_str(&o, "host", q->host);
	for (uint16_t i = 0; i < r->nfields; i++) {
		const struct http_field *f = &r->fields[i];

		if (request_field_passes(f, q) && !in_extra(q->extra, q->nextra, buf + f->name_off, f->name_len))
			out_field(&o, buf + f->name_off, f->name_len, buf + f->value_off, f->value_len);
	}
	write_forwarded_for(&o, r, buf, q);
	out_field_str(&o, "x-request-id", q->request_id);
	out_extra(&o, q->extra, q->nextra);
	if (q->close)
		out_str(&o, "connection: close\r\n");
	/* RFC 9110 8.6: a method that expects content says so even if there is none. */
	out_framing(&o, q->body == HTTP_BODY_NONE && wants_body ? HTTP_BODY_LENGTH : q->body,
		    q->body == HTTP_BODY_LENGTH ? q->content_length : 0);
	out_mem(&o, "\r\n", 2);
	return out_done(&o);
}

void http_resp_plan(struct http_resp_out *o, const struct http_resp *resp, const struct http_req *req, bool want_close)
{
	o->http10 = !req->version_minor;
	o->body = resp->body;
	o->content_length = resp->content_length;
	o->close = want_close || !req->keep_alive;
	/* RFC 9110 8.6: 204 has neither; HEAD and 304 may tell what GET would. */
	o->announce_length = resp->body == HTTP_BODY_NONE && resp->has_content_length && resp->status != 204;
	o->announce_chunked = resp->body == HTTP_BODY_NONE && resp->has_chunked && !o->http10 && resp->status != 204;
	if (resp->body == HTTP_BODY_UNTIL_CLOSE && !o->http10)
		o->body = HTTP_BODY_CHUNKED; /* so that a cut is visible to the client */
	if (o->http10 && (resp->body == HTTP_BODY_UNTIL_CLOSE || resp->body == HTTP_BODY_CHUNKED)) {
		o->body = HTTP_BODY_UNTIL_CLOSE;
		o->close = true;
	}
}

static bool response_field_passes(const struct http_field *f, const struct http_resp_out *q)
{
	if ((f->flags & HTTP_FIELD_HOP) || is_dropped(f->id, q->drop))
		return false;
	switch (f->id) {
	case HTTP_F_CONTENT_LENGTH:
	case HTTP_F_X_KVSTEER:
	case HTTP_F_X_KVSTEER_PRIORITY:
		return false;
	default:
		return true;
	}
}

static void write_status_line(struct out *o, const struct http_resp *r, const char *buf)
{
	const char *reason = http_reason(r->status);

	out_str(o, "HTTP/1.1 ");
	out_u64(o, r->status);
	out_mem(o, " ", 1);
	if (strcmp(reason, "Unknown"))
		out_str(o, reason);
	else if (http_text_ok(buf + r->reason.off, r->reason.len))
		out_mem(o, buf + r->reason.off, r->reason.len);
	out_mem(o, "\r\n", 2);
}

static void write_connection(struct out *o, bool close, bool http10)
{
	if (close)
		out_str(o, "connection: close\r\n");
	else if (http10) /* RFC 9112 9.3: a 1.0 client must be told */
		out_str(o, "connection: keep-alive\r\n");
}

ssize_t http_write_response(char *out, size_t cap, const struct http_resp *r, const char *buf,
			    const struct http_resp_out *q)
{
	struct out o = { .p = out, .cap = cap };
	uint8_t framing = q->body;

	write_status_line(&o, r, buf);
	for (uint16_t i = 0; i < r->nfields; i++) {
		const struct http_field *f = &r->fields[i];

		if (response_field_passes(f, q) && !in_extra(q->extra, q->nextra, buf + f->name_off, f->name_len))
			out_field(&o, buf + f->name_off, f->name_len, buf + f->value_off, f->value_len);
	}
	if (!http_field_first(r->fields, r->nfields, HTTP_F_DATE))
		out_field_str(&o, "date", q->date);
	out_extra(&o, q->extra, q->nextra);
	write_connection(&o, q->close, q->http10);
	if (framing == HTTP_BODY_NONE)
		framing = q->announce_length ? HTTP_BODY_LENGTH : q->announce_chunked ? HTTP_BODY_CHUNKED : framing;
	if (q->http10 && framing == HTTP_BODY_CHUNKED)
		return -EINVAL; /* RFC 9112 6.1: never to a 1.0 client */
	out_framing(&o, framing, q->content_length);
	out_mem(&o, "\r\n", 2);
	return out_done(&o);
}

ssize_t http_write_interim(char *out, size_t cap, const struct http_resp *r, const char *buf)
{
	static const struct http_resp_out none;
	struct out o = { .p = out, .cap = cap };

	write_status_line(&o, r, buf);
	for (uint16_t i = 0; i < r->nfields; i++) {
		const struct http_field *f = &r->fields[i];

		if (response_field_passes(f, &none))
			out_field(&o, buf + f->name_off, f->name_len, buf + f->value_off, f->value_len);
	}
	out_mem(&o, "\r\n", 2);
	return out_done(&o);
}

void http_format_date(char out[HTTP_DATE_MAX], int64_t unix_s)
{
	static const char *const days[] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	time_t t = (time_t)unix_s;
	struct tm tm;

	/* not strftime: %a and %b follow the locale */
	if (!gmtime_r(&t, &tm) || tm.tm_year < -900 || tm.tm_year > 8099) {
		t = 0;
		gmtime_r(&t, &tm);
	}
	snprintf(out, HTTP_DATE_MAX, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[(unsigned int)tm.tm_wday % 7],
		 (unsigned int)tm.tm_mday % 100, months[(unsigned int)tm.tm_mon % 12],
		 (unsigned int)(tm.tm_year + 1900) % 10000, (unsigned int)tm.tm_hour % 100,
		 (unsigned int)tm.tm_min % 100, (unsigned int)tm.tm_sec % 100);
}

bool http_request_id_ok(const char *s, size_t len)
{
	if (!len || len > 128)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i], lower = c | 0x20;

		if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') && !(c && strchr("-._:+/=@", c)))
			return false;
	}
	return true;
}
