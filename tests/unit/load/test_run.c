/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whole runs against a small server: counts, exit codes and the JSON that other
 * tools read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <yyjson.h>

#include "load/options.h"
#include "load/run.h"

/* Every request is answered with two tokens; 64 of 80 prompt tokens are cached. */
#define ANSWER                                                                                              \
	"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-kvsteer-backend: n1\r\n"                   \
	"content-length: 180\r\n\r\n"                                                                       \
	"data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\n"                                        \
	"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":80,\"completion_tokens\":2,"                    \
	"\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n"                                            \
	"data: [DONE]\n\n"

#define MAX_CONNS 64

struct server {
	int listener;
	uint32_t requests;
	bool refuse; /* answer 503 */
	char port[8];
	pthread_t thread;
};

/* One thread, level-triggered: a request is complete when its JSON's end has come. */
static void *serve(void *arg)
{
	static const char busy[] = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n";
	struct server *s = arg;
	struct pollfd fds[MAX_CONNS + 1] = { { .fd = s->listener, .events = POLLIN } };
	static char buf[1 << 16];
	nfds_t n = 1;

	while (poll(fds, n, 10000) > 0) {
		if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			break;
		if (fds[0].revents && n <= MAX_CONNS)
			fds[n++] = (struct pollfd){ .fd = accept(s->listener, NULL, NULL), .events = POLLIN };
		for (nfds_t i = 1; i < n; i++) {
			ssize_t got;

			if (!fds[i].revents)
				continue;
			got = recv(fds[i].fd, buf, sizeof(buf), 0);
			if (got <= 0) {
				close(fds[i].fd);
				fds[i--] = fds[--n];
			} else if (got >= 4 && !memcmp(buf + got - 4, "\"}]}", 4)) {
				const char *text = s->refuse ? busy : ANSWER;

				s->requests++;
				send(fds[i].fd, text, strlen(text), MSG_NOSIGNAL);
			}
		}
	}
	for (nfds_t i = 1; i < n; i++)
		close(fds[i].fd);
	return NULL;
}

static int setup(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	struct server *s = calloc(1, sizeof(*s));

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)) || listen(s->listener, 64) ||
	    getsockname(s->listener, (struct sockaddr *)&addr, &len))
		return -1;
	snprintf(s->port, sizeof(s->port), "%u", ntohs(addr.sin_port));
	*state = s;
	return pthread_create(&s->thread, NULL, serve, s);
}

static int teardown(void **state)
{
	struct server *s = *state;

	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
	free(s);
	return 0;
}

struct run {
	int rc;
	yyjson_doc *doc;
	yyjson_val *json; /* NULL when none was written */
};

/* Runs with the flags (separated by spaces). */
static struct run run(const struct server *s, const char *flags)
{
	char line[512], *argv[40] = { (char *)"kvsteer-load" }, *save = NULL;
	char json[] = "/tmp/kvsteer-load-run-XXXXXX";
	struct load_options o;
	struct run r = { 0 };
	int argc = 1, fd = mkstemp(json);

	assert_true(fd >= 0);
	close(fd);
	snprintf(line, sizeof(line), "--url http://127.0.0.1:%s --model m --json %s %s", s->port, json, flags);
	for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	assert_int_equal(load_options_parse(&o, argc, argv, stdout, stderr), 0);
	r.rc = load_run(&o);
	load_options_free(&o);
	r.doc = yyjson_read_file(json, 0, NULL, NULL);
	r.json = yyjson_doc_get_root(r.doc);
	unlink(json);
	return r;
}

static double number(const struct run *r, const char *pointer)
{
	yyjson_val *v = yyjson_ptr_get(r->json, pointer);

	if (!yyjson_is_num(v))
		fail_msg("%s is not a number", pointer);
	return yyjson_get_num(v);
}

