/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Response heads of sound and of broken backends: a table, every split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/http1.h"

struct row {
	const char *name;
	const char *in;
	size_t len;
	const char *want;
};
#define ROW(name_, in_, want_) { name_, in_, sizeof(in_) - 1, want_ }
#define R "HTTP/1.1 200 OK\r\n"
#define BAD "R502"

/* Trace: "[status ...] status framing flags" */
static const struct row rows[] = {
	ROW("length", R "Content-Length: 5\r\n\r\nhello", "200 length:5 ka"),
	ROW("chunked", R "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200 chunked ka"),
	ROW("chunked-case", R "transfer-encoding: Chunked\r\n\r\n", "200 chunked ka"),
	ROW("until-close", R "\r\nhello", "200 close"),
	ROW("close", R "Content-Length: 5\r\nConnection: Close\r\n\r\n", "200 length:5"),
	ROW("1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "200 length:5"),
	ROW("1.0-ka", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", "200 length:5 ka"),
	ROW("1.0-ka-close", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", "200 close"),
	ROW("1.2", "HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\n", "200 length:5 ka"),
	ROW("no-reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200 length:0 ka"),
	ROW("empty-reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 length:0 ka"),
	ROW("odd-reason", "HTTP/1.1 599 \xc3\xa4 \t!\r\nContent-Length: 0\r\n\r\n", "599 length:0 ka"),
	ROW("204", "HTTP/1.1 204 No Content\r\n\r\n", "204 none ka"),
	ROW("204-length", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204 none ka"),
	ROW("304-length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", "304 none ka"),
	ROW("sse", R "Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n", "200 chunked ka sse"),
	ROW("sse-bare", R "Content-Type: Text/Event-Stream\r\nTransfer-Encoding: chunked\r\n\r\n", "200 chunked ka sse"),
	ROW("not-sse", R "Content-Type: text/event-streams\r\nTransfer-Encoding: chunked\r\n\r\n", "200 chunked ka"),
	ROW("hints", R "Keep-Alive: timeout=5, max=100\r\nContent-Length: 0\r\n\r\n", "200 length:0 ka t=5 m=100"),
	ROW("hints-odd", R "Keep-Alive: timeout=x, max, max=7, timeout=\r\nContent-Length: 0\r\n\r\n", "200 length:0 ka m=7"),
	ROW("hints-max-0", R "Keep-Alive: max=0\r\nContent-Length: 0\r\n\r\n", "200 length:0 m=0"),
	ROW("100-then-200", "HTTP/1.1 100 Continue\r\n\r\n" R "Content-Length: 1\r\n\r\n", "100 none ka i|200 length:1 ka"),
	ROW("1xx-three", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 100 C\r\n\r\n" R "\r\n",
	    "103 none ka i|102 none ka i|100 none ka i|200 close"),
	ROW("101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", BAD),
	ROW("upgrade-on-200", R "Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 1\r\n\r\n", "200 length:1 ka"),
	ROW("cl-te", R "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", BAD),
	ROW("te-cl", R "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", BAD),
	ROW("cl-dup-diff", R "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", BAD),
	ROW("cl-dup-same", R "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", BAD),
	ROW("cl-list", R "Content-Length: 5, 5\r\n\r\n", BAD),
	ROW("cl-bad", R "Content-Length: 5x\r\n\r\n", BAD),
	ROW("cl-negative", R "Content-Length: -5\r\n\r\n", BAD),
	ROW("cl-huge", R "Content-Length: 18446744073709551616\r\n\r\n", BAD),
	ROW("cl-large", R "Content-Length: 4617089843\r\n\r\n", "200 length:4617089843 ka"),
	ROW("te-dup", R "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", BAD),
	ROW("te-not-final", R "Transfer-Encoding: chunked, gzip\r\n\r\n", BAD),
	ROW("te-gzip", R "Transfer-Encoding: gzip, chunked\r\n\r\n", BAD),
	ROW("te-1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", BAD),
	ROW("lf-only", "HTTP/1.1 200 OK\nContent-Length: 5\n\n", BAD),
	ROW("lf-one", R "Content-Length: 5\n\r\n", BAD),
	ROW("obs-fold", R "X: a\r\n b\r\n\r\n", BAD),
	ROW("bad-name", R "X y: a\r\n\r\n", BAD),
	ROW("sp-colon", R "X : a\r\n\r\n", BAD),
	ROW("no-colon", R "X\r\n\r\n", BAD),
	ROW("nul", R "X: \0\r\n\r\n", BAD),
	ROW("bare-cr", R "X: a\rb\r\n\r\n", BAD),
	ROW("connection-bad", R "Connection: \"x\r\n\r\n", BAD),
	ROW("status-glued", "HTTP/1.1 200OK\r\n\r\n", BAD),
	ROW("status-99", "HTTP/1.1 99\r\n\r\n", BAD),
	ROW("status-099", "HTTP/1.1 099 X\r\n\r\n", BAD),
	ROW("status-600", "HTTP/1.1 600 X\r\n\r\n", BAD),
	ROW("status-2000", "HTTP/1.1 2000 X\r\n\r\n", BAD),
	ROW("status-alpha", "HTTP/1.1 2x0 X\r\n\r\n", BAD),
	ROW("status-double-sp", "HTTP/1.1  200 OK\r\n\r\n", BAD),
	ROW("version-2", "HTTP/2.0 200 OK\r\n\r\n", BAD),
	ROW("version-none", "200 OK\r\n\r\n", BAD),
	ROW("icy", "ICY 200 OK\r\n\r\n", BAD),
	ROW("leading-crlf", "\r\n" R "\r\n", BAD),
	ROW("leading-junk", "x" R "\r\n", BAD),
	ROW("request", "GET / HTTP/1.1\r\n\r\n", BAD),
	ROW("cut", R "Content-Length: 5\r\n", "MORE"),
	ROW("empty", "", "MORE"),
};

static void run(const struct row *row, enum http_method method, size_t cut, char *out, size_t out_size)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct http_field fields[100];
	struct http_resp r;
	size_t start = 0, have = cut, o = 0;

	out[0] = 0;
	http_resp_init(&r, &limits, fields, 100, method);
	for (;;) {
		/* exactly what has arrived, for the sanitizer */
		size_t n = have - start;
		char *buf = malloc(n ? n : 1);
		enum http_result res;

		memcpy(buf, row->in + start, n);
		res = http_resp_parse(&r, buf, n);
		free(buf);
		if (res == HTTP_MORE && have < row->len) {
			have = cut ? row->len : have + 1; /* cut 0: byte by byte */
			continue;
		}
		if (res == HTTP_MORE) {
			snprintf(out + o, out_size - o, "MORE");
			return;
		}
		if (res == HTTP_FAULT) {
			assert_int_equal(r.fault.status, 502);
			assert_string_equal(r.fault.code, "backend_bad_response");
			snprintf(out + o, out_size - o, BAD);
			return;
		}
		o += (size_t)snprintf(out + o, out_size - o, "%u %s", r.status,
				      (const char *[]){ "none", "length", "chunked", "close" }[r.body]);
		if (r.body == HTTP_BODY_LENGTH)
			o += (size_t)snprintf(out + o, out_size - o, ":%llu", (unsigned long long)r.content_length);
		o += (size_t)snprintf(out + o, out_size - o, "%s%s", r.keep_alive ? " ka" : "", r.event_stream ? " sse" : "");
		if (r.keep_alive_timeout_s)
			o += (size_t)snprintf(out + o, out_size - o, " t=%u", r.keep_alive_timeout_s);
		if (r.keep_alive_max != UINT32_MAX)
			o += (size_t)snprintf(out + o, out_size - o, " m=%u", r.keep_alive_max);
		if (res == HTTP_DONE)
			return;
		o += (size_t)snprintf(out + o, out_size - o, " i|");
		start += r.head_bytes;
		http_resp_init(&r, &limits, fields, 100, method);
	}
}

static void test_rows(void **state)
{
	char got[512];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t cut = 0; cut <= rows[i].len; cut++) {
			run(&rows[i], HTTP_M_POST, cut, got, sizeof(got));
			if (strcmp(got, rows[i].want))
				fail_msg("%s, cut at %zu: \"%s\", want \"%s\"", rows[i].name, cut, got, rows[i].want);
		}
}

/* RFC 9112 6.3: an answer to HEAD has no body whatever it says. */
static void test_head(void **state)
{
	static const struct row head_rows[] = {
		ROW("length", R "Content-Length: 5\r\n\r\n", "200 none ka"),
		ROW("chunked", R "Transfer-Encoding: chunked\r\n\r\n", "200 none ka"),
		ROW("nothing", R "\r\n", "200 none ka"),
		ROW("both", R "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", BAD),
	};
	char got[512];

	for (size_t i = 0; i < sizeof(head_rows) / sizeof(head_rows[0]); i++) {
		run(&head_rows[i], HTTP_M_HEAD, 1, got, sizeof(got));
		assert_string_equal(got, head_rows[i].want);
	}
}

static void test_limits(void **state)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	static char in[80000];
	struct http_field fields[4];
	struct http_resp r;
	size_t n;

	n = (size_t)sprintf(in, R "X: %09000d\r\n\r\n", 0);
	http_resp_init(&r, &limits, fields, 4, HTTP_M_GET);
	assert_int_equal(http_resp_parse(&r, in, n), HTTP_FAULT);
	n = (size_t)sprintf(in, R);
	for (int i = 0; i < 5; i++)
		n += (size_t)sprintf(in + n, "X-%d: y\r\n", i);
	n += (size_t)sprintf(in + n, "\r\n");
	http_resp_init(&r, &limits, fields, 4, HTTP_M_GET); /* storage is a limit too */
	assert_int_equal(http_resp_parse(&r, in, n), HTTP_FAULT);
	memset(in, 'H', sizeof(in));
	http_resp_init(&r, &limits, fields, 4, HTTP_M_GET);
	assert_int_equal(http_resp_parse(&r, in, sizeof(in)), HTTP_FAULT);
	assert_int_equal(http_resp_parse(&r, in, sizeof(in)), HTTP_FAULT); /* stays so */
}

static void test_slices(void **state)
{
	static const char in[] = "HTTP/1.1 299 Sure thing\r\nX-A: b c \r\nContent-Length: 3\r\n\r\nabc";
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct http_field fields[8];
	const struct http_field *f;
	struct http_resp r;

	http_resp_init(&r, &limits, fields, 8, HTTP_M_GET);
	assert_int_equal(http_resp_parse(&r, in, sizeof(in) - 1), HTTP_DONE);
	assert_int_equal(r.head_bytes, sizeof(in) - 1 - 3);
	assert_int_equal(r.reason.len, 10);
	assert_memory_equal(http_at(in, r.reason), "Sure thing", 10);
	f = http_field_named(r.fields, r.nfields, in, "x-a", 3);
	assert_non_null(f);
	assert_int_equal(f->value_len, 3);
	assert_memory_equal(in + f->value_off, "b c", 3);
	assert_null(http_field_first(r.fields, r.nfields, HTTP_F_DATE));
	assert_ptr_equal(http_field_first(r.fields, r.nfields, HTTP_F_CONTENT_LENGTH), &fields[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
