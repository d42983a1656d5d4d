/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The relay: every form of flow, cut at every offset, to clients that take bytes
 * one by one, not now, or not at all. What comes out is compared byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
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

static ssize_t taker_send(struct conn *c, const struct iovec *v, int n)
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

static struct taker *taker_new(size_t per_send)
{
	struct taker *t = calloc(1, sizeof(*t));

	t->per_send = per_send;
	t->conn = (struct conn){ .fd = -1, .ops = &taker_ops, .priv = t };
	return t;
}

/* Flushes until nothing waits; every call must get on sooner or later. */
static void drain(struct flow *f)
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

static const size_t paces[] = { 1, 2, 7, SIZE_MAX };

/* The payload of a chunked body in out; returns its length, or fails. */
static size_t dechunk(const uint8_t *p, size_t n, uint8_t *out)
{
	struct http_body b;
	size_t used;

	memcpy(out, p, n);
	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 0);
	assert_int_equal(http_body_decode(&b, (char *)out, &n, &used), HTTP_DONE);
	return n;
}

static bool form_fits(enum flow_form form, uint8_t kind)
{
	return form == FLOW_AS_FRAMED || form == FLOW_DISCARD || (form == FLOW_PAYLOAD && kind == HTTP_BODY_CHUNKED) ||
	       (form == FLOW_CHUNK && kind == HTTP_BODY_UNTIL_CLOSE);
}

static void check_output(const struct body_case *b, enum flow_form form, const struct taker *t)
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

/* One body, handed over in two pieces, with `behind` stray bytes after its end. */
static void run_split(const struct body_case *b, enum flow_form form, size_t split, size_t pace, bool every_second,
		      size_t behind)
{
	struct taker *t = taker_new(pace);
	struct conn from = { .fd = -1 };
	uint8_t wire[256];
	size_t len = b->wire_len + behind;
	enum flow_result r = FLOW_MORE;
	struct flow f;

	t->every_second = every_second;
	memcpy(wire, b->wire, b->wire_len);
	memset(wire + b->wire_len, 'Z', behind);
	flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 1 << 20);
	if (split)
		r = flow_feed(&f, wire, (uint32_t)split);
	if (split > b->wire_len || (split && split == b->wire_len && b->kind != HTTP_BODY_UNTIL_CLOSE))
		assert_int_equal(r, FLOW_END);
	else
		assert_int_equal(r, FLOW_MORE);
	if (r == FLOW_END) {
		assert_int_equal(f.surplus, split - b->wire_len);
	} else {
		assert_int_equal(f.surplus, 0);
		r = flow_feed(&f, wire + split, (uint32_t)(len - split));
		assert_int_equal(f.surplus, behind);
	}
	if (b->kind == HTTP_BODY_UNTIL_CLOSE) {
		assert_int_equal(r, FLOW_MORE);
		r = flow_eof(&f, false);
	}
	assert_int_equal(r, FLOW_END);
	assert_int_equal(flow_eof(&f, false), FLOW_END); /* a FIN behind the end is nothing new */
	assert_int_equal(flow_eof(&f, true), FLOW_END);
	drain(&f);
	check_output(b, form, t);
	assert_int_equal(f.sent_bytes, t->len);
	assert_int_equal(f.framing.payload_bytes, b->payload_len);
	flow_free(&f);
	free(t);
}

static void test_every_split(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++) {
			const struct body_case *b = &bodies[i];
			size_t behind = b->kind == HTTP_BODY_UNTIL_CLOSE ? 0 : 3;

			if (!form_fits(form, b->kind))
				continue;
			for (size_t split = 0; split <= b->wire_len + behind; split++)
				for (unsigned k = 0; k < sizeof(paces) / sizeof(*paces); k++)
					for (int second = 0; second < 2; second++)
						run_split(b, form, split, paces[k], second, behind);
		}
}

