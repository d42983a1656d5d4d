/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* UTF-8: every code point there and back, and every way to be none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/utf8.h"

static size_t encode(char *s, uint32_t cp)
{
	if (cp < 0x80) {
		s[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		s[0] = (char)(0xc0 | cp >> 6);
		s[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		s[0] = (char)(0xe0 | cp >> 12);
		s[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		s[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	s[0] = (char)(0xf0 | cp >> 18);
	s[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	s[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	s[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

static void test_every_code_point(void **state)
{
	for (uint32_t cp = 0; cp < 0x110000; cp++) {
		uint32_t got = UINT32_MAX;
		char s[4];
		size_t n = encode(s, cp);

		if (cp >= 0xd800 && cp <= 0xdfff) {
			assert_int_equal(utf8_sequence(s, n, &got), 0);
			continue;
		}
		assert_int_equal(utf8_sequence(s, n, &got), n);
		assert_int_equal(got, cp);
		assert_int_equal(utf8_sequence(s, n - 1, NULL), 0); /* cut */
	}
}

static void test_no_sequences(void **state)
{
	static const char *const bad[] = { "\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xf0\x80\x80\x80",
					   "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80",
					   "\xfe", "\xff", "\xc3(", "\xe2\x82(", "\xf0\x9f\x98(", "\xed\xa0\x80" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(utf8_sequence(bad[i], strlen(bad[i]), NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_code_point),
		cmocka_unit_test(test_no_sequences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
