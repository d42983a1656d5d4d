/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Request heads. Holds: the result does not depend on the split; what is accepted
 * is re-serialised into a request that is accepted again, means the same, and has
 * no hop-by-hop field and one framing field at most. */
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

static const struct http_limits limits = { .head_bytes = 4096, .target_bytes = 512, .line_bytes = 1024, .headers = 20,
					   .body_bytes = 1 << 20 };

/* Parses a copy that is exactly `n` bytes; the caller frees *buf. */
static enum http_result parse(struct http_req *r, struct http_field *fields, const uint8_t *data, size_t n, size_t cut,
			      char **buf)
{
	enum http_result res = HTTP_MORE;

	http_req_init(r, &limits, fields, 32);
	*buf = NULL;
	for (int half = 0; half < 2 && res == HTTP_MORE; half++) {
		size_t have = half ? n : cut;
		char *p = malloc(have ? have : 1);

		memcpy(p, data, have);
		if (*buf) /* the path may have been normalised in place */
			memcpy(p, *buf, cut);
		free(*buf);
		*buf = p;
		res = http_req_parse(r, p, have);
	}
	return res;
}

static void check_written(const struct http_req *r, const char *buf)
{
	static const char peer[] = "10.0.0.1";
	struct http_req_out o = { .host = "backend:80", .body = r->body, .content_length = r->content_length,
				  .peer_address = peer, .trusted = true, .request_id = "id" };
	struct http_field fields[64];
	struct http_req again;
	struct http_limits wide = HTTP_LIMITS_DEFAULT;
	char out[16384];
	ssize_t n = http_write_request(out, sizeof(out), r, buf, &o);
	unsigned int framing = 0;

	CHECK(n > 0);
	http_req_init(&again, &wide, fields, 64);
	CHECK(http_req_parse(&again, out, (size_t)n) == HTTP_DONE);
	CHECK(again.head_bytes == (size_t)n && again.method == r->method && again.keep_alive && !again.expect_continue);
	CHECK(again.path.len == r->path.len && !memcmp(out + again.path.off, buf + r->path.off, r->path.len));
	CHECK(again.query.len == r->query.len && again.has_query == r->has_query);
	CHECK(again.host.len == strlen(o.host));
	CHECK(again.content_length == r->content_length);
	CHECK(again.body == r->body || (r->body == HTTP_BODY_NONE && again.body == HTTP_BODY_LENGTH));
	for (uint16_t i = 0; i < again.nfields; i++) {
		uint8_t id = fields[i].id;

		framing += id == HTTP_F_CONTENT_LENGTH || id == HTTP_F_TRANSFER_ENCODING;
		CHECK(!(fields[i].flags & HTTP_FIELD_HOP) || id == HTTP_F_TRANSFER_ENCODING);
		CHECK(id != HTTP_F_X_KVSTEER && id != HTTP_F_X_GATEWAY && id != HTTP_F_X_KVSTEER_PRIORITY && id != HTTP_F_EXPECT);
	}
	CHECK(framing <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_field fields[32], split_fields[32];
	struct http_req whole, split;
	enum http_result res, split_res;
	char *buf, *split_buf;
	size_t cut;

	if (size < 2)
		return 0;
	cut = (size_t)(data[0] << 8 | data[1]) % (size - 1);
	data += 2;
	size -= 2;
	cut = cut < size ? cut : size;
	res = parse(&whole, fields, data, size, 0, &buf);
	split_res = parse(&split, split_fields, data, size, cut, &split_buf);
	CHECK(res == split_res);
	CHECK(whole.fault.status == split.fault.status && whole.fault.message == split.fault.message);
	CHECK(res != HTTP_FAULT || whole.fault.status >= 400);
	if (res == HTTP_DONE) {
		CHECK(whole.head_bytes == split.head_bytes && whole.nfields == split.nfields && whole.body == split.body);
		CHECK(!memcmp(fields, split_fields, whole.nfields * sizeof(fields[0])));
		CHECK(!memcmp(buf, split_buf, whole.head_bytes));
		check_written(&whole, buf);
	}
	free(buf);
	free(split_buf);
	return 0;
}
