/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the engines say with 503, in the shapes of their answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "signals/refusal.h"

static const struct {
	const char *name, *body;
	enum refusal means;
} answers[] = {
	{ "vllm, queue full",
	  "{\"error\":{\"message\":\"The engine is currently busy and cannot accept new requests. Please retry later.\","
	  "\"type\":\"ServiceUnavailableError\",\"param\":null,\"code\":503}}", REFUSAL_BUSY },
	{ "llama.cpp, loading",
	  "{\"error\":{\"code\":503,\"message\":\"Loading model\",\"type\":\"unavailable_error\"}}", REFUSAL_LOADING },
	{ "llama.cpp, no slot",
	  "{\"error\":{\"code\":503,\"message\":\"no slot available\",\"type\":\"unavailable_error\"}}", REFUSAL_BUSY },
	{ "sglang, queue full",
	  "{\"object\":\"error\",\"message\":\"The request queue is full.\",\"type\":\"SERVICE_UNAVAILABLE\",\"code\":503}",
	  REFUSAL_BUSY },
	{ "tgi", "{\"error\":\"Model is overloaded\",\"error_type\":\"overloaded\"}", REFUSAL_BUSY },
	{ "loading, other words", "{\"error\":\"the MODEL IS LOADING, wait\"}", REFUSAL_LOADING },
	{ "vllm, dead engine", "{\"error\":{\"message\":\"EngineCore encountered an issue.\",\"code\":503}}", REFUSAL_BROKEN },
	{ "a proxy's page", "<html><head><title>503 Service Temporarily Unavailable</title></head></html>", REFUSAL_BROKEN },
	{ "empty", "", REFUSAL_BROKEN },
	{ "cut before the words end", "no slot availabl", REFUSAL_BROKEN },
};

static void test_messages(void **state)
{
	for (unsigned i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		size_t n = strlen(answers[i].body);
		char *exact = malloc(n + 1); /* no byte behind the end may be looked at: no NUL there */
		enum refusal got;

		memcpy(exact, answers[i].body, n);
		exact[n] = 'e';
		got = refusal_of_503(n ? exact : NULL, n);
		if (got != answers[i].means)
			fail_msg("%s: %d", answers[i].name, got);
		free(exact);
	}
}

/* The message is found behind a head and in pieces of chunked coding, as it is held. */
static void test_behind_a_head(void **state)
{
	static const char held[] = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
				   "transfer-encoding: chunked\r\n\r\n3f\r\n{\"error\":{\"message\":\"The engine is currently busy\"}}";
	static const char nul[] = "\0\0no slot\0 no slot available";

	assert_int_equal(refusal_of_503(held, sizeof(held) - 1), REFUSAL_BUSY);
	assert_int_equal(refusal_of_503(nul, sizeof(nul) - 1), REFUSAL_BUSY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_behind_a_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
