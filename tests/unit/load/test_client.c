/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The client against a server that plays a script: every way in which a
 * connection can fail has its own reason, and only the race with an idle
 * connection's end is hidden by a second try. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "load/client.h"

#define HEAD "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
#define CHUNK "14\r\ndata: {\"text\":\"a\"}\n\n\r\n"
#define END "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
#define OK_ANSWER HEAD "x-kvsteer-backend: n1\r\n\r\n" CHUNK CHUNK END

enum act {
	ACT_END,          /* of the connection's script: close */
	ACT_ANSWER,       /* read a request, write the text */
	ACT_SPLIT,        /* the same, a byte at a time in three bursts */
	ACT_EARLY,        /* write without reading the body, close */
	ACT_EARLY_OPEN,   /* write without reading the body, keep open */
	ACT_READ,         /* read a request, say nothing */
	ACT_RESET,        /* RST */
	ACT_PING,         /* comments every 20 ms until the client goes */
	ACT_HANG,         /* keep open until the client goes */
};

struct step {
	enum act act;
	const char *text;
};

#define CONNS 4
#define STEPS 6

struct script {
	const char *name;
	struct step conn[CONNS][STEPS];
	int calls;
	const char *errors[STEPS]; /* of the calls, one after the other */
	int reconnects;
	bool large;       /* only with a body that no socket buffer takes */
	double timeout_s;
};

static const struct script scripts[] = {
	{ .name = "keep-alive: two calls on one connection",
	  .conn = { { { ACT_ANSWER, OK_ANSWER }, { ACT_ANSWER, OK_ANSWER }, { ACT_HANG, NULL } } },
	  .calls = 2 },
	{ .name = "split into bytes", .conn = { { { ACT_SPLIT, OK_ANSWER }, { ACT_HANG, NULL } } }, .calls = 1 },
	{ .name = "connection: close is followed",
	  .conn = { { { ACT_ANSWER, HEAD "connection: close\r\n\r\n" CHUNK END } }, { { ACT_ANSWER, OK_ANSWER } } },
	  .calls = 2 },
	{ .name = "idle connection died: once more on a new one, unseen",
	  .conn = { { { ACT_ANSWER, OK_ANSWER }, { ACT_READ, NULL } }, { { ACT_ANSWER, OK_ANSWER }, { ACT_HANG, NULL } } },
	  .calls = 2, .reconnects = 1 },
	{ .name = "but only once",
	  .conn = { { { ACT_ANSWER, OK_ANSWER }, { ACT_READ, NULL } }, { { ACT_READ, NULL } } },
	  .calls = 2, .errors = { NULL, "reset" }, .reconnects = 1 },
	{ .name = "a fresh connection that closes without a word is no race",
	  .conn = { { { ACT_READ, NULL } }, { { ACT_ANSWER, OK_ANSWER } } },
	  .calls = 2, .errors = { "reset", NULL } },
	{ .name = "closed in mid-stream",
	  .conn = { { { ACT_ANSWER, HEAD "\r\n" CHUNK } } }, .calls = 1, .errors = { "truncated" } },
	{ .name = "closed in mid-head",
	  .conn = { { { ACT_ANSWER, "HTTP/1.1 200 OK\r\ncont" } } }, .calls = 1, .errors = { "truncated" } },
	{ .name = "closed in mid-stream on a used connection is no race either",
	  .conn = { { { ACT_ANSWER, OK_ANSWER }, { ACT_ANSWER, HEAD "\r\n" CHUNK } } },
	  .calls = 2, .errors = { NULL, "truncated" } },
	{ .name = "reset in mid-stream",
	  .conn = { { { ACT_ANSWER, HEAD "\r\n" CHUNK }, { ACT_RESET, NULL } } },
	  .calls = 1, .errors = { "reset" } },
	{ .name = "[DONE] without the last chunk",
	  .conn = { { { ACT_ANSWER, HEAD "\r\n" CHUNK "e\r\ndata: [DONE]\n\n\r\n" } } },
	  .calls = 1, .errors = { "truncated" } },
	{ .name = "last chunk without [DONE]; the connection is still good",
	  .conn = { { { ACT_ANSWER, HEAD "\r\n" CHUNK "0\r\n\r\n" }, { ACT_ANSWER, OK_ANSWER }, { ACT_HANG, NULL } } },
	  .calls = 2, .errors = { "truncated", NULL } },
	{ .name = "429, then good on the same connection",
	  .conn = { { { ACT_ANSWER, "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}" },
		      { ACT_ANSWER, OK_ANSWER }, { ACT_HANG, NULL } } },
	  .calls = 2, .errors = { "429", NULL } },
	{ .name = "413 before the body has been read",
	  .conn = { { { ACT_EARLY, "HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" } },
		    { { ACT_ANSWER, OK_ANSWER } } },
	  .calls = 2, .errors = { "413", NULL } },
	{ .name = "an answer amid the request: that connection can't carry another",
	  .conn = { { { ACT_EARLY_OPEN, "HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n" } },
		    { { ACT_ANSWER, OK_ANSWER } } },
	  .calls = 2, .errors = { "413", NULL }, .large = true },
	{ .name = "bytes behind the answer",
	  .conn = { { { ACT_ANSWER, OK_ANSWER "HTTP/1.1" } }, { { ACT_ANSWER, OK_ANSWER } } },
	  .calls = 2, .errors = { "bad_response", NULL } },
	{ .name = "not HTTP",
	  .conn = { { { ACT_ANSWER, "+PONG\r\n\r\n" } } }, .calls = 1, .errors = { "bad_response" } },
	{ .name = "silence", .conn = { { { ACT_READ, NULL }, { ACT_HANG, NULL } } }, .calls = 1,
	  .errors = { "timeout" }, .timeout_s = 0.2 },
	{ .name = "nothing but pings", .conn = { { { ACT_ANSWER, HEAD "\r\n" CHUNK }, { ACT_PING, NULL } } },
	  .calls = 1, .errors = { "timeout" }, .timeout_s = 0.2 },
	{ .name = "silence in mid-stream", .conn = { { { ACT_ANSWER, HEAD "\r\n" CHUNK }, { ACT_HANG, NULL } } },
	  .calls = 1, .errors = { "timeout" }, .timeout_s = 0.2 },
};