/* Byte by byte, with a flush now and then. */
static void test_one_byte_at_a_time(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++) {
			const struct body_case *b = &bodies[i];
			struct taker *t = taker_new(1);
			struct conn from = { .fd = -1 };
			enum flow_result r = b->kind == HTTP_BODY_NONE ? FLOW_END : FLOW_MORE;
			struct flow f;

			if (!form_fits(form, b->kind)) {
				free(t);
				continue;
			}
			flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 1 << 20);
			for (size_t k = 0; k < b->wire_len; k++) {
				r = flow_feed(&f, (const uint8_t *)b->wire + k, 1);
				assert_int_equal(r, k + 1 == b->wire_len && b->kind != HTTP_BODY_UNTIL_CLOSE ? FLOW_END : FLOW_MORE);
				if (k % 3 == 0)
					flow_flush(&f);
			}
			if (b->kind == HTTP_BODY_UNTIL_CLOSE)
				r = flow_eof(&f, false);
			assert_int_equal(r, FLOW_END);
			drain(&f);
			check_output(b, form, t);
			flow_free(&f);
			free(t);
		}
}

/* ---- hold, back-pressure ---- */

static void flow_with_head(struct flow *f, struct conn *from, struct taker *t, uint8_t kind, uint64_t length,
			   enum flow_form form, uint32_t limit, const char *head)
{
	flow_init(f, from, &t->conn, kind, length, form, limit);
	assert_int_equal(iobuf_append(&f->out, head, (uint32_t)strlen(head), UINT32_MAX), 0);
}

/* A held flow sends nothing, whoever asks; released, all comes in order behind the head. */
static void test_hold_and_release(void **state)
{
	struct taker *t = taker_new(SIZE_MAX);
	struct conn from = { .fd = -1 };
	struct flow f;

	flow_with_head(&f, &from, t, HTTP_BODY_CHUNKED, 0, FLOW_AS_FRAMED, 1 << 16, "HEAD");
	f.hold = true;
	assert_int_equal(flow_feed(&f, (const uint8_t *)"3\r\nabc\r\n", 8), FLOW_MORE);
	assert_int_equal(flow_flush(&f), FLOW_MORE);
	assert_int_equal(t->len, 0);
	assert_int_equal(f.sent_bytes, 0);
	f.hold = false;
	assert_int_equal(flow_feed(&f, (const uint8_t *)"1\r\nd", 4), FLOW_MORE);
	assert_int_equal(f.out.len, 0);
	assert_null(f.out.mem); /* an idle stream holds no buffer */
	assert_int_equal(t->len, 16);
	assert_memory_equal(t->got, "HEAD3\r\nabc\r\n1\r\nd", 16);
	assert_int_equal(f.sent_bytes, 16);
	flow_free(&f);
	free(t);
}

/* A held flow tells when it has grown to its limit. */
static void test_hold_has_a_limit(void **state)
{
	struct taker *t = taker_new(SIZE_MAX);
	struct conn from = { .fd = -1 };
	uint8_t block[100] = { 0 };
	struct flow f;

	flow_init(&f, &from, &t->conn, HTTP_BODY_LENGTH, 1000, FLOW_AS_FRAMED, 250);
	f.hold = true;
	assert_int_equal(flow_feed(&f, block, 100), FLOW_MORE);
	assert_int_equal(flow_feed(&f, block, 100), FLOW_MORE);
	assert_int_equal(flow_feed(&f, block, 100), FLOW_BLOCKED);
	assert_int_equal(t->len, 0);
	f.hold = false;
	assert_int_equal(flow_flush(&f), FLOW_MORE);
	assert_int_equal(t->len, 300);
	flow_free(&f);
	free(t);
}

/* The client takes nothing: BLOCKED from out_limit on; what was given is kept, and not a
 * byte is lost or doubled when it takes again. */
static void test_blocked_at_the_limit(void **state)
{
	static const enum flow_form forms[] = { FLOW_AS_FRAMED, FLOW_CHUNK };
	static uint8_t body[20000], text[1 << 16];

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned k = 0; k < 2; k++) {
		struct taker *t = taker_new(0);
		struct conn from = { .fd = -1 };
		uint32_t at = 0;
		struct flow f;

		flow_init(&f, &from, &t->conn, HTTP_BODY_UNTIL_CLOSE, 0, forms[k], 4096);
		while (at < sizeof(body)) {
			enum flow_result r = flow_feed(&f, body + at, 1000);

			at += 1000;
			assert_int_equal(r, f.out.len >= 4096 ? FLOW_BLOCKED : FLOW_MORE);
			if (r != FLOW_BLOCKED)
				continue;
			assert_in_range(f.out.len, 4096, 4096 + 1000 + HTTP_CHUNK_HEAD_MAX + 2);
			assert_int_equal(flow_flush(&f), FLOW_BLOCKED); /* still nothing */
			t->per_send = 777;
			assert_int_equal(flow_flush(&f), FLOW_BLOCKED); /* some is left */
			t->per_send = 500;
			drain(&f);
			t->per_send = 0;
		}
		assert_int_equal(flow_eof(&f, false), FLOW_END);
		t->per_send = SIZE_MAX;
		drain(&f);
		if (forms[k] == FLOW_CHUNK)
			assert_int_equal(dechunk(t->got, t->len, text), sizeof(body));
		else
			memcpy(text, t->got, t->len);
		assert_memory_equal(text, body, sizeof(body));
		assert_int_equal(f.sent_bytes, t->len);
		flow_free(&f);
		free(t);
	}
}

