/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scraper thread against small servers on real sockets: each behaves in
 * one way, and none may disturb the reading of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "signals/scraper.h"

#define MSEC 1000000ull
#define WAIT_MS 8000
#define CONNS 32

static const char load_text[] = "vllm:num_requests_running 4\nvllm:num_requests_waiting 2\n"
				"vllm:prompt_tokens_total 10\n";
static const char llama_text[] = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n"
				 "llamacpp:prompt_tokens_total 3\n";
static const char props_text[] = "{\"default_generation_settings\":{\"n_ctx\":1000},\"total_slots\":3}";

enum behaviour { SERVE, LLAMA, HANG, STATUS_503, HTML, RESET, ENDLESS, DRIP };

/* A server of one thread: reads heads, answers by its behaviour, counts. */
struct server {
	enum behaviour how;
	int fd, stop[2];
	uint16_t port;
	pthread_t thread;
	int conns[CONNS];
	unsigned accepted, requests, heads; /* heads: requests other than GET */
};

static void reply(int fd, const char *status, const char *body)
{
	char head[256];
	int n = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\nContent-Type: text/plain\r\n\r\n", status,
			 strlen(body));

	(void)!send(fd, head, (size_t)n, MSG_NOSIGNAL | MSG_MORE);
	(void)!send(fd, body, strlen(body), MSG_NOSIGNAL);
}

/* Returns false to close the connection. */
static bool serve(struct server *s, int fd, const char *request)
{
	static char block[65536];

	__atomic_add_fetch(&s->requests, 1, __ATOMIC_RELAXED);
	if (strncmp(request, "GET ", 4))
		__atomic_add_fetch(&s->heads, 1, __ATOMIC_RELAXED);
	switch (s->how) {
	case SERVE:
		reply(fd, "200 OK", load_text);
		return true;
	case LLAMA:
		reply(fd, "200 OK", !strncmp(request, "GET /base/props ", 16) ? props_text : llama_text);
		return true;
	case HANG:
		return true;
	case DRIP: /* a head, then silence */
		(void)!send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nvllm:", 45, MSG_NOSIGNAL);
		return true;
	case STATUS_503:
		reply(fd, "503 Service Unavailable", load_text);
		return true;
	case HTML:
		reply(fd, "200 OK", "<html>hello</html>\n");
		return true;
	case RESET:
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
		return false;
	case ENDLESS:
		(void)!send(fd, "HTTP/1.1 200 OK\r\n\r\n", 19, MSG_NOSIGNAL);
		memset(block, '\n', sizeof(block));
		for (int i = 0; i < 200; i++)
			if (send(fd, block, sizeof(block), MSG_NOSIGNAL) < 0)
				break;
		return false;
	}
	return false;
}

static void *server_thread(void *arg)
{
	struct server *s = arg;

	for (;;) {
		struct pollfd p[CONNS + 2] = { { s->stop[0], POLLIN, 0 }, { s->fd, POLLIN, 0 } };

		for (int i = 0; i < CONNS; i++)
			p[i + 2] = (struct pollfd){ s->conns[i], POLLIN, 0 };
		poll(p, CONNS + 2, -1);
		if (p[0].revents)
			return NULL;
		if (p[1].revents) {
			int fd = accept(s->fd, NULL, NULL), i = 0;

			while (i < CONNS && s->conns[i] >= 0)
				i++;
			assert_in_range(i, 0, CONNS - 1);
			s->conns[i] = fd;
			__atomic_add_fetch(&s->accepted, 1, __ATOMIC_RELAXED);
		}
		for (int i = 0; i < CONNS; i++) {
			char request[2048];
			ssize_t n;

			if (s->conns[i] < 0 || p[i + 2].fd != s->conns[i] || !p[i + 2].revents)
				continue;
			n = recv(s->conns[i], request, sizeof(request) - 1, 0);
			if (n > 0) {
				request[n] = '\0';
				if (serve(s, s->conns[i], request))
					continue;
			}
			close(s->conns[i]);
			s->conns[i] = -1;
		}
	}
}

