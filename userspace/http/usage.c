/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "http/usage.h"

#include <string.h>

#include "http/json_peek.h"

enum count {
	C_PROMPT,      /* prompt_tokens, or input_tokens */
	C_COMPLETION,
	C_CACHED,
	C_CACHE_READ,  /* Anthropic: input_tokens leaves these two out */
	C_CACHE_WRITE,
	C_TIMING_NEW,  /* llama.cpp timings: prompt_n leaves the cached part out */
	C_TIMING_CACHED,
	C_TIMING_OUT,
	C_COUNT
};

struct counts {
	bool has[C_COUNT];
	uint64_t v[C_COUNT];
};

static void count_set(struct counts *c, enum count which, const struct json_member *m)
{
	uint64_t v;

	if (!json_u64(m, &v))
		return;
	c->has[which] = true;
	c->v[which] = v;
}

static const struct {
	const char *key;
	enum count which;
} usage_keys[] = {
	{ "prompt_tokens", C_PROMPT },
	{ "input_tokens", C_PROMPT },
	{ "completion_tokens", C_COMPLETION },
	{ "output_tokens", C_COMPLETION },
	{ "cached_tokens", C_CACHED },
	{ "cache_read_input_tokens", C_CACHE_READ },
	{ "cache_creation_input_tokens", C_CACHE_WRITE },
	{ "cache_n", C_TIMING_CACHED },
	{ "prompt_n", C_TIMING_NEW },
	{ "predicted_n", C_TIMING_OUT },
};

static const char *read_object(struct counts *c, const char *s, const char *end)
{
	struct json_peek j, details;
	struct json_member m, d;

	if (!json_peek_object(&j, s, end))
		return s;
	while (json_peek_next(&j, &m)) {
		for (size_t i = 0; i < sizeof(usage_keys) / sizeof(usage_keys[0]); i++)
			if (json_key_is(&m, usage_keys[i].key))
				count_set(c, usage_keys[i].which, &m);
		if (!json_key_is(&m, "prompt_tokens_details") && !json_key_is(&m, "input_tokens_details"))
			continue;
		if (json_peek_object(&details, m.value, m.value + m.value_len))
			while (json_peek_next(&details, &d))
				if (json_key_is(&d, "cached_tokens"))
					count_set(c, C_CACHED, &d);
	}
	return j.p;
}

/* A quote that is escaped belongs to the text of an answer, not to the engine's
 * own keys: a model that writes "usage" can't be believed. Neither can the first
 * byte of a piece, whose backslash may be cut off. */
static bool escaped(const char *begin, const char *quote)
{
	const char *p = quote;

	while (p > begin && p[-1] == '\\')
		p--;
	return p == begin || ((quote - p) & 1);
}

static void scan(struct counts *c, const char *p, size_t n)
{
	static const char *const objects[] = { "\"usage\"", "\"timings\"", "\"meta_info\"" };
	const char *end = p + n, *q = p;

	while ((q = memchr(q, '"', (size_t)(end - q)))) {
		const char *at = q++;

		for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
			size_t len = strlen(objects[i]);
			const char *v = at + len;

			if ((size_t)(end - at) <= len || memcmp(at, objects[i], len) || escaped(p, at))
				continue;
			while (v < end && (*v == ' ' || *v == ':'))
				v++;
			/* Goes on behind the object, so that nesting costs nothing. */
			v = read_object(c, v, end);
			q = v > q ? v : q;
			break;
		}
	}
}

static bool resolve(const struct counts *c, struct http_usage *out)
{
	memset(out, 0, sizeof(*out));
	if (c->has[C_PROMPT]) {
		out->has_prompt = true;
		out->prompt_tokens = c->v[C_PROMPT];
		if (c->has[C_CACHE_READ] || c->has[C_CACHE_WRITE])
			out->prompt_tokens += c->v[C_CACHE_READ] + c->v[C_CACHE_WRITE];
	} else if (c->has[C_TIMING_NEW] && c->has[C_TIMING_CACHED]) {
		out->has_prompt = true;
		out->prompt_tokens = c->v[C_TIMING_NEW] + c->v[C_TIMING_CACHED];
	}
	if (c->has[C_COMPLETION] || c->has[C_TIMING_OUT]) {
		out->has_completion = true;
		out->completion_tokens = c->v[c->has[C_COMPLETION] ? C_COMPLETION : C_TIMING_OUT];
	}
	for (enum count k = C_CACHED; k <= C_TIMING_CACHED; k++) {
		if ((k != C_CACHED && k != C_CACHE_READ && k != C_TIMING_CACHED) || !c->has[k] || out->has_cached)
			continue;
		out->has_cached = true;
		out->cached_tokens = c->v[k];
	}
	return out->has_prompt || out->has_completion || out->has_cached;
}

bool http_usage_scan(const char *p, size_t n, struct http_usage *out)
{
	struct counts c = { { false }, { 0 } };

	scan(&c, p, n);
	return resolve(&c, out);
}

void usage_tail_init(struct usage_tail *t)
{
	t->total_bytes = 0; /* the arrays are read up to it only */
}

void usage_tail_feed(struct usage_tail *t, const char *p, size_t n)
{
	if (t->total_bytes < USAGE_HEAD_BYTES) {
		size_t room = USAGE_HEAD_BYTES - (size_t)t->total_bytes;

		memcpy(t->head + t->total_bytes, p, n < room ? n : room);
	}
	if (n > USAGE_TAIL_BYTES) {
		size_t skip = n - USAGE_TAIL_BYTES;

		t->total_bytes += skip;
		p += skip;
		n = USAGE_TAIL_BYTES;
	}
	while (n) {
		size_t at = (size_t)(t->total_bytes % USAGE_TAIL_BYTES);
		size_t k = n < USAGE_TAIL_BYTES - at ? n : USAGE_TAIL_BYTES - at;

		memcpy(t->ring + at, p, k);
		t->total_bytes += k;
		p += k;
		n -= k;
	}
}

bool usage_tail_read(const struct usage_tail *t, struct http_usage *out)
{
	struct counts c = { { false }, { 0 } };
	char tail[USAGE_TAIL_BYTES];
	size_t at = (size_t)(t->total_bytes % USAGE_TAIL_BYTES);

	if (t->total_bytes <= USAGE_TAIL_BYTES) {
		scan(&c, t->ring, (size_t)t->total_bytes);
	} else {
		scan(&c, t->head, USAGE_HEAD_BYTES);
		memcpy(tail, t->ring + at, USAGE_TAIL_BYTES - at);
		memcpy(tail + USAGE_TAIL_BYTES - at, t->ring, at);
		scan(&c, tail, sizeof(tail));
	}
	return resolve(&c, out);
}
