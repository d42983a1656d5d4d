/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Response heads. Holds: no dependence on the split; what is accepted is
 * re-serialised into a response that is accepted again and framed the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static const struct http_limits limits = { .head_bytes = 4096, .target_bytes = 512, .line_bytes = 1024, .headers = 20 };

static enum http_result parse(struct http_resp *r, struct http_field *fields, const uint8_t *data, size_t n, size_t cut,
			      enum http_method method)
{
	enum http_result res = HTTP_MORE;

	http_resp_init(r, &limits, fields, 32, method);
	for (int half = 0; half < 2 && res == HTTP_MORE; half++) {
		size_t have = half ? n : cut;
		char *p = malloc(have ? have : 1);

		memcpy(p, data, have);
		res = http_resp_parse(r, p, have);
		free(p);
	}
	return res;
}

static void check_written(const struct http_resp *r, const char *buf, enum http_method method, bool http10)
{
	struct http_req req = { .version_minor = !http10, .keep_alive = true, .method = (uint8_t)method };
	struct http_limits wide = HTTP_LIMITS_DEFAULT;
	struct http_resp_out o = { 0 };
	struct http_field fields[64];
	struct http_resp again;
	char out[16384];
	ssize_t n;

	http_resp_plan(&o, r, &req, false);
	n = http_write_response(out, sizeof(out), r, buf, &o);
	CHECK(n > 0);
	http_resp_init(&again, &wide, fields, 64, method);
	CHECK(http_resp_parse(&again, out, (size_t)n) == HTTP_DONE);
	CHECK(again.head_bytes == (size_t)n && again.status == r->status && again.version_minor == 1);
	CHECK(again.body == o.body && !(http10 && again.has_chunked));
	CHECK(o.body != HTTP_BODY_LENGTH || again.content_length == r->content_length);
	CHECK(again.keep_alive == !o.close);
	CHECK(again.event_stream == r->event_stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_field fields[32], split_fields[32];
	struct http_resp whole, split;
	enum http_method method;
	enum http_result res;
	bool http10;
	size_t cut;

	if (size < 3)
		return 0;
	method = data[2] & 1 ? HTTP_M_HEAD : HTTP_M_POST;
	http10 = data[2] & 2;
	cut = (size_t)(data[0] << 8 | data[1]) % (size - 2);
	data += 3;
	size -= 3;
	res = parse(&whole, fields, data, size, 0, method);
	CHECK(parse(&split, split_fields, data, size, cut < size ? cut : size, method) == res);
	CHECK(whole.fault.message == split.fault.message);
	CHECK(res != HTTP_FAULT || whole.fault.status == 502);
	if (res == HTTP_DONE || res == HTTP_INTERIM) {
		CHECK(whole.head_bytes == split.head_bytes && whole.nfields == split.nfields && whole.body == split.body);
		CHECK(!memcmp(fields, split_fields, whole.nfields * sizeof(fields[0])));
		CHECK((res == HTTP_INTERIM) == (whole.status < 200));
		if (res == HTTP_DONE)
			check_written(&whole, (const char *)data, method, http10);
	}
	return 0;
}
