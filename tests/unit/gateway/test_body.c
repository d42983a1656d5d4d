/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The chain of a request body against a plain string. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/body.h"

#define MAX_BYTES (4u << 20)

static struct body_pool pool;
static struct body body;
static uint8_t *plain; /* all bytes ever put in */
static size_t from, at, to; /* held: [from, to), unsent: [at, to) */
static uint32_t seed = 1;

static uint32_t rnd(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)seed * n >> 32);
}

static void begin(void)
{
	plain = malloc(MAX_BYTES);
	memset(&body, 0, sizeof(body));
	from = at = to = 0;
}

static void end(void)
{
	body_free(&body, &pool);
	assert_int_equal(pool.bytes, 0);
	assert_null(body.head);
	free(plain);
}

static void put(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		plain[to + i] = (uint8_t)rnd(256);
	if (rnd(2)) {
		assert_int_equal(body_append(&body, &pool, plain + to, n), 0);
	} else {
		for (uint32_t done = 0; done < n;) {
			uint32_t room, fill;
			uint8_t *p = body_space(&body, &pool, n - done, &room);

			assert_non_null(p);
			assert_in_range(room, 1, n - done);
			fill = 1 + rnd(room); /* a short read */
			memcpy(p, plain + to + done, fill);
			body_filled(&body, fill);
			done += fill;
		}
	}
	to += n;
}

/* The vectors in a row are exactly plain[a..to), as far as `max` of them reach. */
static size_t check_vectors(const struct iovec *v, unsigned n, size_t a)
{
	for (unsigned i = 0; i < n; i++) {
		assert_true(v[i].iov_len > 0);
		assert_true(a + v[i].iov_len <= to);
		assert_memory_equal(v[i].iov_base, plain + a, v[i].iov_len);
		a += v[i].iov_len;
	}
	return a;
}

static void check(void)
{
	struct iovec v[512];
	unsigned few = 1 + rnd(3), n;
	uint64_t cap = 0;

	assert_int_equal(body.unsent, to - at);
	n = body_vectors(&body, v, 512);
	assert_int_equal(check_vectors(v, n, at), to);
	n = body_vectors(&body, v, few);
	assert_true(n <= few);
	check_vectors(v, n, at);
	assert_true(n || at == to);
	if (!body.dropping) {
		assert_int_equal(body.held, to - from);
		n = body_all_vectors(&body, v, 512);
		assert_int_equal(check_vectors(v, n, from), to);
	}
	for (struct body_chunk *c = body.head; c; c = c->next)
		cap += c->cap;
	assert_int_equal(pool.bytes, cap);
}

static void send_some(void)
{
	uint32_t n = (uint32_t)(to - at);

	if (rnd(3))
		n = n ? rnd(n + 1) : 0;
	body_sent(&body, &pool, n);
	at += n;
}

static void test_append_send_rewind(void **state)
{
	for (int round = 0; round < 60; round++) {
		begin();
		for (int step = 0; step < 60; step++) {
			switch (rnd(6)) {
			case 0:
			case 1:
				put(1 + rnd(rnd(4) ? 3000 : 60000));
				break;
			case 2:
				put(BODY_CHUNK_BYTES); /* chunks filled to the last byte */
				break;
			case 3:
			case 4:
				send_some();
				break;
			default:
				body_rewind(&body);
				at = from;
			}
			check();
			if (to > MAX_BYTES - 2 * BODY_CHUNK_BYTES)
				break;
		}
		end();
	}
}

/* From body_drop_sent() on, what was sent is given back: a long upload holds what is unsent. */
static void test_drop_sent(void **state)
{
	for (int round = 0; round < 60; round++) {
		begin();
		put(1 + rnd(200000));
		if (rnd(2))
			send_some();
		body_drop_sent(&body, &pool);
		check();
		for (int step = 0; step < 40 && to < MAX_BYTES - 2 * BODY_CHUNK_BYTES; step++) {
			if (rnd(2))
				put(1 + rnd(rnd(3) ? 2000 : 60000));
			else
				send_some();
			check();
			/* one chunk is partly sent, one partly filled at most */
			assert_true(pool.bytes <= to - at + 2 * BODY_CHUNK_BYTES);
		}
		body_sent(&body, &pool, to - at);
		at = to;
		check();
		assert_int_equal(pool.bytes, 0);
		end();
	}
}

static void test_replace(void **state)
{
	for (int round = 0; round < 200; round++) {
		char with[300];
		size_t off, len, n;

		begin();
		put(1 + rnd(rnd(2) ? 500 : 200000));
		off = rnd((uint32_t)to + 1);
		len = rnd((uint32_t)(to - off < 400 ? to - off : 400) + 1);
		n = rnd(sizeof(with));
		memset(with, 'w', sizeof(with));
		assert_int_equal(body_replace(&body, &pool, off, len, with, (uint32_t)n), 0);
		memmove(plain + off + n, plain + off + len, to - off - len);
		memcpy(plain + off, with, n);
		to += n;
		to -= len;
		check();
		send_some();
		put(100); /* the rest of the body comes later */
		check();
		end();
	}
}

/* A body that comes in small pieces must not become a chain of small chunks: a megabyte of
 * 1 KiB chunked-coding pieces was 256 chunks, and more vectors than anybody looks at. */
static void test_small_pieces_share_chunks(void **state)
{
	struct iovec v[512];

	begin();
	for (int i = 0; i < 1024; i++)
		put(1024);
	check();
	assert_true(body_all_vectors(&body, v, 512) <= 1 + (1u << 20) / BODY_CHUNK_BYTES + 1);
	end();
	begin();
	put(100);
	assert_true(pool.bytes <= 4096); /* a small body holds little */
	end();
}

/* Spares are bounded, whatever was in use. */
static void test_spares_are_bounded(void **state)
{
	struct body many[2];

	memset(many, 0, sizeof(many));
	for (unsigned i = 0; i < BODY_CHUNKS_SPARE * 3 * (BODY_CHUNK_BYTES / 1024); i++) {
		uint8_t block[1024] = { 0 };

		assert_int_equal(body_append(&many[i % 2], &pool, block, sizeof(block)), 0);
	}
	body_free(&many[0], &pool);
	body_free(&many[1], &pool);
	assert_int_equal(pool.bytes, 0);
	assert_in_range(pool.n_spare, 1, BODY_CHUNKS_SPARE);
	body_pool_free(&pool);
	assert_int_equal(pool.n_spare, 0);
}

static int teardown(void **state)
{
	body_pool_free(&pool);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_append_send_rewind),
		cmocka_unit_test(test_drop_sent),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_small_pieces_share_chunks),
		cmocka_unit_test(test_spares_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