/* ---- ends ---- */

/* A FIN or a reset inside the body is a cut; after a cut of a re-chunked body there is no last chunk. */
static void test_cut(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (size_t n = 0; n < bodies[i].wire_len; n++)
			for (int reset = 0; reset < 2; reset++) {
				const struct body_case *b = &bodies[i];
				enum flow_form form = b->kind == HTTP_BODY_UNTIL_CLOSE ? FLOW_CHUNK : FLOW_AS_FRAMED;
				struct taker *t = taker_new(SIZE_MAX);
				struct conn from = { .fd = -1 };
				struct flow f;

				flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 4096);
				if (n)
					assert_int_equal(flow_feed(&f, (const uint8_t *)b->wire, (uint32_t)n), FLOW_MORE);
				if (b->kind == HTTP_BODY_UNTIL_CLOSE && !reset) {
					assert_int_equal(flow_eof(&f, false), FLOW_END);
				} else {
					size_t before = t->len;

					assert_int_equal(flow_eof(&f, reset), FLOW_CUT);
					assert_int_equal(t->len, before);
				}
				flow_free(&f);
				free(t);
			}
}

/* Broken framing: nothing of the read that shows it goes out, and it stays broken. */
static void test_malformed(void **state)
{
	static const char *const bad[] = { "g\r\n",	      "5 \r\nhello\r\n", "5\nhello\r\n",      "2\r\nabc\r\n",
					   "0\r\n bad\r\n\r\n", "-1\r\n",	 "ffffffffffffffff1\r\n" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++) {
			struct taker *t = taker_new(SIZE_MAX);
			struct conn from = { .fd = -1 };
			struct flow f;

			if (!form_fits(form, HTTP_BODY_CHUNKED)) {
				free(t);
				continue;
			}
			flow_init(&f, &from, &t->conn, HTTP_BODY_CHUNKED, 0, form, 4096);
			assert_int_equal(flow_feed(&f, (const uint8_t *)"2\r\nok\r\n", 7), FLOW_MORE);
			assert_int_equal(flow_feed(&f, (const uint8_t *)bad[i], (uint32_t)strlen(bad[i])), FLOW_MALFORMED);
			if (form == FLOW_AS_FRAMED)
				assert_int_equal(t->len, 7);
			assert_int_equal(flow_feed(&f, (const uint8_t *)"0\r\n\r\n", 5), FLOW_MALFORMED);
			assert_int_equal(flow_eof(&f, false), FLOW_CUT);
			flow_free(&f);
			free(t);
		}
}

/* ---- a client that leaves ---- */

static void test_client_gone_on_write_and_flush(void **state)
{
	struct taker *t = taker_new(2);
	struct conn from = { .fd = -1 };
	struct flow f;

	t->gone_after = 2;
	flow_init(&f, &from, &t->conn, HTTP_BODY_LENGTH, 100, FLOW_AS_FRAMED, 4096);
	assert_int_equal(flow_feed(&f, (const uint8_t *)"abcdef", 6), FLOW_MORE);
	assert_int_equal(f.out.len, 4);
	assert_int_equal(flow_flush(&f), FLOW_CLIENT_GONE);
	assert_int_equal(flow_feed(&f, (const uint8_t *)"g", 1), FLOW_CLIENT_GONE);
	assert_int_equal(f.sent_bytes, 2);
	flow_free(&f);
	free(t);
}

