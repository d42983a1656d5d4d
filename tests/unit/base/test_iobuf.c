/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The connection buffer against a plain array, and its limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/iobuf.h"

static void test_empty_owns_nothing(void **state)
{
	struct iobuf b = { 0 };

	assert_int_equal(iobuf_append(&b, NULL, 0, 100), 0);
	assert_null(b.mem);
	assert_int_equal(iobuf_append(&b, "abc", 3, 100), 0);
	assert_non_null(b.mem);
	iobuf_consume(&b, 1);
	assert_int_equal(b.len, 2);
	assert_memory_equal(iobuf_head(&b), "bc", 2);
	iobuf_consume(&b, 2);
	assert_null(b.mem);
	assert_int_equal(b.cap, 0);
	iobuf_free(&b);
}

/* `max` counts unread bytes, not memory: what was consumed makes room again. */
static void test_limit_counts_unread_bytes(void **state)
{
	struct iobuf b = { 0 };
	char block[64] = { 1 };

	for (int i = 0; i < 4; i++)
		assert_int_equal(iobuf_append(&b, block, 64, 256), 0);
	assert_int_equal(iobuf_append(&b, block, 1, 256), -ENOBUFS);
	assert_int_equal(b.len, 256);
	iobuf_consume(&b, 10);
	assert_int_equal(iobuf_append(&b, block, 10, 256), 0);
	assert_int_equal(iobuf_append(&b, block, 1, 256), -ENOBUFS);
	iobuf_free(&b);
}

/* The sum of held and wanted bytes can exceed 32 bits: refused, no loop without end. */
static void test_sums_do_not_wrap(void **state)
{
	struct iobuf b = { 0 };

	assert_int_equal(iobuf_append(&b, "abcd", 4, UINT32_MAX), 0);
	assert_int_equal(iobuf_reserve(&b, UINT32_MAX - 1, UINT32_MAX), -ENOBUFS);
	assert_int_equal(b.len, 4);
	assert_memory_equal(iobuf_head(&b), "abcd", 4);
	iobuf_free(&b);
}

/* Random appends, in-place fills and consumes leave the bytes of a naive string. */
static void test_against_a_plain_string(void **state)
{
	static uint8_t plain[1 << 20];
	size_t from = 0, to = 0;
	struct iobuf b = { 0 };
	uint8_t next = 0;

	srand(7);
	for (int step = 0; step < 20000; step++) {
		uint32_t n = (uint32_t)rand() % (rand() % 8 ? 64 : 9000);
		uint8_t block[9000];

		if (to - from + n > 40000 || to + n > sizeof(plain)) {
			memmove(plain, plain + from, to - from);
			to -= from;
			from = 0;
			n = (uint32_t)(to / 2);
			iobuf_consume(&b, n);
			from += n;
		} else if (rand() % 2) {
			for (uint32_t i = 0; i < n; i++)
				block[i] = plain[to++] = next++;
			assert_int_equal(iobuf_append(&b, block, n, 50000), 0);
		} else if (rand() % 2) {
			assert_int_equal(iobuf_reserve(&b, n, 50000), 0);
			assert_true(iobuf_room(&b) >= n);
			for (uint32_t i = 0; i < n; i++)
				iobuf_tail(&b)[i] = plain[to++] = next++;
			iobuf_produced(&b, n);
		} else {
			n = n > to - from ? (uint32_t)(to - from) : n;
			iobuf_consume(&b, n);
			from += n;
		}
		assert_int_equal(b.len, to - from);
		if (b.len)
			assert_memory_equal(iobuf_head(&b), plain + from, b.len);
		assert_true((uint64_t)b.off + b.len <= b.cap);
	}
	iobuf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_owns_nothing),
		cmocka_unit_test(test_limit_counts_unread_bytes),
		cmocka_unit_test(test_sums_do_not_wrap),
		cmocka_unit_test(test_against_a_plain_string),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
