/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The hazards of the kernel path, one by one. Where a rule can be taken out of the
 * program or the loop, a second test shows that its absence is seen. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "proxy.h"
#include "rig.h"

#define INSNS_MAX 300000u /* of every program, with every compiler, on every kernel */

/* A client and an engine with the proxy between them; both ends are this thread's. */
struct duo {
	struct proxy *p;
	int listener, client, engine;
};

static void duo_open(struct duo *d, struct proxy_opts o, int rcvbuf)
{
	d->listener = rig_listen(&o.engine_port);
	d->p = proxy_start(&o);
	assert_non_null(d->p);
	d->client = rig_connect(proxy_port(d->p), rcvbuf);
	d->engine = -1;
}

/* Sends a request line and takes it at the engine. */
static void duo_ask(struct duo *d, const char *line)
{
	char got[64];

	assert_true(rig_write(d->client, line, strlen(line)));
	if (d->engine < 0)
		d->engine = rig_accept(d->listener);
	assert_true(d->engine >= 0);
	assert_true(rig_read(d->engine, got, strlen(line)));
	assert_memory_equal(got, line, strlen(line));
}

/* The engine writes text in one packet and the client gets it. */
static void duo_pass(struct duo *d, const char *text)
{
	char got[512];

	assert_true(rig_write(d->engine, text, strlen(text)));
	assert_true(rig_read(d->client, got, strlen(text)));
	assert_memory_equal(got, text, strlen(text));
}

static void duo_close(struct duo *d)
{
	close(d->client);
	if (d->engine >= 0)
		close(d->engine);
	close(d->listener);
	proxy_stop(d->p);
}

/* Waits until `field` of the statistics is at least n; how: a pointer into st. */
#define wait_stat(d, st, field, n)                                              \
	do {                                                                    \
		uint64_t end_ = clock_now_ns() + 10 * NSEC_PER_SEC;             \
		do {                                                            \
			proxy_stats((d)->p, &(st));                             \
			usleep(1000);                                           \
		} while ((st).field < (n) && clock_now_ns() < end_);            \
		assert_true((st).field >= (n));                                 \
	} while (0)

/* Brings the stream into the kernel's hands: head and two chunks. */
static void duo_stream(struct duo *d)
{
	struct proxy_stats st;

	duo_ask(d, "S\n");
	duo_pass(d, "C\n5\r\nfirst\r\n");
	wait_stat(d, st, worker.publishes, 1);
	duo_pass(d, "6\r\nsecond\r\n");
	wait_stat(d, st, kernel_bytes + st.worker.publishes, 1);
}

/* How much an engine can push towards a client that does not read, up to max. */
static size_t push(struct duo *d, size_t max)
{
	static uint8_t block[8192];
	size_t sent = 0;

	fcntl(d->engine, F_SETFL, O_NONBLOCK);
	while (sent < max) {
		struct pollfd p = { .fd = d->engine, .events = POLLOUT };
		ssize_t n;

		for (size_t i = 0; i < sizeof(block); i++)
			block[i] = (uint8_t)((sent + i) * 31 >> 3);
		n = send(d->engine, block, sizeof(block), MSG_NOSIGNAL);
		if (n > 0)
			sent += (size_t)n;
		else if (poll(&p, 1, 700) != 1)
			break; /* blocked for good: that is what is asked for */
	}
	fcntl(d->engine, F_SETFL, 0);
	return sent;
}

#define PUSH_MAX (24u << 20)
static const int small_buffer = 32 << 10;

static void stalled_client(void **state)
{
	struct duo d;
	struct proxy_stats st;
	uint8_t *got = malloc(PUSH_MAX);
	size_t n;

	duo_open(&d, (struct proxy_opts){ .limit_bytes = 64 << 10 }, small_buffer);
	setsockopt(d.listener, SOL_SOCKET, SO_SNDBUF, &small_buffer, sizeof(small_buffer));
	duo_ask(&d, "S\n");
	duo_pass(&d, "L100000000\n");
	wait_stat(&d, st, worker.publishes, 1);
	n = push(&d, PUSH_MAX);
	proxy_stats(d.p, &st);
	printf("a stalled client: the engine was stopped after %zu bytes\n", n);
	assert_true(n < 2u << 20); /* all buffers between the ends together */
	assert_true(st.worker.takeovers[SPLICE_WHY_BACKPRESSURE] >= 1);
	/* it reads again: every byte, in order */
	assert_true(rig_read(d.client, got, n));
	for (size_t i = 0; i < n; i++)
		if (got[i] != (uint8_t)(i * 31 >> 3))
			fail_msg("byte %zu is wrong", i);
	free(got);
	proxy_stats(d.p, &st);
	assert_int_equal(st.worker.sweep_rescued, 0);
	duo_close(&d);
}

