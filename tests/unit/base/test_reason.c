/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The vocabulary of failures: names and statuses are an interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/reason.h"

static const struct {
	const char *name;
	int status;
} interface[] = {
	{ "bad_request", 400 },	       { "body_too_large", 413 },	{ "path_not_allowed", 403 },
	{ "model_not_found", 404 },    { "queue_full", 429 },		{ "queue_timeout", 429 },
	{ "no_backend", 503 },	       { "connect_failed", 502 },	{ "backend_reset", 502 },
	{ "backend_bad_response", 502 }, { "backend_busy", 503 },	{ "first_token_timeout", 504 },
	{ "draining", 503 },	       { "overloaded", 503 },		{ "header_too_large", 431 },
	{ "uri_too_long", 414 },       { "method_not_allowed", 405 },	{ "request_timeout", 408 },
	{ "expectation_failed", 417 }, { "not_implemented", 501 },	{ "http_version", 505 },
	{ "unauthorized", 401 },       { "forbidden", 403 },		{ "rate_limited", 429 },
	{ "client_gone", 0 },	       { "stream_cut", 0 },		{ "stream_idle", 0 },
};
#define N (sizeof(interface) / sizeof(*interface))

static void test_names_and_statuses(void **state)
{
	assert_int_equal(N, REASON_COUNT - 1);
	for (unsigned i = 0; i < N; i++) {
		enum reason r = reason_from_name(interface[i].name);

		assert_string_equal(reason_name(r), interface[i].name);
		assert_int_equal(reason_status(r), interface[i].status);
	}
}

static void test_unknown(void **state)
{
	assert_string_equal(reason_name(REASON_NONE), "-");
	assert_int_equal(reason_status(REASON_NONE), 0);
	assert_string_equal(reason_name(REASON_COUNT), "-");
	assert_string_equal(reason_name((enum reason)-1), "-");
	assert_int_equal(reason_status((enum reason)1000), 0);
	assert_int_equal(reason_from_name("no such reason"), REASON_BAD_REQUEST);
	assert_int_equal(reason_from_name("-"), REASON_BAD_REQUEST);
	assert_int_equal(reason_from_name(""), REASON_BAD_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_statuses),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