static void server_start(struct server *s, enum behaviour how)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);

	memset(s, 0, sizeof(*s));
	s->how = how;
	for (int i = 0; i < CONNS; i++)
		s->conns[i] = -1;
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(s->fd, 64), 0);
	getsockname(s->fd, (struct sockaddr *)&addr, &len);
	s->port = ntohs(addr.sin_port);
	assert_int_equal(pipe(s->stop), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, server_thread, s), 0);
}

static void server_stop(struct server *s)
{
	(void)!write(s->stop[1], "x", 1);
	pthread_join(s->thread, NULL);
	for (int i = 0; i < CONNS; i++)
		if (s->conns[i] >= 0)
			close(s->conns[i]);
	close(s->fd);
	close(s->stop[0]);
	close(s->stop[1]);
}

/* What the callbacks saw, by cookie. */
struct seen {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned samples[16], errors[16][SCRAPE_ERRORS];
	struct signal_sample last[16];
	uint64_t at_ns[16][64];
};

static void seen_init(struct seen *s)
{
	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
}

static void on_sample(void *ctx, uint64_t cookie, const struct signal_sample *sample, uint64_t now_ns)
{
	struct seen *s = ctx;

	pthread_mutex_lock(&s->lock);
	s->at_ns[cookie][s->samples[cookie]++ % 64] = now_ns;
	s->last[cookie] = *sample;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static void on_error(void *ctx, uint64_t cookie, enum scrape_error err, uint64_t now_ns)
{
	struct seen *s = ctx;

	pthread_mutex_lock(&s->lock);
	s->errors[cookie][err]++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static const struct scraper_ops ops = { on_sample, on_error };

/* Waits until *counter reaches `at_least`. */
static void wait_for(struct seen *s, const unsigned *counter, unsigned at_least)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_MS / 1000;
	pthread_mutex_lock(&s->lock);
	while (*counter < at_least)
		if (pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT)
			break;
	pthread_mutex_unlock(&s->lock);
	assert_true(*counter >= at_least);
}

static char *url_of(const struct server *s, const char *path)
{
	static char urls[16][64];
	static int next;
	char *url = urls[next++ % 16];

	snprintf(url, sizeof(urls[0]), "http://127.0.0.1:%u%s", s->port, path);
	return url;
}

/* Samples arrive, on one kept connection, by GET, at the interval. */
static void test_reads(void **state)
{
	struct scraper_stats stats;
	struct scraper *scraper;
	struct server server;
	struct seen seen;

	seen_init(&seen);
	server_start(&server, SERVE);
	assert_int_equal(scraper_create(&scraper, &ops, &seen), 0);
	assert_int_equal(scraper_set_targets(scraper, &(struct scraper_target){ .url = url_of(&server, "/metrics"), .cookie = 3 }, 1), 0);
	wait_for(&seen, &seen.samples[3], 5);
	scraper_stats_get(scraper, &stats);
	scraper_destroy(scraper);
	assert_int_equal(seen.last[3].running, 4);
	assert_int_equal(seen.last[3].waiting, 2);
	assert_int_equal(server.accepted, 1);
	assert_int_equal(server.heads, 0);
	assert_true(stats.samples >= 5 && stats.targets == 1 && stats.bytes >= 5 * strlen(load_text));
	/* interval 0 was raised to 250 ms; jitter is a tenth either way, plus a tick. */
	for (int i = 1; i < 5; i++) {
		uint64_t gap = seen.at_ns[3][i] - seen.at_ns[3][i - 1];

		assert_true(gap >= 190 * MSEC);
	}
	assert_true(seen.at_ns[3][4] - seen.at_ns[3][0] >= 900 * MSEC);
	server_stop(&server);
}

/* Each way to fail has its name, and the healthy target beside them is read in time. */
static void test_failures_apart(void **state)
{
	static const enum behaviour how[] = { SERVE, HANG, STATUS_503, HTML, RESET, ENDLESS, DRIP };
	enum { N = sizeof(how) / sizeof(*how) };
	struct scraper_target targets[N + 1];
	struct server servers[N], gone;
	struct scraper_stats stats;
	struct scraper *scraper;
	struct seen seen;
	unsigned hung;

	seen_init(&seen);
	for (int i = 0; i < N; i++) {
		server_start(&servers[i], how[i]);
		targets[i] = (struct scraper_target){ .url = url_of(&servers[i], "/metrics"), .cookie = (uint64_t)i,
						      .interval_ns = 250 * MSEC };
	}
	server_start(&gone, SERVE);
	targets[N] = (struct scraper_target){ .url = url_of(&gone, "/metrics"), .cookie = N, .interval_ns = 250 * MSEC };
	server_stop(&gone);
	assert_int_equal(scraper_create(&scraper, &ops, &seen), 0);
	assert_int_equal(scraper_set_targets(scraper, targets, N + 1), 0);

	wait_for(&seen, &seen.errors[1][SCRAPE_TIMEOUT], 1); /* after 4 intervals */
	wait_for(&seen, &seen.errors[2][SCRAPE_STATUS], 2);
	wait_for(&seen, &seen.errors[3][SCRAPE_UNPARSABLE], 2);
	wait_for(&seen, &seen.errors[4][SCRAPE_REFUSED], 2);
	wait_for(&seen, &seen.errors[5][SCRAPE_UNPARSABLE], 2);
	wait_for(&seen, &seen.errors[6][SCRAPE_TIMEOUT], 1);
	wait_for(&seen, &seen.errors[N][SCRAPE_REFUSED], 2);
	pthread_mutex_lock(&seen.lock);
	/* One read that hangs costs its target four turns, and the others none. */
	hung = seen.errors[1][SCRAPE_TIMEOUT];
	assert_true(seen.samples[0] >= 3 * hung);
	for (int i = 1; i <= N; i++)
		assert_int_equal(seen.samples[i], 0);
	pthread_mutex_unlock(&seen.lock);
	scraper_stats_get(scraper, &stats);
	assert_true(stats.skipped >= 2);
	scraper_destroy(scraper);
	/* One outstanding: the server that hangs never saw a second connection beside the first. */
	assert_true(servers[1].accepted <= hung + 1);
	for (int i = 0; i < N; i++)
		server_stop(&servers[i]);
}

/* llama.cpp's capacity comes from /props beside its /metrics. */
static void test_llamacpp_props(void **state)
{
	struct scraper *scraper;
	struct server server;
	struct seen seen;

	seen_init(&seen);
	server_start(&server, LLAMA);
	assert_int_equal(scraper_create(&scraper, &ops, &seen), 0);
	assert_int_equal(scraper_set_targets(scraper, &(struct scraper_target){ .url = url_of(&server, "/base/metrics?x=1") }, 1), 0);
	wait_for(&seen, &seen.samples[0], 2);
	scraper_destroy(scraper);
	assert_int_equal(seen.last[0].engine, ENGINE_LLAMACPP);
	assert_int_equal(seen.last[0].kv_capacity_tokens, 3000);
	server_stop(&server);
}

/* A new list: who stays goes on with connection and memory, who goes is silent
 * from the moment that set_targets returns. */
static void test_reload(void **state)
{
	struct scraper_target both[2], one, many[8];
	struct scraper *scraper;
	struct server a, b;
	struct seen seen;

	seen_init(&seen);
	server_start(&a, SERVE);
	server_start(&b, SERVE);
	both[0] = (struct scraper_target){ .url = url_of(&a, "/metrics"), .cookie = 1 };
	both[1] = (struct scraper_target){ .url = url_of(&b, "/metrics"), .cookie = 2 };
	one = both[0];
	assert_int_equal(scraper_create(&scraper, &ops, &seen), 0);
	assert_int_equal(scraper_set_targets(scraper, both, 2), 0);
	wait_for(&seen, &seen.samples[1], 1);
	wait_for(&seen, &seen.samples[2], 1);
	for (int round = 0; round < 20; round++) {
		unsigned before;

		assert_int_equal(scraper_set_targets(scraper, &one, 1), 0);
		pthread_mutex_lock(&seen.lock);
		before = seen.samples[2] + seen.errors[2][SCRAPE_REFUSED];
		pthread_mutex_unlock(&seen.lock);
		wait_for(&seen, &seen.samples[1], seen.samples[1] + 1);
		assert_int_equal(seen.samples[2] + seen.errors[2][SCRAPE_REFUSED], before);
		assert_int_equal(scraper_set_targets(scraper, both, 2), 0);
	}
	assert_int_equal(a.accepted, 1);
	/* The same URL under several cookies is several targets. */
	for (int i = 0; i < 8; i++)
		many[i] = (struct scraper_target){ .url = both[0].url, .cookie = (uint64_t)(15 - i) };
	assert_int_equal(scraper_set_targets(scraper, many, 8), 0);
	for (int i = 8; i < 16; i++)
		wait_for(&seen, &seen.samples[i], 1);
	assert_int_equal(scraper_set_targets(scraper, NULL, 0), 0);
	assert_int_equal(scraper_set_targets(scraper, both, SCRAPE_TARGETS_MAX + 1), -E2BIG);
	scraper_destroy(scraper);
	server_stop(&a);
	server_stop(&b);
}

/* A fleet is not read all at once: first turns spread over the interval. */
static void test_spread(void **state)
{
	struct scraper_target targets[16];
	unsigned early = 0, late = 0;
	struct scraper *scraper;
	struct server server;
	struct seen seen;
	uint64_t start;

	seen_init(&seen);
	server_start(&server, SERVE);
	for (int i = 0; i < 16; i++)
		targets[i] = (struct scraper_target){ .url = url_of(&server, "/metrics"), .cookie = (uint64_t)i,
						      .interval_ns = 1000 * MSEC };
	assert_int_equal(scraper_create(&scraper, &ops, &seen), 0);
	start = clock_now_ns();
	assert_int_equal(scraper_set_targets(scraper, targets, 16), 0);
	for (int i = 0; i < 16; i++)
		wait_for(&seen, &seen.samples[i], 1);
	for (int i = 0; i < 16; i++) {
		early += seen.at_ns[i][0] - start < 500 * MSEC;
		late += seen.at_ns[i][0] - start >= 500 * MSEC;
	}
	scraper_destroy(scraper);
	assert_true(early >= 1 && late >= 1); /* the chance of a false alarm is 2^-15 */
	server_stop(&server);
}

/* Stopping waits for nobody: not for a target that hangs, not for a turn to come. */
static void test_stop_at_once(void **state)
{
	struct scraper *scraper;
	struct server server;
	struct seen seen;
	uint64_t start;

	seen_init(&seen);
	server_start(&server, HANG);
	assert_int_equal(scraper_create(&scraper, &ops, &seen), 0);
	assert_int_equal(scraper_set_targets(scraper, &(struct scraper_target){ .url = url_of(&server, "/metrics") }, 1), 0);
	for (int i = 0; i < WAIT_MS && !__atomic_load_n(&server.requests, __ATOMIC_RELAXED); i++)
		usleep(1000);
	assert_int_equal(server.requests, 1);
	start = clock_now_ns();
	scraper_destroy(scraper);
	assert_true(clock_now_ns() - start < 500 * MSEC);
	assert_int_equal(seen.errors[0][SCRAPE_TIMEOUT], 0);
	server_stop(&server);
	scraper_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),  cmocka_unit_test(test_failures_apart), cmocka_unit_test(test_llamacpp_props),
		cmocka_unit_test(test_reload), cmocka_unit_test(test_spread),	      cmocka_unit_test(test_stop_at_once),
	};

	return cmocka_run_group_tests_name("signals/scraper", tests, NULL, NULL);
}