static void stalled_client_without_limit(void **state)
{
	struct duo d;
	struct proxy_stats st;

	duo_open(&d, (struct proxy_opts){ .limit_bytes = 64 << 10, .object = "mutant-no-limit.o" }, small_buffer);
	duo_ask(&d, "S\n");
	duo_pass(&d, "L100000000\n");
	wait_stat(&d, st, worker.publishes, 1);
	assert_true(push(&d, PUSH_MAX) > 8u << 20);
	duo_close(&d);
}

/* After an orderly end of the backend the client's socket must work: a redirected
 * FIN would have ended its sending side. */
static void fin_after_answer(void **state)
{
	struct duo d;

	duo_open(&d, (struct proxy_opts){ 0 }, 0);
	duo_stream(&d);
	duo_pass(&d, "0\r\n\r\n");
	close(d.engine);
	d.engine = -1;
	usleep(20000); /* lets the FIN in first, most of the time; both orders must work */
	duo_ask(&d, "S\n");
	duo_pass(&d, "C\n5\r\nagain\r\n");
	duo_pass(&d, "0\r\n\r\n");
	duo_close(&d);
}

/* The last packet carries data and FIN: EPOLLRDHUP may come before the END. */
static void fin_with_the_end(void **state)
{
	for (unsigned i = 0; i < 50; i++) {
		struct duo d;
		struct proxy_stats st;
		char got[5];

		if (i)
			usleep(100);
		duo_open(&d, (struct proxy_opts){ 0 }, 0);
		duo_stream(&d);
		assert_true(send(d.engine, "0\r\n\r\n", 5, MSG_MORE) == 5);
		close(d.engine);
		d.engine = -1;
		assert_true(rig_read(d.client, got, 5));
		wait_stat(&d, st, answers, 1);
		assert_int_equal(st.cut, 0);
		duo_close(&d);
	}
}

static void fin_inside_the_body(void **state)
{
	struct duo d;
	struct proxy_stats st;
	char more;

	duo_open(&d, (struct proxy_opts){ 0 }, 0);
	duo_stream(&d);
	close(d.engine);
	d.engine = -1;
	assert_false(rig_read(d.client, &more, 1)); /* visibly cut, and at once */
	wait_stat(&d, st, cut, 1);
	duo_close(&d);
}

