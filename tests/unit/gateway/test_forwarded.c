/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who a request is from behind trusted proxies: only what they themselves have written counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/forwarded.h"

static const struct config_cidr trusted[] = {
	{ AF_INET, { 10 }, 8 },
	{ AF_INET6, { 0xfd }, 8 },
};
static const struct config cfg = { .trusted_proxies = trusted, .n_trusted_proxies = 2 };

static const struct {
	const char *fields[3];
	const char *want; /* NULL: nobody */
} cases[] = {
	{ { NULL }, NULL },
	{ { "192.0.2.1" }, "192.0.2.1" },
	{ { "  192.0.2.1\t" }, "192.0.2.1" },
	/* the rightmost stranger: what is left of it may be made up */
	{ { "1.1.1.1, 192.0.2.1" }, "192.0.2.1" },
	{ { "1.1.1.1,192.0.2.1,10.0.0.7" }, "192.0.2.1" },
	{ { "1.1.1.1, 192.0.2.1", "10.0.0.7, fd00::1" }, "192.0.2.1" },
	{ { "1.1.1.1", "192.0.2.1", "10.0.0.7" }, "192.0.2.1" },
	/* all are ours: the first of them asked */
	{ { "10.0.0.8, 10.0.0.7" }, "10.0.0.8" },
	/* one text for one address, however it is written */
	{ { "192.0.2.1:4711" }, "192.0.2.1" },
	{ { "[2001:DB8:0::1]:4711" }, "2001:db8::1" },
	{ { "[2001:db8::1]" }, "2001:db8::1" },
	{ { "2001:db8::1" }, "2001:db8::1" },
	{ { "::ffff:192.0.2.1" }, "192.0.2.1" },
	{ { "192.0.2.1, ::ffff:10.0.0.7" }, "192.0.2.1" },
	/* empty elements say nothing; what is no address stands for whoever wrote it */
	{ { "" }, NULL },
	{ { ", ,," }, NULL },
	{ { ",192.0.2.1,," }, "192.0.2.1" },
	{ { "unknown" }, NULL },
	{ { "1.1.1.1, unknown, 10.0.0.7" }, "10.0.0.7" },
	{ { "192.0.2.1, [2001:db8::1" }, NULL },
	{ { "192.0.2" }, NULL },
	{ { "1111111111111111111111111111111111111111111111111111.2.3.4" }, NULL },
};

static void test_cases(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct http_field fields[4] = { { .id = HTTP_F_HOST } };
		struct http_req r = { .fields = fields, .nfields = 1 };
		char buf[512], got[INET6_ADDRSTRLEN] = "";
		size_t at = 0;

		for (size_t k = 0; k < 3 && cases[i].fields[k]; k++) {
			size_t len = strlen(cases[i].fields[k]);

			memcpy(buf + at, cases[i].fields[k], len);
			fields[r.nfields++] = (struct http_field){ .id = HTTP_F_X_FORWARDED_FOR, .value_off = (uint32_t)at,
								   .value_len = (uint32_t)len };
			at += len;
		}
		if (forwarded_client(&cfg, &r, buf, got) != (cases[i].want != NULL) ||
		    (cases[i].want && strcmp(got, cases[i].want)))
			fail_msg("case %zu (%s): %s", i, cases[i].fields[0] ? cases[i].fields[0] : "", got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
