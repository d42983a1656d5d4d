/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Everything about a request that is bounded: the last size that passes, the
 * first that does not, and that the answer is the same however it arrives. */
#include "conn.h"

#define H "Host: a\r\n"
#define G "GET / HTTP/1.1\r\n" H
#define P "POST / HTTP/1.1\r\n" H
#define OKG "GET / a none <>|"

static char *repeat(const char *before, char c, size_t n, const char *after, size_t *len)
{
	size_t a = strlen(before), b = strlen(after);
	char *s = malloc(a + n + b + 1);

	memcpy(s, before, a);
	memset(s + a, c, n);
	memcpy(s + a + n, after, b + 1);
	*len = a + n + b;
	return s;
}

static void check_sized(const char *before, char c, size_t n, const char *after, const char *want, size_t want_len)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	size_t len, cuts[6];
	char *in = repeat(before, c, n, after, &len), *got;

	cuts[0] = 0;
	cuts[1] = 1;
	cuts[2] = len / 2;
	cuts[3] = len - 1;
	cuts[4] = strlen(before);
	cuts[5] = len < 32768 ? len : 32768;
	for (size_t i = 0; i < 6; i++)
		for (size_t j = i; j < 6; j++) {
			size_t a = cuts[i] < cuts[j] ? cuts[i] : cuts[j], b = cuts[i] < cuts[j] ? cuts[j] : cuts[i];

			got = conn_run(&limits, in, len, a, b);
			if (strncmp(got, want, want_len))
				fail_msg("%.30s...%.10s x %zu: \"%.40s\", want \"%s\"", before, after, n, got, want);
			free(got);
		}
	/* in pieces of 7: as good as byte by byte, and quick enough */
	struct conn *c7 = malloc(sizeof(*c7));

	conn_init(c7, &limits);
	for (size_t i = 0; i < len; i += 7)
		conn_feed(c7, in + i, len - i < 7 ? len - i : 7);
	conn_eof(c7);
	if (strncmp(c7->trace, want, want_len))
		fail_msg("%.30s... x %zu in sevens: \"%.40s\", want \"%s\"", before, n, c7->trace, want);
	free(c7->trace);
	free(c7);
	free(in);
}
#define SIZED(before, c, n, after, want) check_sized(before, c, n, after, want, strlen(want) + 1)

static void test_limits(void **state)
{
	check_sized("GET /", 'a', 8191, " HTTP/1.1\r\n" H "\r\n", "GET /aaaa", 9);
	SIZED("GET /", 'a', 8192, " HTTP/1.1\r\n" H "\r\n", "R414");
	SIZED("GET /", 'a', 65536, " HTTP/1.1\r\n" H "\r\n", "R414");
	SIZED("GET /?", 'a', 65536, "", "R414");
	SIZED("", 'A', 65536, " / HTTP/1.1\r\n" H "\r\n", "R400");
	SIZED("", ' ', 65536, "", "R414");
	/* a bad byte behind the limit does not change the answer, one before it does */
	SIZED("GET /", 'a', 9000, "\x01 HTTP/1.1\r\n" H "\r\n", "R414");
	SIZED("GET /", 'a', 8000, "\x01 HTTP/1.1\r\n" H "\r\n", "R400");
	SIZED(G "X: ", 'v', 8189, "\r\n\r\n", OKG);
	SIZED(G "X: ", 'v', 8190, "\r\n\r\n", "R431");
	SIZED(G, 'v', 8193, ": x\r\n\r\n", "R431");
	SIZED(G "X: ", 'v', 65536, "\r\n\r\n", "R431");
	SIZED(P "Transfer-Encoding: chunked\r\n\r\n0;", 'e', 16383, "\r\n\r\n", "POST / a chunked <>|");
	SIZED(P "Transfer-Encoding: chunked\r\n\r\n0;", 'e', 16384, "\r\n\r\n", "POST / a chunked <>R400");
	SIZED(P "Transfer-Encoding: chunked\r\n\r\n0;", 'e', 65536, "\r\n\r\n", "POST / a chunked <>R400");
	SIZED(P "Transfer-Encoding: chunked\r\n\r\n0\r\nX:", 'e', 8188, "\r\n\r\n", "POST / a chunked <>|");
	SIZED(P "Transfer-Encoding: chunked\r\n\r\n0\r\nX:", 'e', 8189, "\r\n\r\n", "POST / a chunked <>R431");
	SIZED(P "Transfer-Encoding: chunked\r\n\r\n0\r\nX:", 'e', 66560, "\r\n\r\n", "POST / a chunked <>R431");
}

static void test_many_fields(void **state)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;

	for (int n = 99; n <= 101; n++) {
		char in[4096] = "GET / HTTP/1.1\r\n" H, *got;
		size_t len = strlen(in);

		for (int i = 1; i < n; i++)
			len += (size_t)sprintf(in + len, "X-%d: y\r\n", i);
		len += (size_t)sprintf(in + len, "\r\n");
		got = conn_run(&limits, in, len, len / 3, len / 2);
		assert_string_equal(got, n <= 100 ? OKG : "R431");
		free(got);
	}
}

/* The whole block, in lines that are each within bounds. */
static void test_head_bytes(void **state)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	static char in[80000];
	size_t len = (size_t)sprintf(in, G), exact;
	char *got;

	for (int i = 0; i < 80; i++)
		len += (size_t)sprintf(in + len, "X-%02d: %0800d\r\n", i, 0);
	got = conn_run(&limits, in, len, 20000, 40000);
	assert_string_equal(got, "R431");
	free(got);
	/* a head of exactly the limit passes, one more byte does not */
	exact = strlen(G);
	for (int i = 0; exact + 810 < limits.head_bytes - 100; i++)
		exact += (size_t)sprintf(in + exact, "X-%02d: %0800d\r\n", i, 0);
	for (int more = 0; more < 2; more++) {
		size_t fill = limits.head_bytes - exact - strlen("X: \r\n\r\n") + (size_t)more;

		len = exact + (size_t)sprintf(in + exact, "X: %0*d\r\n\r\n", (int)fill, 0);
		assert_int_equal(len, limits.head_bytes + (size_t)more);
		for (size_t cut = len - 5; cut <= len; cut++) {
			got = conn_run(&limits, in, len, cut, len);
			assert_string_equal(got, more ? "R431" : OKG);
			free(got);
		}
	}
}

static void test_connection_tokens(void **state)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	char in[8000] = G "Connection: a", *got;
	size_t len = strlen(in);

	for (int i = 0; i < 2000; i++)
		len += (size_t)sprintf(in + len, ",a");
	len += (size_t)sprintf(in + len, "\r\n\r\n");
	got = conn_run(&limits, in, len, len, len);
	assert_string_equal(got, "R400");
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_many_fields),
		cmocka_unit_test(test_head_bytes),
		cmocka_unit_test(test_connection_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
