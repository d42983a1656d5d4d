/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* x-kvsteer-reason is written without printf: it reads as if printf had written it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/exchange.h"

static struct config_pool cfg = { .policy = CONFIG_POLICY_COST };
static struct fleet_pool pool = { .cfg = &cfg };

static void test_like_printf(void **state)
{
	static const double waits[] = { 0, .04, .06, .94, .96, 1, 9.99, 12.34, 99.94, 1234.56, 1e6, 123456789.1 };
	static const uint32_t counts[] = { 0, 1, 9, 10, 4096, UINT32_MAX };

	for (unsigned i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		for (unsigned k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
			struct exchange x = { .pool = &pool };
			char got[256], want[256];
			size_t n;

			x.plan.match_tokens = counts[k];
			x.plan.prompt_tokens = counts[(k + 1) % 6];
			x.plan.wait_ms = waits[i];
			x.plan.ttft_ms = waits[(i + 5) % 12];
			n = exchange_explain(&x, got, sizeof(got));
			snprintf(want, sizeof(want), "policy=cost match=%u of=%u wait_ms=%.1f ttft_ms=%.1f", x.plan.match_tokens,
				 x.plan.prompt_tokens, (double)x.plan.wait_ms, (double)x.plan.ttft_ms);
			assert_int_equal(n, strlen(want));
			assert_memory_equal(got, want, n);
		}
}

static void test_rest(void **state)
{
	struct exchange x = { .pool = &pool, .queued_ns = 1500000, .tries = 2 };
	char got[256];
	size_t n;

	x.plan.overflow = true;
	n = exchange_explain(&x, got, sizeof(got));
	got[n] = 0;
	assert_string_equal(got, "policy=cost match=0 of=0 wait_ms=0.0 ttft_ms=0.0 queued_ms=1.5 overflow=1 retry=1");
}

/* Odd figures and small buffers: never beyond the buffer. */
static void test_bounds(void **state)
{
	static const double odd[] = { -1, 1e300, -1e300, __builtin_nan(""), __builtin_inf() };

	for (unsigned i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		for (size_t cap = 0; cap < 100; cap++) {
			struct exchange x = { .pool = &pool };
			char got[128];

			memset(got, 0x5a, sizeof(got));
			x.plan.wait_ms = odd[i];
			x.plan.ttft_ms = odd[i];
			assert_true(exchange_explain(&x, got, cap) <= cap);
			for (size_t k = cap; k < sizeof(got); k++)
				assert_int_equal(got[k], 0x5a);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_like_printf), cmocka_unit_test(test_rest), cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