/* The client leaves: the engine must learn it, or it computes for nobody. */
static void client_gone(void **state)
{
	struct duo d;
	struct linger l = { 1, 0 };
	char more;

	duo_open(&d, (struct proxy_opts){ 0 }, 0);
	duo_stream(&d);
	setsockopt(d.client, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(d.client);
	assert_false(rig_read(d.engine, &more, 1));
	assert_true(errno != EAGAIN); /* told, not timed out */
	d.client = rig_connect(proxy_port(d.p), 0);
	close(d.engine);
	d.engine = -1;
	duo_stream(&d); /* its row serves another client */
	duo_close(&d);
}

/* A close while bytes wait between the sockets throws them away behind a clean FIN. */
static void close_behind_the_end(void **state)
{
	struct duo d;
	const size_t n = 300000;
	uint8_t *sent = malloc(n), *got = malloc(n + 1);
	struct proxy_stats st;
	ssize_t r;

	for (size_t i = 0; i < n; i++)
		sent[i] = (uint8_t)(i * 7 >> 2);
	duo_open(&d, (struct proxy_opts){ .limit_bytes = 1 << 20 }, small_buffer);
	duo_ask(&d, "X\n");
	duo_pass(&d, "L300000\n");
	wait_stat(&d, st, worker.publishes, 1);
	assert_true(rig_write(d.engine, sent, n));
	wait_stat(&d, st, worker.ends, 1); /* the kernel has all of it, the client's socket has not */
	assert_true(rig_read(d.client, got, n));
	assert_memory_equal(got, sent, n);
	r = recv(d.client, got, 1, 0);
	assert_int_equal(r, 0); /* then a clean end */
	free(sent);
	free(got);
	duo_close(&d);
}

static void surplus(struct duo *d, const char *object, char *got, size_t n)
{
	duo_open(d, (struct proxy_opts){ .object = object }, 0);
	duo_stream(d);
	assert_true(rig_write(d->engine, "0\r\n\r\nHTTP/1.1 200 smuggled", 27));
	assert_true(rig_read(d->client, got, n));
}

/* Bytes behind the end of an answer reach nobody, and the connection serves nobody any more. */
static void bytes_behind_the_end(void **state)
{
	struct duo d;
	struct proxy_stats st;
	char got[8];

	surplus(&d, NULL, got, 5);
	assert_memory_equal(got, "0\r\n\r\n", 5);
	wait_stat(&d, st, backend_closed, 1);
	assert_int_equal(recv(d.client, got, 1, MSG_DONTWAIT), -1);
	assert_int_equal(st.kernel.trimmed, 1);
	duo_close(&d);
}

static void bytes_behind_the_end_without_trim(void **state)
{
	struct duo d;
	char got[27];

	surplus(&d, "mutant-no-trim.o", got, 27);
	duo_close(&d);
}

static void broken_framing(void **state)
{
	struct duo d;
	struct proxy_stats st;
	char more;

	duo_open(&d, (struct proxy_opts){ 0 }, 0);
	duo_stream(&d);
	assert_true(rig_write(d.engine, "zz\r\nx\r\n", 7));
	assert_false(rig_read(d.client, &more, 1));
	wait_stat(&d, st, cut, 1);
	assert_int_equal(st.worker.takeovers[SPLICE_WHY_FRAMING], 1);
	duo_close(&d);
}

static void table_full(void **state)
{
	struct duo d;
	struct proxy_stats st;
	int other;

	duo_open(&d, (struct proxy_opts){ .max_flows = 1 }, 0);
	duo_stream(&d);
	other = rig_connect(proxy_port(d.p), 0);
	assert_true(rig_write(other, "S\n", 2));
	wait_stat(&d, st, refused, 1); /* relayed */
	close(other);
	duo_pass(&d, "0\r\n\r\n");
	duo_close(&d);
}

static void sockets_of_other_kinds(void **state)
{
	static const struct splice_worker_ops no_ops;
	struct splice_opts so = { .workers = 1, .max_flows = 4, .max_clients = 4 };
	struct splice_backend b = { 0 };
	struct splice_worker *w;
	struct splice *s;
	char why[256];
	int pair[2], fd;
	uint16_t port;

	assert_int_equal(splice_open(&s, &so, why, sizeof(why)), 0);
	assert_int_equal(splice_worker_open(s, 0, &no_ops, NULL, &w), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(splice_backend_add(w, &b, pair[0], ""), -EPROTONOSUPPORT);
	fd = socket(AF_INET, SOCK_STREAM, 262 /* IPPROTO_MPTCP */);
	if (fd >= 0)
		assert_int_equal(splice_backend_add(w, &b, fd, ""), -EPROTONOSUPPORT);
	close(fd);
	/* half closed */
	close(pair[0]);
	pair[0] = rig_listen(&port);
	fd = rig_connect(port, 0);
	assert_true(splice_backend_add(w, &b, pair[0], "") == 0 || !b.w); /* a listener: the kernel's choice, no crash */
	splice_backend_release(&b);
	close(pair[0]);
	close(pair[1]);
	close(fd);
	splice_worker_close(w);
	splice_close(s);
}

/* The kernel gave a stream back and the daemon moved its last byte: the flow stayed armed for
 * that client, and the connection's next answer went to it. */
static void next_answer_goes_to_its_own_client(void **state)
{
	static const struct splice_worker_ops no_ops;
	struct splice_opts so = { .workers = 1, .max_flows = 4, .max_clients = 4 };
	struct splice_backend b = { 0 };
	struct splice_client c[2] = { 0 };
	struct http_framing f;
	struct flow flow;
	struct splice_worker *w;
	struct splice *s;
	char why[256], got[16];
	int near[3], far[3], listener;
	uint16_t port;

	assert_int_equal(splice_open(&s, &so, why, sizeof(why)), 0);
	assert_int_equal(splice_worker_open(s, 0, &no_ops, NULL, &w), 0);
	listener = rig_listen(&port);
	for (int i = 0; i < 3; i++) {
		near[i] = rig_connect(port, 0);
		far[i] = rig_accept(listener);
	}
	assert_int_equal(splice_backend_add(w, &b, near[2], "engine"), 0);
	assert_int_equal(splice_client_add(w, &c[0], near[0]), 0);
	assert_int_equal(splice_client_add(w, &c[1], near[1]), 0);
	http_framing_init(&f, HTTP_BODY_LENGTH, 100);
	assert_int_equal(splice_arm(&b, &c[0], &f, SPLICE_LIMIT_DEFAULT), 0);
	flow_init(&flow, NULL, NULL, HTTP_BODY_LENGTH, 6, FLOW_AS_FRAMED, 1000);
	assert_int_equal(splice_offer(&b, &c[1], &flow, SPLICE_LIMIT_DEFAULT), SPLICE_HAND_KERNEL);
	assert_true(rig_write(far[2], "secret", 6));
	assert_true(rig_read(far[1], got, 6));
	assert_memory_equal(got, "secret", 6);
	assert_int_equal(recv(far[0], got, 1, MSG_DONTWAIT), -1);
	/* the daemon's framing is the newer one once it has the stream */
	splice_take(&b, &f);
	http_framing_init(&f, HTTP_BODY_LENGTH, 7);
	splice_cancel(&b, &f);
	assert_int_equal(f.left, 7);
	splice_backend_release(&b);
	splice_client_release(&c[0]);
	splice_client_release(&c[1]);
	for (int i = 0; i < 3; i++) {
		close(near[i]);
		close(far[i]);
	}
	close(listener);
	splice_worker_close(w);
	splice_close(s);
}

/* While tokens flow the daemon sleeps. Its spurious wake-ups do not return from
 * epoll_wait(): only the thread's context switches show them. */
static double switches_per_event(bool keep_epollin)
{
	const unsigned events = 400;
	struct proxy_stats before, after;
	struct duo d;

	duo_open(&d, (struct proxy_opts){ .keep_epollin = keep_epollin }, 0);
	duo_stream(&d);
	proxy_stats(d.p, &before);
	for (unsigned i = 0; i < events; i++) {
		duo_pass(&d, "c\r\ndata: token\n\r\n");
		usleep(500);
	}
	proxy_stats(d.p, &after);
	duo_close(&d);
	return (double)(after.switches - before.switches) / events;
}

static void daemon_sleeps(void **state)
{
	double slept = switches_per_event(false), watched = switches_per_event(true);

	printf("voluntary switches an event: %.3f, with EPOLLIN %.3f\n", slept, watched);
	assert_true(slept < 0.05);
	assert_true(watched > 0.3);
}

static void instructions(void **state)
{
	static char log[1 << 16];
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	size_t elf_len;
	void *elf = proxy_read_object("splice.o", &elf_len);
	struct bpf_object *obj;
	struct bpf_program *prog;

	assert_non_null(elf);
	obj = bpf_object__open_mem(elf, elf_len, NULL);
	assert_non_null(obj);
	prog = bpf_object__find_program_by_name(obj, "splice_verdict");
	bpf_program__set_log_buf(prog, log, sizeof(log));
	assert_int_equal(bpf_object__load(obj), 0);
	assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len), 0);
	printf("the verifier processed %u instructions\n", info.verified_insns);
	assert_true(info.verified_insns > 1000 && info.verified_insns < INSNS_MAX);
	bpf_object__close(obj);
	free(elf);
}