/* The client of an HTTP/1.0 answer leaves in the middle of a read that holds several chunks.
 * The rest of the body is read on for nobody: it must still be understood. It was not: the
 * flow stopped inside the read, took chunk data for a chunk's size and called the backend's
 * answer malformed. Also when the end of the body was in that very read, which was then
 * waited for until the backend's keep-alive ran out. */
static void test_framing_outlives_the_client(void **state)
{
	static const char wire[] = "4\r\nabcd\r\n4\r\nefgh\r\n4\r\nijkl\r\n0\r\n\r\n";
	const size_t len = sizeof(wire) - 1;

	for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_PAYLOAD; form++)
		for (size_t first = 1; first <= len; first++) {
			struct taker *t = taker_new(SIZE_MAX);
			struct conn from = { .fd = -1 };
			enum flow_result r;
			struct flow f;

			flow_init(&f, &from, &t->conn, HTTP_BODY_CHUNKED, 0, form, 4096);
			t->gone_after = 1;
			t->len = 1; /* gone from the start */
			r = flow_feed(&f, (const uint8_t *)wire, (uint32_t)first);
			if (form == FLOW_AS_FRAMED || first > 3)
				assert_int_equal(r, FLOW_CLIENT_GONE);
			f.form = FLOW_DISCARD;
			iobuf_free(&f.out);
			if (first < len)
				r = flow_feed(&f, (const uint8_t *)wire + first, (uint32_t)(len - first));
			if (first < len)
				assert_int_equal(r, FLOW_END);
			assert_int_equal(f.framing.state, HTTP_FS_END);
			assert_int_equal(f.framing.payload_bytes, 12);
			flow_free(&f);
			free(t);
		}
}

/* ---- the observer ---- */

static uint8_t seen[256];
static size_t seen_len;

static void see(struct flow *f, const uint8_t *p, uint32_t n)
{
	assert_true(n > 0);
	memcpy(seen + seen_len, p, n);
	seen_len += n;
}

/* It sees the payload, all of it and nothing else, in every form. */
static void test_observer_sees_payload(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++)
			for (size_t step = 1; step < 6; step++) {
				const struct body_case *b = &bodies[i];
				struct taker *t = taker_new(SIZE_MAX);
				struct conn from = { .fd = -1 };
				struct flow f;

				flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 4096);
				f.observe = see;
				seen_len = 0;
				for (size_t at = 0; form_fits(form, b->kind) && at < b->wire_len; at += step) {
					size_t n = b->wire_len - at < step ? b->wire_len - at : step;

					flow_feed(&f, (const uint8_t *)b->wire + at, (uint32_t)n);
				}
				if (form_fits(form, b->kind)) {
					assert_int_equal(seen_len, b->payload_len);
					assert_memory_equal(seen, b->payload, b->payload_len);
				}
				flow_free(&f);
				free(t);
			}
}

/* ---- real sockets ---- */

