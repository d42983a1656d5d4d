/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What goes out: exact bytes, every capacity, and no way to split a message. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#include "http/write.h"

static struct http_limits limits = HTTP_LIMITS_DEFAULT;

static struct http_req req;
static struct http_resp resp;
static struct http_field fields[100];
static char buf[32768];

static void parse_req(const char *in)
{
	strcpy(buf, in);
	http_req_init(&req, &limits, fields, 100);
	assert_int_equal(http_req_parse(&req, buf, strlen(in)), HTTP_DONE);
}

static void parse_resp(const char *in, enum http_method method, enum http_result want)
{
	strcpy(buf, in);
	http_resp_init(&resp, &limits, fields, 100, method);
	assert_int_equal(http_resp_parse(&resp, buf, strlen(in)), want);
}

/* Writes with every capacity: too small is -ENOBUFS, never an overrun. */
static void check_request(const struct http_req_out *o, const char *want)
{
	size_t n = strlen(want);

	for (size_t cap = 0; cap <= n; cap++) {
		char *out = malloc(cap ? cap : 1);
		ssize_t got = http_write_request(out, cap, &req, buf, o);

		if (cap < n) {
			assert_int_equal(got, -ENOBUFS);
		} else {
			if (got != (ssize_t)n || memcmp(out, want, n))
				fail_msg("got %zd bytes:\n%.*s\nwant %zu:\n%s", got, (int)got, out, n, want);
		}
		free(out);
	}
}

static void check_response(const struct http_resp_out *o, const char *want)
{
	size_t n = strlen(want);

	for (size_t cap = 0; cap <= n; cap++) {
		char *out = malloc(cap ? cap : 1);
		ssize_t got = http_write_response(out, cap, &resp, buf, o);

		if (cap < n) {
			assert_int_equal(got, -ENOBUFS);
		} else {
			if (got != (ssize_t)n || memcmp(out, want, n))
				fail_msg("got %zd bytes:\n%.*s\nwant %zu:\n%s", got, (int)got, out, n, want);
		}
		free(out);
	}
}

static void test_request(void **state)
{
	struct http_req_out o = { .host = "10.0.0.1:8000" };

	parse_req("GET /v1/models?a=b HTTP/1.1\r\nHost: gw\r\nAccept: x\r\n\r\n");
	check_request(&o, "GET /v1/models?a=b HTTP/1.1\r\nhost: 10.0.0.1:8000\r\nAccept: x\r\n\r\n");
	o.path_prefix = "/engine";
	o.close = true;
	check_request(&o, "GET /engine/v1/models?a=b HTTP/1.1\r\nhost: 10.0.0.1:8000\r\nAccept: x\r\nconnection: close\r\n\r\n");
	parse_req("GET http://other/v1/../x? HTTP/1.0\r\nHost: gw\r\n\r\n");
	o = (struct http_req_out){ .host = "b" };
	check_request(&o, "GET /x? HTTP/1.1\r\nhost: b\r\n\r\n");
	parse_req("OPTIONS * HTTP/1.1\r\nHost: gw\r\n\r\n");
	o.path_prefix = "/p";
	check_request(&o, "OPTIONS * HTTP/1.1\r\nhost: b\r\n\r\n");
}

static void test_request_framing(void **state)
{
	struct http_req_out o = { .host = "b", .body = HTTP_BODY_LENGTH, .content_length = 12 };

	/* a chunked request that was collected goes out with a length */
	parse_req("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nExpect: 100-continue\r\n\r\n");
	check_request(&o, "POST /x HTTP/1.1\r\nhost: b\r\ncontent-length: 12\r\n\r\n");
	o.body = HTTP_BODY_CHUNKED;
	check_request(&o, "POST /x HTTP/1.1\r\nhost: b\r\ntransfer-encoding: chunked\r\n\r\n");
	parse_req("POST /x HTTP/1.1\r\nHost: a\r\n\r\n");
	o = (struct http_req_out){ .host = "b" };
	check_request(&o, "POST /x HTTP/1.1\r\nhost: b\r\ncontent-length: 0\r\n\r\n");
}

