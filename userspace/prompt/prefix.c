/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* policy prefix_aware: one hash over the first characters of the prompt's text,
 * or the first bytes of the body. A small reader of its own: it keeps no blocks
 * and stops as soon as it has enough. */
#include "prompt/json.h"
#include "prompt/sink.h"

#define PREFIX_DEPTH 12         /* containers below this hold no message text */

struct prefix {
	struct sink out;
	uint64_t left;          /* characters still wanted */
	uint64_t texts;
	uint32_t depth;
	bool in_prompt;         /* inside a root field that holds the prompt */
	uint32_t text_at;       /* bit d: the field being read at depth d holds text */
	bool reading;
};

static bool key_is(const struct json_token *t, const char *name)
{
	return t->len == strlen(name) && t->len <= JSON_TOKEN_MAX && !memcmp(t->buf, name, t->len);
}

static bool in_list(const struct json_token *t, const char *const *names)
{
	for (; *names; names++) {
		if (key_is(t, *names))
			return true;
	}
	return false;
}

static const char *const root_fields[] = { "messages", "system", "instructions", "input", "prompt", "inputs", "text",
					   NULL };
static const char *const text_fields[] = { "content", "text", NULL };

static int on_begin(void *ctx, bool array)
{
	struct prefix *x = ctx;

	(void)array;
	if (++x->depth < PREFIX_DEPTH) {
		uint32_t bit = 1u << x->depth, up = x->text_at >> (x->depth - 1) & 1;

		/* An array's elements are what the field is; an object's fields say for themselves. */
		x->text_at = array && up ? x->text_at | bit : x->text_at & ~bit;
	}
	return 0;
}

static int on_end(void *ctx, bool array)
{
	struct prefix *x = ctx;

	(void)array;
	x->depth--;
	return 0;
}

static int on_key(void *ctx, const struct json_token *key)
{
	struct prefix *x = ctx;
	bool text;

	if (x->depth >= PREFIX_DEPTH)
		return 0;
	if (x->depth == 1)
		x->in_prompt = text = in_list(key, root_fields);
	else
		text = in_list(key, text_fields);
	x->text_at = text ? x->text_at | 1u << x->depth : x->text_at & ~(1u << x->depth);
	return 0;
}

static int on_str_begin(void *ctx)
{
	struct prefix *x = ctx;

	x->reading = x->in_prompt && x->depth < PREFIX_DEPTH && (x->text_at >> x->depth & 1);
	if (x->reading && x->texts++)
		sink_mark(&x->out, MARK_PART);
	return 0;
}

static int on_str_chunk(void *ctx, const uint8_t *p, size_t n)
{
	struct prefix *x = ctx;
	size_t i;

	if (!x->reading)
		return 0;
	if (n < x->left) {              /* so many bytes can't hold more characters than that */
		for (i = 0; i < n; i++)
			x->left -= (p[i] & 0xc0) != 0x80;
		sink_write(&x->out, p, n);
		return 0;
	}
	for (i = 0; i < n; i++) {
		if ((p[i] & 0xc0) == 0x80)
			continue;
		if (!x->left)
			break;
		x->left--;
	}
	sink_write(&x->out, p, i);
	return i < n;                   /* the first byte of one character too many ends it */
}

static int on_str_end(void *ctx)
{
	struct prefix *x = ctx;

	return x->reading && !x->left;
}

static int on_prim(void *ctx, enum json_prim kind, const struct json_token *number)
{
	(void)ctx;
	(void)kind;
	(void)number;
	return 0;
}

static const struct json_ops ops = {
	.begin = on_begin,
	.end = on_end,
	.key = on_key,
	.str_begin = on_str_begin,
	.str_chunk = on_str_chunk,
	.str_end = on_str_end,
	.prim = on_prim,
};

static uint64_t finish(struct sink *out, uint64_t meta, const void *hint, size_t hint_len)
{
	uint64_t h = hash_chain(sink_digest(out), meta, KIND_RAW);

	return hint ? hash_chain(h, hash_bytes(hint, hint_len), hint_len) : h;
}

static uint64_t raw_hash(const struct iovec *iov, int niov, uint32_t want, const void *hint, size_t hint_len)
{
	struct sink out;
	int i;

	sink_begin(&out, NULL, KIND_RAW, PROMPT_BLOCK_BYTES);
	for (i = 0; i < niov && want; i++) {
		uint32_t n = iov[i].iov_len < want ? (uint32_t)iov[i].iov_len : want;

		sink_write(&out, iov[i].iov_base, n);
		want -= n;
	}
	return finish(&out, 0, hint, hint_len);
}

uint64_t prompt_prefix_hash(const struct iovec *iov, int niov, enum prompt_family family, uint32_t prefix_length,
			    const void *hint, size_t hint_len)
{
	struct prefix x = { .left = prefix_length };
	struct json_scan js;
	int i, rc = 0;

	if (prompt_family_flags(family) & PROMPT_FAM_INVOKE)
		return raw_hash(iov, niov, prefix_length, hint, hint_len);
	sink_begin(&x.out, NULL, KIND_TEXT, PROMPT_BLOCK_BYTES);
	json_begin(&js, &ops, &x);
	for (i = 0; i < niov && !rc; i++)
		rc = json_feed(&js, iov[i].iov_base, iov[i].iov_len);
	if (rc < 0 || !x.texts)
		return raw_hash(iov, niov, prefix_length, hint, hint_len);
	return finish(&x.out, 1, hint, hint_len);
}
