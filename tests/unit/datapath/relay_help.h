/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A client that takes what the test lets it take, and bodies in every framing. */
#ifndef KVSTEER_TESTS_DATAPATH_RELAY_HELP_H
#define KVSTEER_TESTS_DATAPATH_RELAY_HELP_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "datapath/datapath.h"
#include "http/body.h"

/* ---- a client that takes what the test lets it take ---- */

struct taker {
	struct conn conn;
	size_t per_send;   /* bytes it takes of one send at most; 0: none (-EAGAIN) */
	bool every_second; /* every other send is refused with -EAGAIN */
	size_t gone_after; /* bytes, then -EPIPE; 0: never */
	unsigned sends;
	size_t len;
	uint8_t got[1 << 16];
};

static inline ssize_t taker_send(struct conn *c, const struct iovec *v, int n)
{
	struct taker *t = c->priv;
	size_t may = t->per_send, took = 0;

	assert_true(n > 0);
	if (t->gone_after && t->len >= t->gone_after)
		return -EPIPE;
	if (!may || (t->every_second && ++t->sends % 2))
		return -EAGAIN;
	for (int i = 0; i < n && took < may; i++) {
		size_t len = v[i].iov_len < may - took ? v[i].iov_len : may - took;

		assert_true(t->len + len <= sizeof(t->got));
		memcpy(t->got + t->len, v[i].iov_base, len);
		t->len += len;
		took += len;
	}
	return took ? (ssize_t)took : -EAGAIN;
}

static const struct conn_ops taker_ops = { .send = taker_send };

static inline struct taker *taker_new(size_t per_send)
{
	struct taker *t = calloc(1, sizeof(*t));

	t->per_send = per_send;
	t->conn = (struct conn){ .fd = -1, .ops = &taker_ops, .priv = t };
	return t;
}

/* Flushes until nothing waits; every call must get on sooner or later. */
static inline void drain(struct flow *f)
{
	for (int i = 0; i < 1 << 20; i++) {
		enum flow_result r = flow_flush(f);

		if (r == FLOW_MORE)
			return;
		assert_int_equal(r, FLOW_BLOCKED);
	}
	fail_msg("%u bytes never went out", f->out.len);
}

/* ---- bodies ---- */

#define TEXT(s) (s), sizeof(s) - 1

static const struct body_case {
	const char *name;
	uint8_t kind;
	const char *wire;
	size_t wire_len;
	const char *payload;
	size_t payload_len;
} bodies[] = {
	{ "length", HTTP_BODY_LENGTH, TEXT("0123456789abcdef"), TEXT("0123456789abcdef") },
	{ "one byte", HTTP_BODY_LENGTH, TEXT("x"), TEXT("x") },
	{ "chunked", HTTP_BODY_CHUNKED, TEXT("5\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n"), TEXT("hello 0123456789") },
	{ "chunked, empty", HTTP_BODY_CHUNKED, TEXT("0\r\n\r\n"), TEXT("") },
	{ "chunked, extensions and trailers", HTTP_BODY_CHUNKED,
	  TEXT("3;a=\"b\"\r\n\r\n0\r\n0;x\r\nX-A: b\r\nDigest: 1\r\n\r\n"), TEXT("\r\n0") },
	{ "until close", HTTP_BODY_UNTIL_CLOSE, TEXT("0\r\n\r\nnot the end"), TEXT("0\r\n\r\nnot the end") },
	{ "until close, empty", HTTP_BODY_UNTIL_CLOSE, TEXT(""), TEXT("") },
	{ "none", HTTP_BODY_NONE, TEXT(""), TEXT("") },
};
#define N_BODIES (sizeof(bodies) / sizeof(*bodies))

/* The payload of a chunked body in out; returns its length, or fails. */
static inline size_t dechunk(const uint8_t *p, size_t n, uint8_t *out)
{
	size_t at = 0, len = 0, used;
	struct http_span span;
	struct http_body b;
	enum http_result r;

	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 0);
	do {
		r = http_body_step(&b, (const char *)p + at, n - at, &span);
		memcpy(out + len, p + at + span.off, span.len);
		len += span.len;
		used = span.consumed;
		at += used;
	} while (r == HTTP_MORE && used);
	assert_int_equal(r, HTTP_DONE);
	assert_int_equal(at, n);
	return len;
}

static inline bool form_fits(enum flow_form form, uint8_t kind)
{
	return form == FLOW_AS_FRAMED || form == FLOW_DISCARD || (form == FLOW_PAYLOAD && kind == HTTP_BODY_CHUNKED) ||
	       (form == FLOW_CHUNK && kind == HTTP_BODY_UNTIL_CLOSE);
}

static inline void check_output(const struct body_case *b, enum flow_form form, const struct taker *t)
{
	uint8_t text[1 << 16];

	switch (form) {
	case FLOW_AS_FRAMED:
		assert_int_equal(t->len, b->wire_len);
		assert_memory_equal(t->got, b->wire, b->wire_len);
		break;
	case FLOW_PAYLOAD:
		assert_int_equal(t->len, b->payload_len);
		assert_memory_equal(t->got, b->payload, b->payload_len);
		break;
	case FLOW_CHUNK:
		assert_int_equal(dechunk(t->got, t->len, text), b->payload_len);
		assert_memory_equal(text, b->payload, b->payload_len);
		break;
	case FLOW_DISCARD:
		assert_int_equal(t->len, 0);
		break;
	}
}
#endif
