/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Command line of the load generator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/options.h"

#define MAX_ARGS 40

struct parsed {
	struct load_options o;
	char *words; /* what o points into */
	char message[512];
	int rc;
};

/* Words are separated by spaces; a ~ stands for a space inside one. */
static struct parsed *parse(const char *line)
{
	struct parsed *p = calloc(1, sizeof(*p));
	char *argv[MAX_ARGS] = { (char *)"kvsteer-load" }, *save = NULL;
	FILE *err = fmemopen(p->message, sizeof(p->message) - 1, "w"), *out = fopen("/dev/null", "w");
	int argc = 1;

	p->words = strdup(line);
	for (char *w = strtok_r(p->words, " ", &save); w && argc < MAX_ARGS - 1; w = strtok_r(NULL, " ", &save)) {
		for (char *c = w; *c; c++)
			if (*c == '~')
				*c = ' ';
		argv[argc++] = w;
	}
	p->rc = load_options_parse(&p->o, argc, argv, out, err);
	fclose(err);
	fclose(out);
	return p;
}

static void drop(struct parsed *p)
{
	load_options_free(&p->o);
	free(p->words);
	free(p);
}

#define URL "--url http://127.0.0.1:8080 "
#define BASE URL "--model m "
#define RUN " --rate 1 --duration 1"

static void test_good(void **state)
{
	static const char *const lines[] = {
		BASE "--workload support --rate 120 --poisson --duration 60 --warmup 10",
		BASE "--workload long8k --concurrency 70 --requests 1000 --stream 0 --api completions",
		BASE "--workload chat --rate .5 --duration .5 --api invocations --insecure",
		BASE "--workload hot" RUN " --header X-A:~b --header Authorization:~Bearer~x",
		BASE "--workload burst" RUN " --zipf .9 --prefixes 4000 --prefix-tokens 100 --question-tokens 9",
		BASE "--workload sharegpt" RUN " --output-tokens 5 --sigma 0 --seed 77",
		BASE "--workload lora" RUN " --adapters a,b --timeout 5",
		BASE "--workload trace:/x/y.jsonl --time-scale 1.5",
		BASE "--workload trace:x --concurrency 3 --duration 5 --json -",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		struct parsed *p = parse(lines[i]);

		if (p->rc)
			fail_msg("%s: %s", lines[i], p->message);
		drop(p);
	}
}

/* Each message names the flag and what is allowed. */
static const struct {
	const char *line, *flag, *allowed;
} bad[] = {
	{ "--model m --workload hot" RUN, "--url", "missing" },
	{ URL "--workload hot" RUN, "--model", "missing" },
	{ BASE RUN, "--workload", "support, long8k" },
	{ BASE "--workload hott" RUN, "--workload hott", "trace:FILE" },
	{ BASE "--workload trace:" RUN, "--workload trace:", "trace:FILE" },
	{ BASE "--workload hot --duration 1", "--rate", "missing" },
	{ BASE "--workload hot --rate 1", "--duration", "missing" },
	{ BASE "--workload hot --rate 1 --concurrency 1 --duration 1", "--concurrency", "exclude" },
	{ BASE "--workload hot --rate 1 --requests 1 --duration 1", "--requests", "exclude" },
	{ BASE "--workload hot --rate 0 --duration 1", "--rate 0", "0.001..100000" },
	{ BASE "--workload hot --rate 1x --duration 1", "--rate 1x", "0.001..100000" },
	{ BASE "--workload hot --rate nan --duration 1", "--rate nan", "0.001..100000" },
	{ BASE "--workload hot --concurrency 10001 --duration 1", "--concurrency 10001", "1..10000" },
	{ BASE "--workload hot --concurrency 1.5 --duration 1", "--concurrency 1.5", "whole" },
	{ BASE "--workload hot --concurrency 2 --poisson --duration 1", "--poisson", "closed loop" },
	{ BASE "--workload burst --concurrency 2 --duration 1", "--concurrency", "open loop" },
	{ BASE "--workload hot --prefixes 1" RUN, "--prefixes 1", "2 at least" },
	{ BASE "--workload hot --prefixes 1000000 --prefix-tokens 8000" RUN, "--prefixes 1000000", "2 GiB" },
	{ BASE "--workload trace:x --rate 3", "--rate", "--time-scale" },
	{ BASE "--workload trace:x --zipf 3", "--zipf", "no meaning" },
	{ BASE "--workload sharegpt --prefixes 3" RUN, "--prefixes", "no meaning" },
	{ BASE "--workload hot --stream 2" RUN, "--stream 2", "1 or 0" },
	{ BASE "--workload hot --api chats" RUN, "--api chats", "completions" },
	{ BASE "--workload hot --adapters ," RUN, "--adapters", "name" },
	{ BASE "--workload hot --adapters a,b\"c" RUN, "--adapters", "names" },
	{ BASE "--workload hot --header x" RUN, "--header", "Name: value" },
	{ BASE "--workload hot --header Host:~x" RUN, "--header", "own" },
	{ BASE "--workload hot --rate", "--rate", "needs a value" },
	{ BASE "--workload hot --burst 3" RUN, "--burst", "unknown" },
	{ BASE "--workload hot extra" RUN, "extra", "unexpected" },
	{ "--url https://h/ --model m --workload hot" RUN, "https://h/", "not in this version" },
	{ "--url ftp://h/ --model m --workload hot" RUN, "--url", "http://HOST" },
	{ "--url http:///x --model m --workload hot" RUN, "--url", "no host" },
	{ "--url http://h:0 --model m --workload hot" RUN, "--url", "1..65535" },
	{ "--url http://h:99999 --model m --workload hot" RUN, "--url", "1..65535" },
	{ "--url http://h:8x --model m --workload hot" RUN, "--url", "1..65535" },
	{ "--url http://u:p@h --model m --workload hot" RUN, "--url", "'@'" },
	{ "--url http://[::1 --model m --workload hot" RUN, "--url", "IPv6" },
	{ URL "--model a\"b --workload hot" RUN, "--model", "quote" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct parsed *p = parse(bad[i].line);

		if (p->rc != -EINVAL || !strstr(p->message, bad[i].flag) || !strstr(p->message, bad[i].allowed))
			fail_msg("%s: rc %d, message %s", bad[i].line, p->rc, p->message);
		drop(p);
	}
}