static void test_request_fields(void **state)
{
	static const char in[] = "POST /x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\nX-Api-Key: k\r\nCookie: c\r\n"
				 "Connection: X-Mine, authorization, host, content-length, keep-alive\r\nX-Mine: 1\r\n"
				 "Keep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\nProxy-Connection: x\r\n"
				 "Proxy-Authorization: Basic eA==\r\nX-Kvsteer-Backend: spoof\r\nx-kvsteer-priority: 5\r\n"
				 "X-Gateway-Model-Name: spoof\r\nX-Gateway-Other: spoof\r\nX-Request-Id: mine\r\nX-Forwarded-For: 1.2.3.4\r\n"
				 "X-Forwarded-For: 5.6.7.8\r\nForwarded: for=1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\n"
				 "X-Real-IP: 1.1.1.1\r\nContent-Length: 2\r\nX-Other: \xc3\xa4\r\nEmpty:\r\n\r\nhi";
	static const struct http_extra extra[] = {
		{ "X-Gateway-Model-Name", "llama", 5 },
		{ "x-none", NULL, 0 },
		{ "x-other-name", "", 0 },
	};
	struct http_req_out o = { .host = "b", .body = HTTP_BODY_LENGTH, .content_length = 2, .peer_address = "9.9.9.9",
				  .request_id = "id-1", .extra = extra, .nextra = 3 };

	parse_req(in);
	check_request(&o, "POST /x HTTP/1.1\r\nhost: b\r\nAuthorization: Bearer k\r\nX-Api-Key: k\r\nCookie: c\r\n"
			  "X-Other: \xc3\xa4\r\nEmpty: \r\nx-forwarded-for: 9.9.9.9\r\nx-request-id: id-1\r\n"
			  "X-Gateway-Model-Name: llama\r\nx-other-name: \r\ncontent-length: 2\r\n\r\n");
	o.trusted = true;
	o.drop = HTTP_DROP_AUTHORIZATION | HTTP_DROP_COOKIE;
	check_request(&o, "POST /x HTTP/1.1\r\nhost: b\r\nForwarded: for=1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\n"
			  "X-Real-IP: 1.1.1.1\r\nX-Other: \xc3\xa4\r\nEmpty: \r\nx-forwarded-for: 1.2.3.4, 5.6.7.8, 9.9.9.9\r\n"
			  "x-request-id: id-1\r\nX-Gateway-Model-Name: llama\r\nx-other-name: \r\ncontent-length: 2\r\n\r\n");
}

static void test_no_splitting(void **state)
{
	static const char *const bad[] = { "a\r\nX: y", "a\nb", "a\rb", "\x01", "\x7f" };
	char out[1024];
	struct http_error_out e = { .status = 400, .code = "bad_request", .message = "m" };

	parse_req("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct http_extra extra = { "x-a", bad[i], strlen(bad[i]) };
		struct http_req_out o = { .host = "b", .extra = &extra, .nextra = 1 };

		assert_int_equal(http_write_request(out, sizeof(out), &req, buf, &o), -EINVAL);
		extra = (struct http_extra){ bad[i], "v", 1 };
		assert_int_equal(http_write_request(out, sizeof(out), &req, buf, &o), -EINVAL);
		o = (struct http_req_out){ .host = bad[i] };
		assert_int_equal(http_write_request(out, sizeof(out), &req, buf, &o), -EINVAL);
		o = (struct http_req_out){ .host = "b", .request_id = bad[i] };
		assert_int_equal(http_write_request(out, sizeof(out), &req, buf, &o), -EINVAL);
		o = (struct http_req_out){ .host = "b", .peer_address = bad[i] };
		assert_int_equal(http_write_request(out, sizeof(out), &req, buf, &o), -EINVAL);
		o = (struct http_req_out){ .host = "b", .path_prefix = bad[i] };
		assert_int_equal(http_write_request(out, sizeof(out), &req, buf, &o), -EINVAL);
		e.request_id = bad[i];
		assert_int_equal(http_write_error(out, sizeof(out), &e), -EINVAL);
	}
	/* NUL inside a counted value */
	struct http_extra nul = { "x-a", "a\0b", 3 };
	struct http_req_out o = { .host = "b", .extra = &nul, .nextra = 1 };

	assert_int_equal(http_write_request(out, sizeof(out), &req, buf, &o), -EINVAL);
}