struct server {
	const struct script *script;
	int listener;
	size_t body_len;
};

static void read_request(int fd, size_t body_len)
{
	static char buf[1 << 16];
	size_t got = 0;

	while (got < body_len) {
		ssize_t n = recv(fd, buf, body_len - got < sizeof(buf) ? body_len - got : sizeof(buf), 0);

		if (n <= 0)
			return;
		got += (size_t)n;
	}
}

static void write_all(int fd, const char *text, size_t len, size_t piece)
{
	for (size_t at = 0; at < len; at += piece) {
		if (send(fd, text + at, len - at < piece ? len - at : piece, MSG_NOSIGNAL) < 0)
			return;
		if (piece < len)
			usleep(20);
	}
}

static void play(const struct server *s, int fd, const struct step *step)
{
	struct pollfd gone = { .fd = fd, .events = POLLRDHUP };
	struct pollfd next = { .fd = s->listener, .events = POLLIN };
	char c;

	for (; step->act != ACT_END; step++) {
		switch (step->act) {
		case ACT_ANSWER:
		case ACT_SPLIT:
			read_request(fd, s->body_len);
			write_all(fd, step->text, strlen(step->text), step->act == ACT_SPLIT ? 1 : 1 << 16);
			break;
		case ACT_EARLY:
			if (recv(fd, &c, 1, 0) == 1)
				write_all(fd, step->text, strlen(step->text), 1 << 16);
			/* A server that closes with unread bytes sends RST; a careful one lingers. */
			shutdown(fd, SHUT_WR);
			read_request(fd, s->body_len - 1);
			break;
		case ACT_EARLY_OPEN:
			if (recv(fd, &c, 1, 0) == 1)
				write_all(fd, step->text, strlen(step->text), 1 << 16);
			/* Reads nothing until the client has gone to another connection. */
			poll(&next, 1, 10000);
			break;
		case ACT_READ:
			read_request(fd, s->body_len);
			break;
		case ACT_RESET: {
			struct linger hard = { 1, 0 };

			usleep(20000); /* so that the bytes before are not thrown away with it */
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
			return;
		}
		case ACT_PING:
			while (!poll(&gone, 1, 20))
				write_all(fd, "3\r\n:\n\n\r\n", 8, 8);
			return;
		case ACT_HANG:
			poll(&gone, 1, 10000);
			return;
		case ACT_END:
			break;
		}
	}
}

static void *serve(void *arg)
{
	struct server *s = arg;

	/* The client's first connection only looks whether somebody is there. */
	for (int i = -1; i < CONNS; i++) {
		int fd = accept(s->listener, NULL, NULL);

		if (fd < 0)
			break;
		if (i >= 0)
			play(s, fd, s->script->conn[i]);
		close(fd);
	}
	return NULL;
}

struct seen {
	const struct load_call *call;
	char error[32];
	bool ended;
	int gaps;
	int64_t first;
};

static void on_done(void *arg, struct load_call *call, const struct load_answer *a)
{
	struct seen *s = arg;

	assert_true(call == s->call);
	s->ended = true;
	snprintf(s->error, sizeof(s->error), "%s", call->error ? call->error : "");
	s->first = call->first_ns ? (int64_t)(call->first_ns - call->start_ns) : -1;
}

static void on_gap(void *arg, const struct load_call *call, uint64_t ns)
{
	((struct seen *)arg)->gaps++;
}

static int listen_here(char *port, size_t len)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t addr_len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), bytes = 65536;

	/* Inherited by the connections: else loopback may take a large body in whole. */
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &addr_len), 0);
	snprintf(port, len, "%u", ntohs(addr.sin_port));
	return fd;
}

/* A large request, so that a full socket is met too. */
#define BODY_BYTES (8u << 20)

