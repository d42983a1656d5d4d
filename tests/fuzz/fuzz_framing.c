/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Body framing. Holds: step, advance and byte-by-byte feeding agree on the end,
 * the payload and the error; what is accepted without extensions llhttp accepts,
 * with the same payload and end. */
#include <llhttp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

struct result {
	enum http_result res;
	size_t consumed, len;
	uint64_t hash;
	uint8_t error;
};

static void add(struct result *r, const char *p, size_t n)
{
	r->len += n;
	for (size_t i = 0; i < n; i++)
		r->hash = (r->hash ^ (uint8_t)p[i]) * 0x100000001b3ull;
}

static struct result run(const char *p, size_t n, size_t piece, uint8_t kind, uint64_t length)
{
	struct result r = { HTTP_MORE, 0, 0, 0, 0 };
	struct http_body b;

	http_body_init(&b, kind, length, 0);
	do {
		size_t k = n - r.consumed < piece ? n - r.consumed : piece, pos = 0;

		do {
			struct http_span s;

			r.res = http_body_step(&b, p + r.consumed, k - pos, &s);
			CHECK(s.off + s.len <= s.consumed && s.consumed <= k - pos);
			CHECK(s.consumed || r.res != HTTP_MORE || pos == k);
			add(&r, p + r.consumed + s.off, s.len);
			r.consumed += s.consumed;
			pos += s.consumed;
		} while (r.res == HTTP_MORE && pos < k);
	} while (r.res == HTTP_MORE && r.consumed < n);
	r.error = b.framing.error;
	return r;
}

static int peer_body(llhttp_t *p, const char *at, size_t len)
{
	add(p->data, at, len);
	return 0;
}

static int peer_end(llhttp_t *p)
{
	((struct result *)p->data)->res = HTTP_DONE;
	return HPE_PAUSED;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char head[] = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	const char *p = (const char *)data + 2;
	struct result whole, split, peer = { HTTP_MORE, 0, 0, 0, 0 };
	uint8_t kind;
	llhttp_settings_t settings;
	llhttp_t parser;

	if (size < 2)
		return 0;
	size -= 2;
	kind = data[0] % 8 ? HTTP_BODY_CHUNKED : data[0] / 8 % 4;
	whole = run(p, size, size + 1, kind, data[1]);
	split = run(p, size, 1 + data[1] % 16, kind, data[1]);
	CHECK(whole.res == split.res && whole.error == split.error && whole.len == split.len && whole.hash == split.hash);
	CHECK(whole.res == HTTP_FAULT || whole.consumed == split.consumed);
	if (kind != HTTP_BODY_CHUNKED || whole.res != HTTP_DONE || memchr(p, ';', whole.consumed) ||
	    memmem(p, whole.consumed, "\r\n0", 3) != memmem(p, whole.consumed, "\r\n0\r\n\r\n", 7))
		return 0; /* extensions and trailers: llhttp parses more of them than framing needs */
	llhttp_settings_init(&settings);
	settings.on_body = peer_body;
	settings.on_message_complete = peer_end;
	llhttp_init(&parser, HTTP_REQUEST, &settings);
	parser.data = &peer;
	CHECK(llhttp_execute(&parser, head, sizeof(head) - 1) == HPE_OK);
	CHECK(llhttp_execute(&parser, p, size) == HPE_PAUSED);
	CHECK(peer.res == HTTP_DONE && peer.len == whole.len && peer.hash == whole.hash);
	CHECK((size_t)(llhttp_get_error_pos(&parser) - p) == whole.consumed);
	return 0;
}
