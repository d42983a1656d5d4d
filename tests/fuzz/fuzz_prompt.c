/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Request bodies; the first byte chooses the family. Holds: neither key nor
 * fields depend on how the body is split; what yyjson accepts is accepted; written
 * again by yyjson in another style, a body keeps its key; blocks are bounded and
 * their sizes add up; a cut body is taken too. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "prompt/prompt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static const struct prompt_limits limits = { .max_blocks = 64, .max_cuts = 16 };

static void run(enum prompt_family f, const char *p, size_t n, size_t piece, bool cut, struct prompt_info *info,
		struct prompt_key *key)
{
	struct prompt_key_params params = { .model = "m", .hint = "h", .hint_len = 1 };
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct prompt_scan *s = prompt_scan_new();
	uint64_t sum = 0;
	uint32_t i;
	size_t off;

	CHECK(s);
	prompt_scan_begin(s, f, &limits);
	for (off = 0; off < n; off += piece)
		prompt_scan_feed(s, p + off, n - off < piece ? n - off : piece);
	prompt_scan_end(s, cut);
	*info = *prompt_scan_info(s);
	CHECK(!prompt_key_build(s, &params, &iov, 1, key));
	CHECK(key->nblocks >= 1 && key->nblocks <= limits.max_blocks);
	for (i = 0; i < key->nblocks; i++)
		sum += key->bytes[i];
	CHECK(sum == key->total_bytes);
	CHECK(info->model_off + info->model_raw_len <= n);
	prompt_scan_free(s);
}

static void same(const struct prompt_key *a, const struct prompt_key *b)
{
	CHECK(a->nblocks == b->nblocks && a->raw == b->raw && a->class_id == b->class_id);
	CHECK(!memcmp(a->hash, b->hash, a->nblocks * sizeof(*a->hash)));
	CHECK(!memcmp(a->bytes, b->bytes, a->nblocks * sizeof(*a->bytes)));
	CHECK(!memcmp(a->flags, b->flags, a->nblocks));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const yyjson_write_flag styles[] = { 0, YYJSON_WRITE_PRETTY, YYJSON_WRITE_ESCAPE_UNICODE,
						    YYJSON_WRITE_ESCAPE_SLASHES | YYJSON_WRITE_PRETTY_TWO_SPACES };
	static const size_t pieces[] = { 1, 2, 7, 64, 300 };
	struct prompt_info info, other;
	struct prompt_key key, again;
	enum prompt_family f;
	const char *p;
	yyjson_doc *doc;
	size_t n, i;

	if (size < 2)
		return 0;
	f = (enum prompt_family)(data[0] % PROMPT_FAMILY_MAX);
	p = (const char *)data + 1;
	n = size - 1;
	run(f, p, n, n, false, &info, &key);
	for (i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		run(f, p, n, pieces[i], false, &other, &again);
		same(&key, &again);
		if (info.json)
			CHECK(!memcmp(&info, &other, sizeof(info)));
		prompt_key_free(&again);
	}
	doc = yyjson_read(p, n, YYJSON_READ_NUMBER_AS_RAW);
	/* yyjson knows no limit of depth. */
	for (i = 0; doc && info.json && i < sizeof(styles) / sizeof(styles[0]); i++) {
		size_t len;
		char *text = yyjson_write(doc, styles[i], &len);

		CHECK(text);
		run(f, text, len, 3, false, &other, &again);
		CHECK(other.json && other.shape == info.shape && other.has_model == info.has_model);
		CHECK(!strcmp(other.model, info.model) && other.max_tokens == info.max_tokens);
		if (!key.raw)
			same(&key, &again);
		prompt_key_free(&again);
		free(text);
	}
	yyjson_doc_free(doc);
	prompt_key_free(&key);
	run(f, p, n / 2 + 1, 5, true, &info, &key);
	prompt_key_free(&key);
	{
		struct iovec one = { (void *)(uintptr_t)p, n };
		struct iovec two[2] = { { one.iov_base, n / 2 }, { (char *)one.iov_base + n / 2, n - n / 2 } };
		uint32_t len = data[0];

		CHECK(prompt_prefix_hash(&one, 1, f, len, NULL, 0) == prompt_prefix_hash(two, 2, f, len, NULL, 0));
	}
	return 0;
}
