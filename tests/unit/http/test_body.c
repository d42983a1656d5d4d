/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Framing and body decoder: against llhttp's own body parser, with random splits
 * and damage; limits; counters past 4 GiB; chunk headers of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/body.h"

struct result {
	int status;      /* HTTP_DONE, HTTP_FAULT or HTTP_MORE */
	size_t consumed; /* up to the body's end */
	char payload[8192];
	size_t len;
};

static unsigned int seed = 3;

static unsigned int rnd(unsigned int n)
{
	return (unsigned int)rand_r(&seed) % n;
}

/* Ours, the bytes arriving in pieces of at most `piece`. */
static void run_ours(const char *p, size_t n, size_t piece, struct result *r)
{
	struct http_body b;
	size_t have = 0;

	memset(r, 0, sizeof(*r));
	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 0);
	while (r->status == HTTP_MORE && have < n) {
		size_t left = n - have, k = piece && piece < left ? 1 + rnd((unsigned int)piece) : left;
		size_t pos = 0;

		while (r->status == HTTP_MORE && pos < k) {
			struct http_span s;

			r->status = http_body_step(&b, p + have + pos, k - pos, &s);
			assert_true(s.consumed <= k - pos && s.off + s.len <= k - pos);
			assert_true(s.consumed > 0 || r->status != HTTP_MORE);
			memcpy(r->payload + r->len, p + have + pos + s.off, s.len);
			r->len += s.len;
			pos += s.consumed;
		}
		have += pos;
	}
	r->consumed = have;
}

static int peer_body(llhttp_t *p, const char *at, size_t len)
{
	struct result *r = p->data;

	memcpy(r->payload + r->len, at, len);
	r->len += len;
	return 0;
}

static int peer_end(llhttp_t *p)
{
	((struct result *)p->data)->status = HTTP_DONE;
	return HPE_PAUSED;
}