static void run_script(const struct script *script, size_t body_len)
{
	struct load_options o = { .host = "127.0.0.1", .stream = true,
				  .timeout_s = script->timeout_s > 0 ? script->timeout_s : 10 };
	struct server server = { .script = script, .body_len = body_len };
	struct seen seen = { 0 };
	struct load_client_ops ops = { .done = on_done, .gap = on_gap, .arg = &seen };
	struct load_client *client;
	char *body = malloc(body_len);
	pthread_t thread;

	memset(body, 'b', body_len);
	server.listener = listen_here(o.port, sizeof(o.port));
	assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
	assert_int_equal(load_client_new(&client, &o, 4, &ops), 0);
	for (int i = 0; i < script->calls; i++) {
		struct load_call *call = load_call_new();
		uint64_t limit_ns = clock_now_ns() + 10 * NSEC_PER_SEC, now_ns;
		const char *want = script->errors[i] ? script->errors[i] : "";

		call->iov[0] = (struct iovec){ body, body_len / 2 };
		call->iov[1] = (struct iovec){ body, body_len - body_len / 2 };
		call->n_iov = 2;
		seen = (struct seen){ .call = call };
		load_client_start(client, call, clock_now_ns());
		while (!seen.ended && (now_ns = clock_now_ns()) < limit_ns) {
			load_client_poll(client, 10 * NSEC_PER_MSEC);
			load_client_sweep(client, now_ns);
		}
		if (!seen.ended || strcmp(seen.error, want))
			fail_msg("%s: call %d: error '%s', want '%s'", script->name, i, seen.error, want);
		if (!*want) {
			assert_true(seen.first >= 0);
			assert_true(seen.gaps == 1 || strstr(script->name, "close"));
			assert_string_equal(call->backend, strstr(script->name, "close is") && !i ? "" : "n1");
		}
		assert_int_equal(load_client_in_flight(client), 0);
		load_call_free(call);
	}
	if (load_client_reconnects(client) != (uint64_t)script->reconnects)
		fail_msg("%s: %llu reconnects", script->name, (unsigned long long)load_client_reconnects(client));
	load_client_free(client);
	shutdown(server.listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(server.listener);
	free(body);
}

static void test_scripts(void **state)
{
	for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
		if (!scripts[i].large)
			run_script(&scripts[i], 700);
		run_script(&scripts[i], BODY_BYTES);
	}
}

static void test_nobody_listens(void **state)
{
	struct load_options o = { .host = "127.0.0.1", .stream = true, .timeout_s = 1 };
	struct load_client_ops ops = { 0 };
	struct load_client *client;
	int fd = listen_here(o.port, sizeof(o.port));

	close(fd);
	assert_int_equal(load_client_new(&client, &o, 4, &ops), -ECONNREFUSED);
}

/* A server that goes away later: calls fail, the client lives. */
static void test_refused_later(void **state)
{
	struct load_options o = { .host = "127.0.0.1", .stream = true, .timeout_s = 1 };
	struct seen seen = { 0 };
	struct load_client_ops ops = { .done = on_done, .gap = on_gap, .arg = &seen };
	struct load_client *client;
	char body[] = "x";
	int fd = listen_here(o.port, sizeof(o.port));

	assert_int_equal(load_client_new(&client, &o, 1, &ops), 0);
	close(fd);
	for (int i = 0; i < 3; i++) {
		struct load_call *call = load_call_new();

		call->iov[0] = (struct iovec){ body, 1 };
		call->n_iov = 1;
		seen = (struct seen){ .call = call };
		assert_true(load_client_ready(client));
		load_client_start(client, call, clock_now_ns());
		assert_false(load_client_ready(client));
		for (int n = 0; n < 1000 && !seen.ended; n++)
			load_client_poll(client, NSEC_PER_MSEC);
		assert_string_equal(seen.error, "connect");
		load_call_free(call);
	}
	load_client_free(client);
}

/* What runs when the client ends is unfinished, not lost. */
static void test_unfinished(void **state)
{
	static const struct script hang = { .name = "hang", .conn = { { { ACT_READ, NULL }, { ACT_HANG, NULL } } } };
	struct load_options o = { .host = "127.0.0.1", .stream = true, .timeout_s = 10 };
	struct server server = { .script = &hang, .body_len = 1 };
	struct seen seen = { 0 };
	struct load_client_ops ops = { .done = on_done, .gap = on_gap, .arg = &seen };
	struct load_call *call = load_call_new();
	struct load_client *client;
	char body[] = "x";
	pthread_t thread;

	server.listener = listen_here(o.port, sizeof(o.port));
	assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
	assert_int_equal(load_client_new(&client, &o, 1, &ops), 0);
	call->iov[0] = (struct iovec){ body, 1 };
	call->n_iov = 1;
	seen.call = call;
	load_client_start(client, call, clock_now_ns());
	load_client_poll(client, NSEC_PER_MSEC);
	assert_int_equal(load_client_in_flight(client), 1);
	load_client_free(client);
	assert_true(seen.ended);
	assert_string_equal(seen.error, "unfinished");
	load_call_free(call);
	shutdown(server.listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(server.listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_refused_later),
		cmocka_unit_test(test_unfinished),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