/* Even gaps: exactly rate x duration are measured, the warm-up is sent beside them. */
static void test_open_loop(void **state)
{
	struct server *s = *state;
	struct run r = run(s, "--workload support --prefixes 5 --rate 50 --warmup 0.4 --duration 1");
	static const char *const hists[] = { "ttft_ms", "itl_ms", "e2e_ms" };
	static const char *const stats[] = { "p50", "p90", "p99", "mean" };
	char pointer[64];

	assert_int_equal(r.rc, 0);
	assert_true(number(&r, "/requests") == 50);
	assert_int_equal(s->requests, 70);
	assert_true(number(&r, "/errors") == 0);
	assert_true(number(&r, "/offered_rps") == 50);
	assert_true(fabs(number(&r, "/rate_rps") - 50) <= 3);
	assert_true(fabs(number(&r, "/hit_rate") - 0.8) < 1e-9);
	assert_true(number(&r, "/per_backend/n1") == 50);
	assert_true(number(&r, "/prompt_tokens") == 4000);
	assert_true(number(&r, "/late_ms_p99") >= 0);
	assert_true(yyjson_is_obj(yyjson_ptr_get(r.json, "/errors_by_reason")));
	for (size_t h = 0; h < 3; h++) {
		for (size_t i = 0; i < 4; i++) {
			snprintf(pointer, sizeof(pointer), "/%s/%s", hists[h], stats[i]);
			/* One token an answer: there is no gap, so no figure of it. */
			if (h == 1)
				assert_true(yyjson_is_null(yyjson_ptr_get(r.json, pointer)));
			else
				assert_true(number(&r, pointer) > 0);
		}
	}
	yyjson_doc_free(r.doc);
}

static void test_closed_loop(void **state)
{
	struct server *s = *state;
	struct run r = run(s, "--workload long8k --prefixes 2 --prefix-tokens 64 --concurrency 7 --requests 100");

	assert_int_equal(r.rc, 0);
	assert_true(number(&r, "/requests") == 100);
	assert_int_equal(s->requests, 100);
	yyjson_doc_free(r.doc);
}

static void test_chat(void **state)
{
	struct server *s = *state;
	struct run r = run(s, "--workload chat --rate 100 --time-scale 200 --requests 200");

	assert_int_equal(r.rc, 0);
	assert_true(number(&r, "/requests") == 200);
	assert_true(number(&r, "/errors") == 0);
	yyjson_doc_free(r.doc);
}

/* Errors are results, not a reason to fail. */
static void test_errors_are_counted(void **state)
{
	struct server *s = *state;
	struct run r;

	s->refuse = true;
	r = run(s, "--workload support --prefixes 2 --rate 50 --requests 20");
	assert_int_equal(r.rc, 0);
	assert_true(number(&r, "/errors") == 20);
	assert_true(number(&r, "/errors_by_reason/503") == 20);
	assert_true(yyjson_is_null(yyjson_ptr_get(r.json, "/hit_rate")));
	yyjson_doc_free(r.doc);
}

/* A good trace, one that ends before the duration, and one with a fault: exit code 1. */
static void test_trace(void **state)
{
	static const char text[] =
		"{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 2, \"hash_ids\": [1]}\n"
		"{\"timestamp\": 100, \"input_length\": 9, \"output_length\": 2, \"hash_ids\": [1]}\n"
		"{\"timestamp\": 200, \"input_length\": 9, \"output_length\": 2, \"hash_ids\": [1]}\n";
	struct server *s = *state;
	char name[] = "/tmp/kvsteer-load-trace-XXXXXX", flags[128];
	struct run r;
	int fd = mkstemp(name);

	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	snprintf(flags, sizeof(flags), "--workload trace:%s --time-scale 2", name);
	r = run(s, flags);
	assert_int_equal(r.rc, 0);
	assert_true(number(&r, "/requests") == 3);
	yyjson_doc_free(r.doc);
	/* The window of a trace that is shorter than the duration ends with it. */
	snprintf(flags, sizeof(flags), "--workload trace:%s --duration 30", name);
	r = run(s, flags);
	assert_int_equal(r.rc, 0);
	assert_true(number(&r, "/offered_rps") > 5);
	yyjson_doc_free(r.doc);
	assert_int_equal(write(fd, "{\n", 2), 2);
	snprintf(flags, sizeof(flags), "--workload trace:%s", name);
	r = run(s, flags);
	assert_int_equal(r.rc, 1);
	yyjson_doc_free(r.doc);
	close(fd);
	unlink(name);
}

static void test_cannot_run(void **state)
{
	struct server gone = { .port = "1" };
	struct run r = run(&gone, "--workload support --prefixes 2 --rate 5 --requests 2");

	assert_int_equal(r.rc, 1);
	assert_null(r.json);
	r = run(*state, "--workload trace:/nonexistent/file");
	assert_int_equal(r.rc, 1);
	assert_null(r.json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_open_loop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_loop, setup, teardown),
		cmocka_unit_test_setup_teardown(test_chat, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errors_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_trace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cannot_run, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