static void run_llhttp(const char *p, size_t n, struct result *r)
{
	static const char head[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	llhttp_settings_t settings;
	llhttp_t parser;
	llhttp_errno_t e;

	memset(r, 0, sizeof(*r));
	llhttp_settings_init(&settings);
	settings.on_body = peer_body;
	settings.on_message_complete = peer_end;
	llhttp_init(&parser, HTTP_REQUEST, &settings);
	parser.data = r;
	assert_int_equal(llhttp_execute(&parser, head, sizeof(head) - 1), HPE_OK);
	e = llhttp_execute(&parser, p, n);
	if (e == HPE_PAUSED)
		r->consumed = (size_t)(llhttp_get_error_pos(&parser) - p);
	else if (e != HPE_OK)
		r->status = HTTP_FAULT;
	else
		r->consumed = n;
}

static size_t make_body(char *p, bool plain)
{
	size_t n = 0;
	unsigned int chunks = rnd(8);

	for (unsigned int i = 0; i < chunks; i++) {
		unsigned int len = 1 + rnd(rnd(4) ? 20 : 400);

		n += (size_t)sprintf(p + n, rnd(2) ? "%x" : "%05X", len);
		if (!plain && !rnd(3))
			n += (size_t)sprintf(p + n, rnd(2) ? ";a=b;c=\"d e\"" : ";x");
		n += (size_t)sprintf(p + n, "\r\n");
		while (len--)
			p[n++] = "\r\n0;:x\0\xff"[rnd(8)];
		n += (size_t)sprintf(p + n, "\r\n");
	}
	n += (size_t)sprintf(p + n, "0\r\n");
	if (!plain && !rnd(3))
		n += (size_t)sprintf(p + n, "X-Sum: 1\r\nEmpty:\r\n");
	n += (size_t)sprintf(p + n, "\r\n");
	return n;
}

static void test_against_llhttp(void **state)
{
	static struct result ours, again, theirs;
	static char body[8192];

	for (int round = 0; round < 4000; round++) {
		size_t n = make_body(body, false), total = n;

		total += (size_t)sprintf(body + n, "GET / HTTP/1.1\r\n");
		run_ours(body, total, 0, &ours);
		run_ours(body, total, 1 + rnd(30), &again);
		run_llhttp(body, total, &theirs);
		assert_int_equal(ours.status, HTTP_DONE);
		assert_int_equal(theirs.status, HTTP_DONE);
		assert_int_equal(ours.consumed, n);
		assert_int_equal(theirs.consumed, n);
		assert_int_equal(ours.len, theirs.len);
		assert_memory_equal(ours.payload, theirs.payload, ours.len);
		assert_memory_equal(&ours, &again, sizeof(ours));
	}
}

/* Damaged bodies: never accepted where llhttp refuses, and if both accept, then
 * with the same payload and the same end. (Extensions apart, whose content
 * llhttp parses and we only bound.) */
static void test_damage(void **state)
{
	static struct result ours, again, theirs;
	static char body[8192];
	unsigned int refused = 0, accepted = 0;

	for (int round = 0; round < 20000; round++) {
		size_t n = make_body(body, true);

		for (unsigned int k = 1 + rnd(2); k; k--) {
			size_t at = rnd((unsigned int)n);
			static const char chars[] = "\r\n0159afAFg xX+-_\t\0:";

			body[at] = rnd(3) ? chars[rnd(sizeof(chars) - 1)] : (char)rnd(256);
			if (body[at] == ';')
				body[at] = ' ';
		}
		run_ours(body, n, 0, &ours);
		run_ours(body, n, 1 + rnd(10), &again);
		run_llhttp(body, n, &theirs);
		assert_int_equal(ours.status, again.status);
		assert_int_equal(ours.len, again.len);
		if (ours.status == HTTP_DONE) {
			bool extension = false;

			/* a size that damage made shorter can turn data into an extension */
			for (size_t i = 1; i < ours.consumed; i++)
				extension |= body[i] == ';' && strchr("0123456789abcdefABCDEF;", body[i - 1]) && body[i - 1];
			if (!extension || theirs.status == HTTP_DONE) {
				assert_int_equal(theirs.status, HTTP_DONE);
				assert_int_equal(theirs.consumed, ours.consumed);
				assert_int_equal(theirs.len, ours.len);
				assert_memory_equal(ours.payload, theirs.payload, ours.len);
			}
			accepted++;
		}
		refused += ours.status == HTTP_FAULT;
	}
	assert_true(refused > 1000);
	assert_true(accepted > 1000);
}

static void test_length_counts(void **state)
{
	static char block[1 << 20];
	uint64_t sizes[] = { 0x7fffffffull + 5, 0x100000000ull, 4617089843ull };

	for (size_t i = 0; i < 3; i++) {
		struct http_body b;
		uint64_t left = sizes[i];
		struct http_span s;

		http_body_init(&b, HTTP_BODY_LENGTH, sizes[i], 0);
		while (left > sizeof(block)) {
			assert_int_equal(http_body_step(&b, block, sizeof(block), &s), HTTP_MORE);
			assert_int_equal(s.len, sizeof(block));
			left -= s.len;
		}
		assert_int_equal(http_framing_eof(&(struct http_framing){ .state = b.framing.state, .left = b.framing.left }),
				 HTTP_FRAMING_ERROR);
		assert_int_equal(http_body_step(&b, block, sizeof(block), &s), HTTP_DONE);
		assert_int_equal(s.len, left);
		assert_int_equal(s.consumed, left);
		assert_true(http_body_ended(&b));
		assert_int_equal(b.framing.payload_bytes, sizes[i]);
	}
}

/* Chunk data is skipped, not looked at: a chunk of 2^62 bytes costs one step a call. */
static void test_huge_chunk(void **state)
{
	static char block[65536];
	struct http_body b;
	struct http_span s;

	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 0);
	assert_int_equal(http_body_step(&b, "4000000000000000\r\n", 18, &s), HTTP_MORE);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(http_body_step(&b, block, sizeof(block), &s), HTTP_MORE);
		assert_int_equal(s.len, sizeof(block));
	}
	assert_int_equal(b.framing.left, (1ull << 62) - 1000ull * sizeof(block));
}

