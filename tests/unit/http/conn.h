/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A client connection without a socket: bytes go in in any pieces, a trace of
 * what the parsers made of them comes out. Buffers are exactly as large as what
 * has arrived, so that a sanitizer sees any look beyond it.
 *
 * Trace, per request: "METHOD path[?query] host framing flags <payload>|"; a
 * refusal ends it with "R<status>"; an end inside a head with "MORE", inside a
 * body with "CUT"; bytes after a closing request with "IGNORED". */
#ifndef TESTS_UNIT_HTTP_CONN_H
#define TESTS_UNIT_HTTP_CONN_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/body.h"
#include "http/http1.h"

enum { CONN_HEAD, CONN_BODY, CONN_DEAD, CONN_CLOSED };

struct conn {
	char *buf;
	size_t len;
	int state;
	struct http_limits limits;
	struct http_field fields[128];
	struct http_req req;
	struct http_body body;
	char *trace;
	size_t trace_len;
};

static void __attribute__((format(printf, 2, 3), unused)) trace_add(struct conn *c, const char *fmt, ...)
{
	va_list ap;
	int n;

	c->trace = realloc(c->trace, c->trace_len + 20000);
	va_start(ap, fmt);
	n = vsnprintf(c->trace + c->trace_len, 20000, fmt, ap);
	va_end(ap);
	assert_in_range(n, 0, 19999);
	c->trace_len += (size_t)n;
}

static void __attribute__((unused)) conn_init(struct conn *c, const struct http_limits *limits)
{
	memset(c, 0, sizeof(*c));
	c->limits = *limits;
	c->trace = calloc(1, 1);
	http_req_init(&c->req, &c->limits, c->fields, 128);
}

static void __attribute__((unused)) conn_drop(struct conn *c, size_t n)
{
	size_t rest = c->len - n;
	char *next = malloc(rest ? rest : 1);

	memcpy(next, c->buf + n, rest);
	free(c->buf);
	c->buf = next;
	c->len = rest;
}

static void __attribute__((unused)) conn_fault(struct conn *c, const struct http_fault *f)
{
	assert_non_null(f->code);
	assert_non_null(f->message);
	trace_add(c, "R%d", f->status);
	c->state = CONN_DEAD;
}

static void __attribute__((unused)) conn_head(struct conn *c)
{
	static const char *const kinds[] = { "none", "length", "chunked", "close" };
	struct http_req *r = &c->req;
	enum http_result res = http_req_parse(r, c->buf, c->len);

	if (res == HTTP_FAULT) {
		conn_fault(c, &r->fault);
		return;
	}
	if (res == HTTP_MORE)
		return;
	assert_int_equal(res, HTTP_DONE);
	assert_int_equal(http_req_parse(r, c->buf, c->len), HTTP_DONE);
	trace_add(c, "%s %.*s%s%.*s %.*s %s", http_method_text(r->method), (int)r->path.len,
		  http_at(c->buf, r->path), r->has_query ? "?" : "", (int)r->query.len, http_at(c->buf, r->query),
		  (int)r->host.len, http_at(c->buf, r->host), kinds[r->body]);
	if (r->body == HTTP_BODY_LENGTH)
		trace_add(c, ":%llu", (unsigned long long)r->content_length);
	trace_add(c, "%s%s <", r->keep_alive ? "" : " close", r->expect_continue ? " expect" : "");
	http_body_init(&c->body, r->body, r->content_length, c->limits.body_bytes);
	conn_drop(c, r->head_bytes);
	c->state = CONN_BODY;
}

static void __attribute__((unused)) conn_body(struct conn *c)
{
	struct http_span s;
	enum http_result res = http_body_step(&c->body, c->buf, c->len, &s);

	assert_true(s.consumed <= c->len);
	if (s.len)
		assert_true(s.off + s.len <= s.consumed);
	if (s.len < 1000)
		trace_add(c, "%.*s", (int)s.len, c->buf + s.off);
	conn_drop(c, s.consumed);
	if (res == HTTP_FAULT) {
		trace_add(c, ">");
		conn_fault(c, &c->body.fault);
	} else if (res == HTTP_DONE) {
		trace_add(c, ">|");
		c->state = c->req.keep_alive ? CONN_HEAD : CONN_CLOSED;
		http_req_init(&c->req, &c->limits, c->fields, 128);
	}
}

static void __attribute__((unused)) conn_feed(struct conn *c, const char *p, size_t n)
{
	char *next = malloc(c->len + n ? c->len + n : 1);

	memcpy(next, c->buf ? c->buf : "", c->len);
	memcpy(next + c->len, p, n);
	free(c->buf);
	c->buf = next;
	c->len += n;
	for (;;) {
		size_t before = c->len;
		int state = c->state;

		if (c->state == CONN_HEAD)
			conn_head(c);
		else if (c->state == CONN_BODY)
			conn_body(c);
		if (c->state == state && c->len == before)
			return;
	}
}

static void __attribute__((unused)) conn_eof(struct conn *c)
{
	if (c->state == CONN_HEAD && http_req_started(&c->req))
		trace_add(c, "MORE");
	if (c->state == CONN_BODY) {
		assert_int_equal(http_framing_eof(&c->body.framing), HTTP_FRAMING_ERROR);
		trace_add(c, ">CUT");
	}
	if (c->state == CONN_CLOSED && c->len)
		trace_add(c, "IGNORED");
	free(c->buf);
	c->buf = NULL;
}

/* The trace of bytes that arrive as [0,a) [a,b) [b,n). Free it. */
static char *__attribute__((unused)) conn_run(const struct http_limits *limits, const char *p, size_t n, size_t a, size_t b)
{
	struct conn *c = malloc(sizeof(*c));
	char *trace;

	conn_init(c, limits);
	if (a)
		conn_feed(c, p, a);
	if (b > a)
		conn_feed(c, p + a, b - a);
	if (n > b)
		conn_feed(c, p + b, n - b);
	conn_eof(c);
	trace = c->trace;
	free(c);
	return trace;
}

static char *__attribute__((unused)) conn_run_bytes(const struct http_limits *limits, const char *p, size_t n)
{
	struct conn *c = malloc(sizeof(*c));
	char *trace;

	conn_init(c, limits);
	for (size_t i = 0; i < n; i++)
		conn_feed(c, p + i, 1);
	conn_eof(c);
	trace = c->trace;
	free(c);
	return trace;
}

/* Whole, at every split offset, and byte by byte: one result (O4, O5). */
static void __attribute__((unused)) conn_check(const char *name, const struct http_limits *limits, const char *p, size_t n,
					       const char *want)
{
	for (size_t cut = 0; cut <= n; cut++) {
		char *got = conn_run(limits, p, n, cut, n);

		if (strcmp(got, want))
			fail_msg("%s, cut at %zu: got \"%s\", want \"%s\"", name, cut, got, want);
		free(got);
	}
	char *got = conn_run_bytes(limits, p, n);

	if (strcmp(got, want))
		fail_msg("%s, byte by byte: got \"%s\", want \"%s\"", name, got, want);
	free(got);
}
#endif
