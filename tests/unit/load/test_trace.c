/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The trace reader and the requests made from a trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "load/source.h"
#include "load/trace.h"

/* A file with the text; the caller unlinks it. */
static char *write_file(const char *text)
{
	char *name = strdup("/tmp/kvsteer-load-trace-XXXXXX");
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return name;
}

static const char good[] =
	"{\"timestamp\": 3000, \"input_length\": 512, \"output_length\": 7, \"hash_ids\": [1]}\n"
	"\n"
	"{\"timestamp\": 6000, \"input_length\": 513, \"output_length\": 8, \"hash_ids\": [1, 2]}\n"
	"{\"timestamp\": 6000, \"input_length\": 600, \"output_length\": 9, \"hash_ids\": [1, 3], \"more\": true}\n"
	"{\"timestamp\": 6000, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [9]}\n"
	"{\"timestamp\": 7000, \"input_length\": 1024, \"output_length\": 10, \"hash_ids\": [1, 2]}";

static void check_good(bool poisson)
{
	/* Three share the stamp 6000; the next stamp is 1 s later, so they spread over 1 s, not 3. */
	static const double even_ms[] = { 0, 3000, 3000 + 1000 / 3.0, 3000 + 2000 / 3.0, 4000 };
	char *name = write_file(good);
	const struct load_trace_record *r;
	struct load_trace t;
	uint32_t outputs = 0;
	double last = 0;

	assert_int_equal(load_trace_open(&t, name, poisson, 1), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(load_trace_next(&t, &r), 1);
		if (!poisson)
			assert_true(fabs(r->at_ms - even_ms[i]) < 1e-6);
		assert_true(r->at_ms >= last);
		if (i >= 1 && i <= 3)
			assert_true(r->at_ms >= 3000 && r->at_ms < 4000);
		assert_int_equal(r->n_ids, (r->input_tokens + 511) / 512);
		last = r->at_ms;
		outputs += r->output_tokens;
	}
	assert_int_equal(outputs, 35);
	assert_int_equal(load_trace_next(&t, &r), 0);
	assert_int_equal(load_trace_next(&t, &r), 0);
	load_trace_close(&t);
	unlink(name);
	free(name);
}

static void test_spread(void **state)
{
	check_good(false);
	check_good(true);
}

#define FIRST "{\"timestamp\": 5, \"input_length\": 512, \"output_length\": 7, \"hash_ids\": [1]}\n"

static const struct {
	const char *text, *line, *what;
} bad[] = {
	{ FIRST "{\"timestamp\": 6\n", ":2: ", "not JSON" },
	{ FIRST "[]\n", ":2: ", "object" },
	{ FIRST "\n\n{\"input_length\": 512, \"output_length\": 7, \"hash_ids\": [1]}\n", ":4: ", "timestamp" },
	{ "{\"timestamp\": -1, \"input_length\": 512, \"output_length\": 7, \"hash_ids\": [1]}\n", ":1: ", "timestamp" },
	{ "{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 7, \"hash_ids\": []}\n", ":1: ", "input_length" },
	{ "{\"timestamp\": 1, \"input_length\": 1e3, \"output_length\": 7, \"hash_ids\": []}\n", ":1: ", "input_length" },
	{ "{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 99999999, \"hash_ids\": [1]}\n", ":1: ",
	  "output_length" },
	{ "{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 9}\n", ":1: ", "hash_ids" },
	{ "{\"timestamp\": 1, \"input_length\": 513, \"output_length\": 9, \"hash_ids\": [1]}\n", ":1: ",
	  "each 512 tokens" },
	{ "{\"timestamp\": 1, \"input_length\": 9, \"output_length\": 9, \"hash_ids\": [\"1\"]}\n", ":1: ",
	  "whole numbers" },
	{ FIRST "{\"timestamp\": 4, \"input_length\": 9, \"output_length\": 9, \"hash_ids\": [1]}\n", ":2: ",
	  "goes back" },
};

static void test_malformed(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char *name = write_file(bad[i].text);
		const struct load_trace_record *r;
		struct load_trace t;
		int rc;

		assert_int_equal(load_trace_open(&t, name, false, 1), 0);
		while ((rc = load_trace_next(&t, &r)) == 1)
			;
		if (rc != -EINVAL || strncmp(t.error, name, strlen(name)) || !strstr(t.error, bad[i].line) ||
		    !strstr(t.error, bad[i].what))
			fail_msg("row %zu: rc %d, %s", i, rc, t.error);
		load_trace_close(&t);
		unlink(name);
		free(name);
	}
	{
		struct load_trace t;

		assert_int_equal(load_trace_open(&t, "/nonexistent/trace", false, 1), -ENOENT);
		load_trace_close(&t);
	}
}

/* The prompt of a call, joined; the caller frees it. */
static char *prompt_of(const struct load_call *call, size_t *len)
{
	char *all = malloc(1 << 20), *at = all, *from, *to;

	for (int i = 0; i < call->n_iov; i++)
		at = mempcpy(at, call->iov[i].iov_base, call->iov[i].iov_len);
	*at = 0;
	from = strstr(all, "\"content\":\"");
	assert_non_null(from);
	from += strlen("\"content\":\"");
	to = strchr(from, '"');
	*len = (size_t)(to - from);
	memmove(all, from, *len);
	all[*len] = 0;
	return all;
}

/* Equal ids give equal text, other ids other text; the last block is cut to the length. */
static void test_prompts(void **state)
{
	static const size_t tokens[] = { 512, 513, 600, 1, 1024 };
	static const double at_s[] = { 0, 1.5, 1.5 + 0.5 / 3, 1.5 + 1 / 3.0, 2 };
	char *name = write_file(good), *text[5];
	struct load_options o = { .kind = LOAD_TRACE, .trace_file = name, .models = { "m" }, .n_models = 1,
				  .time_scale = 2, .stream = true, .seed = 1, .host = "h", .port = "1" };
	struct load_source s;
	size_t len;

	assert_int_equal(load_source_init(&s, &o), 0);
	load_source_start(&s, 1000000000);
	for (int i = 0; i < 5; i++) {
		struct load_call *call = load_call_new();

		assert_true(fabs((double)load_source_due(&s) / 1e9 - 1 - at_s[i]) < 1e-6);
		assert_int_equal(load_source_take(&s, call), 0);
		text[i] = prompt_of(call, &len);
		assert_int_equal(len, tokens[i] * 4);
		load_call_free(call);
	}
	assert_true(load_source_due(&s) == LOAD_NEVER);
	assert_memory_equal(text[0], text[1], 2048);
	assert_memory_equal(text[0], text[2], 2048);
	assert_memory_equal(text[1] + 2048, text[4] + 2048, 4);
	assert_memory_not_equal(text[2] + 2048, text[4] + 2048, 64);
	for (int i = 0; i < 5; i++)
		free(text[i]);
	load_source_free(&s);
	unlink(name);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_prompts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