static void test_limit(void **state)
{
	struct http_body b;
	struct http_span s;

	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 10);
	assert_int_equal(http_body_step(&b, "a\r\n0123456789", 13, &s), HTTP_MORE);
	assert_int_equal(s.len, 10);
	assert_int_equal(http_body_step(&b, "\r\n0\r\n\r\n", 7, &s), HTTP_DONE);
	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 10);
	assert_int_equal(http_body_step(&b, "b\r\n", 3, &s), HTTP_FAULT); /* before any data */
	assert_int_equal(b.fault.status, 413);
	assert_string_equal(b.fault.code, "body_too_large");
	assert_int_equal(http_body_step(&b, "0123", 4, &s), HTTP_FAULT);
	assert_int_equal(b.fault.status, 413);
	assert_int_equal(s.consumed, 0);
	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 10);
	assert_int_equal(http_body_step(&b, "6\r\n012345", 9, &s), HTTP_MORE);
	assert_int_equal(http_body_step(&b, "\r\n5\r\n01234", 10, &s), HTTP_FAULT);
	assert_int_equal(s.len, 0);
	http_body_init(&b, HTTP_BODY_LENGTH, 11, 10);
	assert_int_equal(http_body_step(&b, "", 0, &s), HTTP_FAULT);
	assert_int_equal(b.fault.status, 413);
}

static void test_kinds(void **state)
{
	struct http_body b;
	struct http_span s;

	http_body_init(&b, HTTP_BODY_NONE, 0, 0);
	assert_int_equal(http_body_step(&b, "GET", 3, &s), HTTP_DONE);
	assert_int_equal(s.consumed, 0);
	http_body_init(&b, HTTP_BODY_LENGTH, 0, 0);
	assert_int_equal(http_body_step(&b, "GET", 3, &s), HTTP_DONE);
	assert_int_equal(s.consumed, 0);
	http_body_init(&b, HTTP_BODY_UNTIL_CLOSE, 0, 0);
	assert_int_equal(http_body_step(&b, "0\r\n\r\n", 5, &s), HTTP_MORE);
	assert_int_equal(s.len, 5);
	assert_int_equal(http_framing_eof(&b.framing), HTTP_FRAMING_END);
	assert_true(http_body_ended(&b));
	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 0);
	assert_int_equal(http_framing_eof(&b.framing), HTTP_FRAMING_ERROR);
	assert_int_equal(b.framing.error, HTTP_FE_TRUNCATED);
}

static void test_chunk_head(void **state)
{
	static const struct {
		uint64_t len;
		const char *want;
	} rows[] = {
		{ 1, "1\r\n" }, { 15, "f\r\n" }, { 16, "10\r\n" }, { 250, "fa\r\n" }, { 65536, "10000\r\n" },
		{ 0x7fffffffffffffffull, "7fffffffffffffff\r\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char out[HTTP_CHUNK_HEAD_MAX];
		size_t n = http_chunk_head(out, rows[i].len);
		struct http_body b;
		struct http_span s;

		assert_int_equal(n, strlen(rows[i].want));
		assert_memory_equal(out, rows[i].want, n);
		http_body_init(&b, HTTP_BODY_CHUNKED, 0, 0);
		assert_int_equal(http_body_step(&b, out, n, &s), HTTP_MORE);
		assert_int_equal(b.framing.left, rows[i].len);
	}
}

/* A million chunks of one byte: linear, and a step hands out one payload run with its framing at most. */
static void test_one_byte_chunks(void **state)
{
	static char in[6 * 4096];
	struct http_body b;
	uint64_t payload = 0;

	for (size_t i = 0; i < sizeof(in); i += 6)
		memcpy(in + i, "1\r\nx\r\n", 6);
	http_body_init(&b, HTTP_BODY_CHUNKED, 0, 0);
	for (int i = 0; i < 245; i++)
		for (size_t at = 0; at < sizeof(in);) {
			struct http_span s;

			assert_int_equal(http_body_step(&b, in + at, sizeof(in) - at, &s), HTTP_MORE);
			assert_in_range(s.consumed, 1, 6);
			assert_true(s.len <= 1);
			at += s.consumed;
			payload += s.len;
		}
	assert_int_equal(payload, 245 * 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_llhttp),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_length_counts),
		cmocka_unit_test(test_huge_chunk),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_chunk_head),
		cmocka_unit_test(test_one_byte_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
