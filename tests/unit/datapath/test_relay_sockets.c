/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The relay between real sockets. */

#include "relay_help.h"

static void pair(int fd[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
}

/* One read from the backend, passed on. */
static enum flow_result pump(struct flow *f, uint8_t *scratch, uint32_t len)
{
	ssize_t n = conn_recv(f->from, scratch, len);

	if (n == -EAGAIN)
		return f->out.len >= f->out_limit ? FLOW_BLOCKED : FLOW_MORE;
	return n > 0 ? flow_feed(f, scratch, (uint32_t)n) : flow_eof(f, n < 0);
}

/* Several megabytes through socket buffers of their own size, the reader slower than the
 * writer: no more than out_limit and one read is ever held, and all arrives. */
static void test_through_sockets(void **state)
{
	enum { TOTAL = 4 << 20, LIMIT = 64 << 10, SCRATCH = 16 << 10 };
	int backend[2], client[2];
	struct conn from, to;
	uint8_t *scratch = malloc(SCRATCH), *in = malloc(SCRATCH);
	size_t written = 0, read_bytes = 0;
	enum flow_result r = FLOW_MORE;
	bool blocked_once = false;
	struct flow f;

	pair(backend);
	pair(client);
	from = (struct conn){ .fd = backend[0], .ops = &conn_ops_tcp };
	to = (struct conn){ .fd = client[0], .ops = &conn_ops_tcp };
	flow_init(&f, &from, &to, HTTP_BODY_LENGTH, TOTAL, FLOW_AS_FRAMED, LIMIT);
	while (read_bytes < TOTAL) {
		uint8_t block[8192];
		ssize_t n;

		while (written < TOTAL) { /* the backend writes what its socket takes */
			for (size_t i = 0; i < sizeof(block); i++)
				block[i] = (uint8_t)((written + i) * 31 >> 3);
			n = write(backend[1], block, sizeof(block));
			if (n < 0)
				break;
			written += (size_t)n;
		}
		while (r == FLOW_MORE && f.framing.state != HTTP_FS_END) {
			uint64_t before = f.framing.payload_bytes;

			r = pump(&f, scratch, SCRATCH);
			if (r == FLOW_MORE && f.framing.payload_bytes == before)
				break; /* nothing there now */
		}
		assert_true(f.out.len < LIMIT + SCRATCH);
		blocked_once |= r == FLOW_BLOCKED;
		n = read(client[1], in, 5000); /* a slow reader */
		for (ssize_t i = 0; i < n; i++)
			if (in[i] != (uint8_t)((read_bytes + (size_t)i) * 31 >> 3))
				fail_msg("byte %zu", read_bytes + (size_t)i);
		read_bytes += n > 0 ? (size_t)n : 0;
		if (flow_flush(&f) == FLOW_MORE || f.out.len < LIMIT)
			r = r == FLOW_END ? r : FLOW_MORE;
	}
	assert_true(blocked_once);
	assert_int_equal(f.sent_bytes, TOTAL);
	assert_int_equal(f.framing.state, HTTP_FS_END);
	flow_free(&f);
	for (int i = 0; i < 2; i++) {
		close(backend[i]);
		close(client[i]);
	}
	free(scratch);
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_through_sockets),
	};

	return cmocka_run_group_tests_name("datapath/relay_sockets", tests, NULL, NULL);
}