static void test_response(void **state)
{
	static const struct http_extra extra[] = { { "x-kvsteer-backend", "n1", 2 }, { "x-request-id", "id", 2 } };
	struct http_resp_out o = { 0 };

	parse_req("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
	parse_resp("HTTP/1.1 200 Fine\r\nServer: uvicorn\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
		   "X-Request-Id: theirs\r\nX-KVSteer-Reason: spoof\r\nContent-Length: 3\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
		   "Endpoint-Load-Metrics: JSON {}\r\n\r\n", HTTP_M_POST, HTTP_DONE);
	http_resp_plan(&o, &resp, &req, false);
	o.extra = extra;
	o.nextra = 2;
	o.drop = HTTP_DROP_ENDPOINT_LOAD_METRICS;
	o.date = "Sun, 06 Nov 1994 08:49:37 GMT";
	check_response(&o, "HTTP/1.1 200 OK\r\nServer: uvicorn\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
			   "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nx-kvsteer-backend: n1\r\nx-request-id: id\r\n"
			   "content-length: 3\r\n\r\n");
	parse_resp("HTTP/1.1 299 Their words\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_M_POST, HTTP_DONE);
	o = (struct http_resp_out){ .date = "now" };
	http_resp_plan(&o, &resp, &req, true);
	check_response(&o, "HTTP/1.1 299 Their words\r\nDate: x\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n");
}

/* How each backend framing meets each client. */
static void test_plan(void **state)
{
	static const struct {
		const char *req, *resp;
		enum http_method method;
		const char *framing; /* the end of the head written */
	} rows[] = {
		{ "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", HTTP_M_GET, "transfer-encoding: chunked\r\n\r\n" },
		{ "GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", HTTP_M_GET, "OK\r\nconnection: close\r\n\r\n" },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		  HTTP_M_GET, "OK\r\nconnection: close\r\n\r\n" },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
		  HTTP_M_GET, "OK\r\nconnection: keep-alive\r\ncontent-length: 4\r\n\r\n" },
		{ "GET / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", HTTP_M_GET,
		  "OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n" },
		{ "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n",
		  HTTP_M_GET, "OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n" },
		{ "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", HTTP_M_HEAD,
		  "OK\r\ncontent-length: 4\r\n\r\n" },
		{ "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_M_HEAD,
		  "OK\r\ntransfer-encoding: chunked\r\n\r\n" },
		{ "HEAD / HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_M_HEAD,
		  "OK\r\nconnection: close\r\n\r\n" },
		{ "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", HTTP_M_GET,
		  "Modified\r\ncontent-length: 4\r\n\r\n" },
		{ "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", HTTP_M_GET,
		  "Content\r\n\r\n" },
		{ "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", HTTP_M_GET,
		  "OK\r\ncontent-length: 0\r\n\r\n" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_resp_out o = { 0 };
		char out[512];
		ssize_t n;
		size_t k = strlen(rows[i].framing);

		parse_req(rows[i].req);
		parse_resp(rows[i].resp, rows[i].method, HTTP_DONE);
		http_resp_plan(&o, &resp, &req, false);
		n = http_write_response(out, sizeof(out), &resp, buf, &o);
		assert_true(n > (ssize_t)k);
		if (memcmp(out + n - k, rows[i].framing, k))
			fail_msg("row %zu: %.*s", i, (int)n, out);
	}
}

static void test_interim(void **state)
{
	char out[256];
	ssize_t n;

	parse_resp("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\nConnection: y\r\nContent-Length: 3\r\n\r\n", HTTP_M_GET, HTTP_INTERIM);
	n = http_write_interim(out, sizeof(out), &resp, buf);
	assert_int_equal(n, strlen("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"));
	assert_memory_equal(out, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", (size_t)n);
	assert_int_equal(http_write_interim(out, (size_t)n - 1, &resp, buf), -ENOBUFS);
}

/* The whole answer parsed back by our own parser and by yyjson. */
static void test_error(void **state)
{
	static const struct {
		uint16_t status;
		const char *code, *openai, *anthropic;
	} rows[] = {
		{ 400, "bad_request", "invalid_request_error", "invalid_request_error" },
		{ 401, "unauthorized", "authentication_error", "authentication_error" },
		{ 403, "path_not_allowed", "permission_error", "permission_error" },
		{ 404, "model_not_found", "invalid_request_error", "not_found_error" },
		{ 405, "method_not_allowed", "invalid_request_error", "invalid_request_error" },
		{ 408, "request_timeout", "invalid_request_error", "invalid_request_error" },
		{ 413, "body_too_large", "invalid_request_error", "request_too_large" },
		{ 429, "queue_full", "rate_limit_error", "rate_limit_error" },
		{ 431, "header_too_large", "invalid_request_error", "invalid_request_error" },
		{ 502, "backend_reset", "server_error", "api_error" },
		{ 503, "no_backend", "server_error", "overloaded_error" },
		{ 504, "first_token_timeout", "server_error", "timeout_error" },
		{ 505, "http_version", "server_error", "api_error" },
	};
	static const char message[] = "no \"model\"\\ \x01\n\t\xc3\xa4 \xff\xc3 \xe2\x82\xac\xed\xa0\x80\xf0\x9f\x98\x80";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int flavour = 0; flavour < 2; flavour++) {
			struct http_error_out e = { .status = rows[i].status, .code = rows[i].code, .message = message,
						    .flavour = (uint8_t)flavour, .request_id = "id-9", .close = i & 1,
						    .retry_after_s = rows[i].status == 429 ? 7 : 0 };
			char out[2048];
			ssize_t n = http_write_error(out, sizeof(out), &e);
			const struct http_field *f;
			yyjson_doc *doc;
			yyjson_val *err;

			assert_true(n > 0);
			for (size_t cap = 0; cap < (size_t)n; cap++) {
				char *small = malloc(cap ? cap : 1);

				assert_int_equal(http_write_error(small, cap, &e), -ENOBUFS);
				free(small);
			}
			out[n] = 0;
			parse_resp(out, HTTP_M_POST, HTTP_DONE);
			assert_int_equal(resp.status, rows[i].status);
			assert_int_equal(resp.body, HTTP_BODY_LENGTH);
			assert_int_equal(resp.content_length, (size_t)n - resp.head_bytes);
			assert_int_equal(resp.keep_alive, !(i & 1));
			f = http_field_first(fields, resp.nfields, HTTP_F_RETRY_AFTER);
			assert_int_equal(f != NULL, rows[i].status == 429);
			assert_int_equal(http_field_named(fields, resp.nfields, buf, "allow", 5) != NULL, rows[i].status == 405);
			doc = yyjson_read(buf + resp.head_bytes, resp.content_length, 0);
			assert_non_null(doc);
			err = yyjson_obj_get(yyjson_doc_get_root(doc), "error");
			assert_string_equal(yyjson_get_str(yyjson_obj_get(err, "code")), rows[i].code);
			assert_string_equal(yyjson_get_str(yyjson_obj_get(err, "type")),
					    flavour ? rows[i].anthropic : rows[i].openai);
			assert_string_equal(yyjson_get_str(yyjson_obj_get(err, "message")),
					    "no \"model\"\\ \x01\n\t\xc3\xa4 \xef\xbf\xbd\xef\xbf\xbd \xe2\x82\xac"
					    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80");
			if (flavour)
				assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "type")), "error");
			else
				assert_true(yyjson_is_null(yyjson_obj_get(err, "param")));
			yyjson_doc_free(doc);
		}
}

