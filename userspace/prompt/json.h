/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A push scanner for JSON (RFC 8259): bytes in, split anywhere; events out, in
 * document order. No tree and no allocation; nesting is bounded. Accepts what
 * Python's json.loads(bytes) accepts, since most engines parse with it: also a
 * byte order mark in front, NaN, Infinity, -Infinity and lone surrogates (which
 * become U+FFFD). UTF-8 is passed through; only bytes that no UTF-8 text can
 * hold (F8..FF) are refused, which frees them for use as marks. */
#ifndef KVSTEER_PROMPT_JSON_H
#define KVSTEER_PROMPT_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_DEPTH 128
#define JSON_TOKEN_MAX 64

/* A key or a number. Longer ones than the buffer are known by length and hash only. */
struct json_token {
	uint8_t buf[JSON_TOKEN_MAX];
	uint32_t fill;
	uint64_t len;                   /* decoded bytes in all; buf holds them all where len <= JSON_TOKEN_MAX */
	uint64_t acc;
};

/* 64-bit hash of the whole token. */
uint64_t json_token_hash(const struct json_token *t);

enum json_prim { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER };

/* Each returns 0 to go on; another value ends the scan and is what json_feed returns. Chunks of a string are
 * decoded and never empty, and may be split anywhere, inside a character too. */
struct json_ops {
	int (*begin)(void *ctx, bool array);
	int (*end)(void *ctx, bool array);
	int (*key)(void *ctx, const struct json_token *key);
	int (*str_begin)(void *ctx);
	int (*str_chunk)(void *ctx, const uint8_t *p, size_t n);
	int (*str_end)(void *ctx);
	int (*prim)(void *ctx, enum json_prim kind, const struct json_token *number);
};

typedef size_t json_find_fn(const uint8_t *p, size_t n);

#define JSON_TEXT_RUN 4096      /* bytes of text decoded in one go */
#define JSON_TEXT_SLACK 32      /* written beyond it at most */
/* Decodes from p[0..n), the inside of a string, into out[JSON_TEXT_RUN + JSON_TEXT_SLACK]: plain content and
 * complete escapes that stand for themselves. Returns how many bytes of p that took; stops at anything else
 * (quote, surrogate, escape that is cut or wrong, control character) and when out is full. */
typedef size_t json_text_fn(const uint8_t *p, size_t n, uint8_t *out, size_t *out_len);

struct json_scan {
	const struct json_ops *ops;
	void *ctx;
	json_find_fn *find;
	json_text_fn *text;
	uint64_t off;                   /* body offset of the next byte to be fed */
	uint64_t tok_off;               /* offset of the current or last string's opening quote */
	uint64_t end_off;               /* in str_end: offset behind its closing quote */
	int rc;                         /* sticky: 0 or why the scan ended */
	uint8_t state;
	uint8_t num_state;
	uint8_t lit, lit_pos;
	uint8_t hex_n;
	bool in_key;
	uint8_t depth;
	uint16_t unit;                  /* \u escape under construction */
	uint16_t high;                  /* high surrogate waiting for its low one; 0 if none */
	uint64_t stack[JSON_MAX_DEPTH / 64];    /* bit set: array */
	struct json_token tok;
};

void json_begin(struct json_scan *s, const struct json_ops *ops, void *ctx);
/* Returns 0; -EINVAL once the text isn't JSON, -E2BIG if nested too deep; or what an op returned. Sticky. */
int json_feed(struct json_scan *s, const void *data, size_t n);
/* True where exactly one value, and nothing but white space behind it, has been fed. */
bool json_complete(const struct json_scan *s);
/* True inside a string that is a value: str_begin was called, str_end wasn't. */
bool json_in_string(const struct json_scan *s);

/* Index of the first byte of p[0..n) that ends a run of plain string content: '"', '\\', a control
 * character, or F8..FF; n if there is none. */
json_find_fn json_find_plain;           /* any machine */
json_find_fn *json_find_best(void);     /* the fastest that this CPU has */
/* All that this CPU can run, NULL after the last: for tests. */
json_find_fn *json_find_nth(unsigned int i);
json_text_fn *json_text_best(void);
json_text_fn *json_text_nth(unsigned int i);

/* A byte that ends a run of plain string content. */
static inline bool json_special(uint8_t c)
{
	return c < 0x20 || c == '"' || c == '\\' || c >= 0xf8;
}
#endif