static void pair(int fd[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
}

/* Several megabytes through socket buffers of their own size, the reader slower than the
 * writer: no more than out_limit and one read is ever held, and all arrives. */
static void test_through_sockets(void **state)
{
	enum { TOTAL = 4 << 20, LIMIT = 64 << 10, SCRATCH = 16 << 10 };
	int backend[2], client[2];
	struct conn from, to;
	uint8_t *scratch = malloc(SCRATCH), *in = malloc(SCRATCH);
	size_t written = 0, read_bytes = 0;
	enum flow_result r = FLOW_MORE;
	bool blocked_once = false;
	struct flow f;

	pair(backend);
	pair(client);
	from = (struct conn){ .fd = backend[0], .ops = &conn_ops_tcp };
	to = (struct conn){ .fd = client[0], .ops = &conn_ops_tcp };
	flow_init(&f, &from, &to, HTTP_BODY_LENGTH, TOTAL, FLOW_AS_FRAMED, LIMIT);
	while (read_bytes < TOTAL) {
		uint8_t block[8192];
		ssize_t n;

		while (written < TOTAL) { /* the backend writes what its socket takes */
			for (size_t i = 0; i < sizeof(block); i++)
				block[i] = (uint8_t)((written + i) * 31 >> 3);
			n = write(backend[1], block, sizeof(block));
			if (n < 0)
				break;
			written += (size_t)n;
		}
		while (r == FLOW_MORE && f.framing.state != HTTP_FS_END) {
			uint64_t before = f.framing.payload_bytes;

			r = flow_pump(&f, scratch, SCRATCH);
			if (r == FLOW_MORE && f.framing.payload_bytes == before)
				break; /* nothing there now */
		}
		assert_true(f.out.len < LIMIT + SCRATCH);
		blocked_once |= r == FLOW_BLOCKED;
		n = read(client[1], in, 5000); /* a slow reader */
		for (ssize_t i = 0; i < n; i++)
			if (in[i] != (uint8_t)((read_bytes + (size_t)i) * 31 >> 3))
				fail_msg("byte %zu", read_bytes + (size_t)i);
		read_bytes += n > 0 ? (size_t)n : 0;
		if (flow_flush(&f) == FLOW_MORE || f.out.len < LIMIT)
			r = r == FLOW_END ? r : FLOW_MORE;
	}
	assert_true(blocked_once);
	assert_int_equal(f.sent_bytes, TOTAL);
	assert_int_equal(f.framing.state, HTTP_FS_END);
	flow_free(&f);
	for (int i = 0; i < 2; i++) {
		close(backend[i]);
		close(client[i]);
	}
	free(scratch);
	free(in);
}

/* flow_pump(): nothing there, a FIN in the body, a FIN at its end, a full buffer told again. */
static void test_pump(void **state)
{
	uint8_t scratch[64];
	int backend[2];
	struct taker *t = taker_new(0);
	struct conn from;
	struct flow f;

	pair(backend);
	from = (struct conn){ .fd = backend[0], .ops = &conn_ops_tcp };
	flow_init(&f, &from, &t->conn, HTTP_BODY_LENGTH, 10, FLOW_AS_FRAMED, 4);
	assert_int_equal(flow_pump(&f, scratch, sizeof(scratch)), FLOW_MORE);
	assert_int_equal(write(backend[1], "abcdef", 6), 6);
	assert_int_equal(flow_pump(&f, scratch, sizeof(scratch)), FLOW_BLOCKED);
	assert_int_equal(flow_pump(&f, scratch, sizeof(scratch)), FLOW_BLOCKED);
	t->per_send = SIZE_MAX;
	assert_int_equal(flow_flush(&f), FLOW_MORE);
	close(backend[1]);
	assert_int_equal(flow_pump(&f, scratch, sizeof(scratch)), FLOW_CUT);
	close(backend[0]);
	flow_free(&f);

	pair(backend);
	from.fd = backend[0];
	t->len = 0;
	flow_init(&f, &from, &t->conn, HTTP_BODY_UNTIL_CLOSE, 0, FLOW_CHUNK, 4096);
	assert_int_equal(write(backend[1], "abc", 3), 3);
	close(backend[1]);
	assert_int_equal(flow_pump(&f, scratch, sizeof(scratch)), FLOW_MORE);
	assert_int_equal(flow_pump(&f, scratch, sizeof(scratch)), FLOW_END);
	assert_int_equal(t->len, 13);
	assert_memory_equal(t->got, "3\r\nabc\r\n0\r\n\r\n", 13);
	close(backend[0]);
	flow_free(&f);
	free(t);
}

/* The relay takes no flow over: the caller goes on pumping. */
static void test_relay_arms_nothing(void **state)
{
	struct flow f = { .mode = DATAPATH_SPLICE };

	assert_int_equal(datapath_relay.arm(NULL, &f), -EOPNOTSUPP);
	assert_int_equal(f.mode, DATAPATH_RELAY);
	datapath_relay.cancel(NULL, &f);
	assert_int_equal(datapath_relay.events(NULL), -1);
	assert_string_equal(datapath_relay.name, "relay");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_split),
		cmocka_unit_test(test_one_byte_at_a_time),
		cmocka_unit_test(test_hold_and_release),
		cmocka_unit_test(test_hold_has_a_limit),
		cmocka_unit_test(test_blocked_at_the_limit),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_client_gone_on_write_and_flush),
		cmocka_unit_test(test_framing_outlives_the_client),
		cmocka_unit_test(test_observer_sees_payload),
		cmocka_unit_test(test_through_sockets),
		cmocka_unit_test(test_pump),
		cmocka_unit_test(test_relay_arms_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