/* A header may be a credential: no message repeats its value. */
static void test_header_value_is_not_shown(void **state)
{
	struct parsed *p = parse(BASE "--workload hot --header Host:~secret-value" RUN);

	assert_int_equal(p->rc, -EINVAL);
	assert_null(strstr(p->message, "secret-value"));
	drop(p);
}

static void test_url_parts(void **state)
{
	static const struct {
		const char *url, *host, *port, *path;
	} rows[] = {
		{ "http://h", "h", "80", "" },
		{ "http://h/", "h", "80", "" },
		{ "HTTP://127.0.0.1:8080/v1", "127.0.0.1", "8080", "" },
		{ "http://[::1]:9/a/b/v1/", "::1", "9", "/a/b" },
		{ "http://[fe80::1]/x", "fe80::1", "80", "/x" },
	};
	char line[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct parsed *p;

		snprintf(line, sizeof(line), "--url %s --model m --workload hot" RUN, rows[i].url);
		p = parse(line);
		assert_int_equal(p->rc, 0);
		assert_string_equal(p->o.host, rows[i].host);
		assert_string_equal(p->o.port, rows[i].port);
		assert_string_equal(p->o.path, rows[i].path);
		drop(p);
	}
}

static void test_defaults_and_overrides(void **state)
{
	struct parsed *p = parse(BASE "--workload support" RUN);

	assert_int_equal(p->o.shape.prefixes, 1000);
	assert_int_equal(p->o.shape.prefix_tokens, 3008);
	assert_int_equal(p->o.shape.output_tokens, 150);
	assert_true(p->o.stream && p->o.seed == 1 && p->o.time_scale == 1);
	drop(p);
	p = parse(BASE "--workload long8k --output-tokens 7 --zipf 0" RUN);
	assert_int_equal(p->o.shape.prefixes, 400);
	assert_int_equal(p->o.shape.output_tokens, 7);
	assert_true(p->o.shape.zipf == 0);
	drop(p);
	p = parse(BASE "--workload lora" RUN);
	assert_int_equal(p->o.n_models, 32);
	assert_string_equal(p->o.models[31], "adapter-31");
	drop(p);
	p = parse(BASE "--workload lora --adapters a,b --adapters c,d,e" RUN);
	assert_int_equal(p->o.n_models, 3);
	assert_string_equal(p->o.models[2], "e");
	drop(p);
	p = parse("--help");
	assert_int_equal(p->rc, 1);
	drop(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_header_value_is_not_shown),
		cmocka_unit_test(test_url_parts),
		cmocka_unit_test(test_defaults_and_overrides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
