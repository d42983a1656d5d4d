/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Event streams and usage objects. Holds: the events do not depend on the split,
 * no read is out of bounds, every feed advances. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/sse.h"
#include "http/usage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static uint64_t run(const uint8_t *data, size_t n, size_t piece, enum sse_token_rule rule)
{
	uint64_t hash = 0;
	struct sse_watch w;

	sse_init(&w, rule);
	for (size_t pos = 0; pos < n;) {
		size_t k = n - pos < piece ? n - pos : piece, at = 0, used;
		char *p = malloc(k);
		struct sse_event ev;

		memcpy(p, data + pos, k);
		while (sse_feed(&w, p + at, k - at, &used, &ev)) {
			CHECK(used > 0 && used <= k - at && ev.data_len <= SSE_KEEP && strlen(ev.type) <= SSE_TYPE_MAX);
			at += used;
			hash = (hash ^ (uint64_t)(ev.kind + 8 * ev.first_token + 16 * ev.error_code)) * 0x100000001b3ull;
			for (size_t i = 0; i < ev.data_len; i++)
				hash = (hash ^ (uint8_t)ev.data[i]) * 0x100000001b3ull;
		}
		CHECK(used == k - at);
		free(p);
		pos += k;
	}
	return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct usage_tail tail;
	struct http_usage scanned, fed;
	struct sse_activity a = { 0 }, b = { 0 };
	enum sse_token_rule rule;
	bool any = false, found;
	size_t piece;
	char *p;

	if (size < 2)
		return 0;
	rule = data[0] & 1 ? SSE_TOKEN_DELTA : SSE_TOKEN_ANY;
	piece = 1 + data[1];
	data += 2;
	size -= 2;
	CHECK(run(data, size, size + 1, rule) == run(data, size, piece, rule));
	p = malloc(size ? size : 1);
	memcpy(p, data, size);
	found = http_usage_scan(p, size, &scanned);
	usage_tail_init(&tail);
	for (size_t pos = 0; pos < size; pos += piece) {
		size_t k = size - pos < piece ? size - pos : piece;

		any |= sse_activity(&a, p + pos, k);
		usage_tail_feed(&tail, p + pos, k);
	}
	CHECK(sse_activity(&b, p, size) == any && a.state == b.state);
	if (size <= USAGE_TAIL_BYTES)
		CHECK(usage_tail_read(&tail, &fed) == found && !memcmp(&fed, &scanned, sizeof(fed)));
	else
		usage_tail_read(&tail, &fed);
	free(p);
	return 0;
}