static void test_error_variants(void **state)
{
	struct http_error_out e = { .status = 404, .code = "model_not_found", .message = "m", .param = "model",
				    .head_only = true, .http10 = true, .date = "D" };
	char out[512];
	ssize_t n = http_write_error(out, sizeof(out), &e);
	static const char want[] = "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ndate: D\r\n"
				   "connection: keep-alive\r\ncontent-length: 97\r\n\r\n";

	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(out, want, (size_t)n);
	n = http_write_error_json(out, sizeof(out), &e);
	static const char json[] = "{\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\",\"param\":\"model\","
				   "\"code\":\"model_not_found\"}}";

	assert_int_equal(n, sizeof(json) - 1);
	assert_memory_equal(out, json, sizeof(json) - 1);
	assert_int_equal(n, 97);
}

static void test_date(void **state)
{
	char out[HTTP_DATE_MAX];

	http_format_date(out, 784111777);
	assert_string_equal(out, "Sun, 06 Nov 1994 08:49:37 GMT");
	http_format_date(out, 0);
	assert_string_equal(out, "Thu, 01 Jan 1970 00:00:00 GMT");
	http_format_date(out, INT64_MAX);
	assert_string_equal(out, "Thu, 01 Jan 1970 00:00:00 GMT");
}

static void test_request_id(void **state)
{
	char long_id[130];

	memset(long_id, 'a', sizeof(long_id));
	assert_true(http_request_id_ok("b16a9166-345b.469f_ab:d/+@=", 27));
	assert_true(http_request_id_ok(long_id, 128));
	assert_false(http_request_id_ok(long_id, 129));
	assert_false(http_request_id_ok("", 0));
	assert_false(http_request_id_ok("a b", 3));
	assert_false(http_request_id_ok("a\"b", 3));
	assert_false(http_request_id_ok("a\0b", 3));
	assert_false(http_request_id_ok("a\xff", 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_request_framing),
		cmocka_unit_test(test_request_fields),
		cmocka_unit_test(test_no_splitting),
		cmocka_unit_test(test_response),
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_interim),
		cmocka_unit_test(test_error),
		cmocka_unit_test(test_error_variants),
		cmocka_unit_test(test_date),
		cmocka_unit_test(test_request_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