static void selftest_passes(void **state)
{
	struct splice_opts so = { .workers = 1, .max_flows = 16, .max_clients = 16 };
	struct splice *s;
	char why[256];

	assert_int_equal(splice_open(&s, &so, why, sizeof(why)), 0);
	if (splice_selftest(s, why, sizeof(why)))
		fail_msg("%s", why);
	splice_close(s);
}

/* A kernel that does not stop at the limit is found before any traffic. */
static void selftest_fails_without_limit(void **state)
{
	struct splice_opts so = { .workers = 1, .max_flows = 16, .max_clients = 16 };
	void *elf = proxy_read_object("mutant-no-limit.o", &so.elf_len);
	struct splice *s;
	char why[256];

	so.elf = elf;
	assert_int_equal(splice_open(&s, &so, why, sizeof(why)), 0);
	assert_int_equal(splice_selftest(s, why, sizeof(why)), -EIO);
	assert_non_null(strstr(why, "hoard"));
	splice_close(s);
	free(elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selftest_passes),
		cmocka_unit_test(selftest_fails_without_limit),
		cmocka_unit_test(stalled_client),
		cmocka_unit_test(stalled_client_without_limit),
		cmocka_unit_test(fin_after_answer),
		cmocka_unit_test(fin_with_the_end),
		cmocka_unit_test(fin_inside_the_body),
		cmocka_unit_test(client_gone),
		cmocka_unit_test(close_behind_the_end),
		cmocka_unit_test(bytes_behind_the_end),
		cmocka_unit_test(bytes_behind_the_end_without_trim),
		cmocka_unit_test(broken_framing),
		cmocka_unit_test(table_full),
		cmocka_unit_test(sockets_of_other_kinds),
		cmocka_unit_test(next_answer_goes_to_its_own_client),
		cmocka_unit_test(daemon_sleeps),
		cmocka_unit_test(instructions),
	};
	struct proxy *p = proxy_start(&(struct proxy_opts){ 0 });

	if (!p)
		return 77; /* bpf() is refused: the reason was printed */
	proxy_stop(p);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
