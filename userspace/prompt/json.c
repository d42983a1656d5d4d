/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "prompt/json.h"

#include <errno.h>
#include <string.h>

#include "prompt/hash.h"

enum state {
	ST_BOM1, ST_BOM2, ST_BOM3,      /* EF BB BF in front, as json.loads accepts it */
	ST_VALUE,                       /* a value must follow */
	ST_FIRST_ITEM,                  /* behind '[': a value or ']' */
	ST_FIRST_KEY,                   /* behind '{': a key or '}' */
	ST_KEY,                         /* behind ',' in an object */
	ST_COLON,
	ST_AFTER,                       /* behind a value inside a container */
	ST_STRING, ST_ESCAPE, ST_HEX,
	ST_NUMBER, ST_LITERAL,
	ST_DONE,                        /* the outermost value has ended */
};

enum num { NUM_MINUS, NUM_ZERO, NUM_INT, NUM_DOT, NUM_FRAC, NUM_E, NUM_ESIGN, NUM_EXP };

static const char *const literals[] = { "null", "false", "true", "NaN", "Infinity", "-Infinity" };
enum { LIT_NULL, LIT_FALSE, LIT_TRUE, LIT_NAN, LIT_INF, LIT_NINF };

static void token_reset(struct json_token *t)
{
	t->fill = 0;
	t->len = 0;
	t->acc = 0;
}

static void token_add(struct json_token *t, const uint8_t *p, size_t n)
{
	t->len += n;
	if (n <= 8 && t->fill <= JSON_TOKEN_MAX - 8) {
		while (n--)
			t->buf[t->fill++] = *p++;
		return;
	}
	while (n) {
		size_t k = JSON_TOKEN_MAX - t->fill;

		if (!k) {       /* full and more comes: fold, so that splits don't matter */
			t->acc = hash_chain(t->acc, hash_bytes(t->buf, JSON_TOKEN_MAX), 1);
			t->fill = 0;
			k = JSON_TOKEN_MAX;
		}
		if (k > n)
			k = n;
		memcpy(t->buf + t->fill, p, k);
		t->fill += (uint32_t)k;
		p += k;
		n -= k;
	}
}

uint64_t json_token_hash(const struct json_token *t)
{
	return hash_chain(t->acc, hash_bytes(t->buf, t->fill), t->len);
}

void json_begin(struct json_scan *s, const struct json_ops *ops, void *ctx)
{
	memset(s, 0, sizeof(*s));
	s->ops = ops;
	s->ctx = ctx;
	s->find = json_find_best();
	s->text = json_text_best();
	s->state = ST_BOM1;
}

static bool number_is_whole(uint8_t n)
{
	return n == NUM_ZERO || n == NUM_INT || n == NUM_FRAC || n == NUM_EXP;
}

bool json_complete(const struct json_scan *s)
{
	/* A number at top level ends with the text, and is not told to the ops: no prompt is one. */
	return !s->rc && (s->state == ST_DONE || (s->state == ST_NUMBER && !s->depth && number_is_whole(s->num_state)));
}

bool json_in_string(const struct json_scan *s)
{
	return !s->in_key && (s->state == ST_STRING || s->state == ST_ESCAPE || s->state == ST_HEX);
}

static inline bool in_array(const struct json_scan *s)
{
	return s->stack[(s->depth - 1) / 64] >> ((s->depth - 1) % 64) & 1;
}

static int push(struct json_scan *s, bool array)
{
	uint64_t bit;

	if (s->depth == JSON_MAX_DEPTH)
		return -E2BIG;
	bit = 1ull << (s->depth % 64);
	if (array)
		s->stack[s->depth / 64] |= bit;
	else
		s->stack[s->depth / 64] &= ~bit;
	s->depth++;
	s->state = array ? ST_FIRST_ITEM : ST_FIRST_KEY;
	return s->ops->begin(s->ctx, array);
}

static inline void after_value(struct json_scan *s)
{
	s->state = s->depth ? ST_AFTER : ST_DONE;
}

static int pop(struct json_scan *s, bool array)
{
	if (!s->depth || in_array(s) != array)
		return -EINVAL;
	s->depth--;
	after_value(s);
	return s->ops->end(s->ctx, array);
}

static int string_out(struct json_scan *s, const uint8_t *p, size_t n)
{
	if (s->in_key) {
		token_add(&s->tok, p, n);
		return 0;
	}
	return s->ops->str_chunk(s->ctx, p, n);
}

static int lone_surrogate(struct json_scan *s)
{
	static const uint8_t replacement[3] = { 0xef, 0xbf, 0xbd };

	s->high = 0;
	return string_out(s, replacement, 3);
}

static int code_point(struct json_scan *s, uint32_t c)
{
	uint8_t u[4];
	size_t n;

	if (c < 0x80) {
		u[0] = (uint8_t)c;
		n = 1;
	} else if (c < 0x800) {
		u[0] = (uint8_t)(0xc0 | c >> 6);
		u[1] = (uint8_t)(0x80 | (c & 0x3f));
		n = 2;
	} else if (c < 0x10000) {
		u[0] = (uint8_t)(0xe0 | c >> 12);
		u[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		u[2] = (uint8_t)(0x80 | (c & 0x3f));
		n = 3;
	} else {
		u[0] = (uint8_t)(0xf0 | c >> 18);
		u[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
		u[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		u[3] = (uint8_t)(0x80 | (c & 0x3f));
		n = 4;
	}
	return string_out(s, u, n);
}

/* A complete \uXXXX; RFC 8259 section 7 has pairs above U+FFFF, section 8.2 leaves lone ones open. */
static int utf16_unit(struct json_scan *s, uint16_t u)
{
	int rc = 0;

	if (u >= 0xdc00 && u <= 0xdfff && s->high) {
		uint32_t c = 0x10000u + ((uint32_t)(s->high - 0xd800) << 10) + (u - 0xdc00u);

		s->high = 0;
		return code_point(s, c);
	}
	if (s->high)
		rc = lone_surrogate(s);
	if (rc)
		return rc;
	if (u >= 0xd800 && u <= 0xdbff) {
		s->high = u;
		return 0;
	}
	if (u >= 0xdc00 && u <= 0xdfff)
		return lone_surrogate(s);
	return code_point(s, u);
}

static int escape(struct json_scan *s, uint8_t c)
{
	uint8_t out;
	int rc = 0;

	switch (c) {
	case 'n': out = '\n'; break;
	case 't': out = '\t'; break;
	case 'r': out = '\r'; break;
	case 'b': out = '\b'; break;
	case 'f': out = '\f'; break;
	case '"': case '\\': case '/': out = c; break;
	case 'u':
		s->state = ST_HEX;
		s->hex_n = 0;
		s->unit = 0;
		return 0;
	default:
		return -EINVAL;
	}
	s->state = ST_STRING;
	if (s->high)
		rc = lone_surrogate(s);
	return rc ? rc : string_out(s, &out, 1);
}

static int hex_digit(struct json_scan *s, uint8_t c)
{
	unsigned int v;

	if (c >= '0' && c <= '9')
		v = c - '0';
	else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
		v = (c | 0x20u) - 'a' + 10;
	else
		return -EINVAL;
	s->unit = (uint16_t)(s->unit << 4 | v);
	if (++s->hex_n < 4)
		return 0;
	s->state = ST_STRING;
	return utf16_unit(s, s->unit);
}

static int string_end(struct json_scan *s, uint64_t end_off)
{
	int rc = s->high ? lone_surrogate(s) : 0;

	if (rc)
		return rc;
	if (s->in_key) {
		s->in_key = false;
		s->state = ST_COLON;
		return s->ops->key(s->ctx, &s->tok);
	}
	s->end_off = end_off;
	after_value(s);
	return s->ops->str_end(s->ctx);
}

/* The number's next state, or -1 where `c` can't belong to it. */
static int num_next(uint8_t st, uint8_t c)
{
	bool digit = c >= '0' && c <= '9';

	switch (st) {
	case NUM_MINUS:
		return c == '0' ? NUM_ZERO : digit ? NUM_INT : -1;
	case NUM_INT:
		if (digit)
			return NUM_INT;
		/* fall through */
	case NUM_ZERO:
		return c == '.' ? NUM_DOT : (c | 0x20) == 'e' ? NUM_E : -1;
	case NUM_DOT:
		return digit ? NUM_FRAC : -1;
	case NUM_FRAC:
		return digit ? NUM_FRAC : (c | 0x20) == 'e' ? NUM_E : -1;
	case NUM_E:
		if (c == '+' || c == '-')
			return NUM_ESIGN;
		/* fall through */
	case NUM_ESIGN:
	case NUM_EXP:
		return digit ? NUM_EXP : -1;
	}
	return -1;
}

static int number_end(struct json_scan *s)
{
	if (!number_is_whole(s->num_state))
		return -EINVAL;
	after_value(s);
	return s->ops->prim(s->ctx, JSON_NUMBER, &s->tok);
}

static int literal_end(struct json_scan *s)
{
	after_value(s);
	switch (s->lit) {
	case LIT_NULL:
		return s->ops->prim(s->ctx, JSON_NULL, NULL);
	case LIT_FALSE:
		return s->ops->prim(s->ctx, JSON_FALSE, NULL);
	case LIT_TRUE:
		return s->ops->prim(s->ctx, JSON_TRUE, NULL);
	default:
		token_reset(&s->tok);
		token_add(&s->tok, (const uint8_t *)literals[s->lit], strlen(literals[s->lit]));
		return s->ops->prim(s->ctx, JSON_NUMBER, &s->tok);
	}
}

static int literal_begin(struct json_scan *s, uint8_t lit, uint8_t pos)
{
	s->lit = lit;
	s->lit_pos = pos;
	s->state = ST_LITERAL;
	return 0;
}

static int string_begin(struct json_scan *s, uint64_t off, bool key)
{
	s->in_key = key;
	s->state = ST_STRING;
	if (key) {
		token_reset(&s->tok);
		return 0;
	}
	s->tok_off = off;
	return s->ops->str_begin(s->ctx);
}

static int value_begin(struct json_scan *s, uint8_t c, uint64_t off)
{
	switch (c) {
	case '"': return string_begin(s, off, false);
	case '{': return push(s, false);
	case '[': return push(s, true);
	case 'n': return literal_begin(s, LIT_NULL, 1);
	case 'f': return literal_begin(s, LIT_FALSE, 1);
	case 't': return literal_begin(s, LIT_TRUE, 1);
	case 'N': return literal_begin(s, LIT_NAN, 1);
	case 'I': return literal_begin(s, LIT_INF, 1);
	}
	if (c != '-' && (c < '0' || c > '9'))
		return -EINVAL;
	s->state = ST_NUMBER;
	s->num_state = c == '-' ? NUM_MINUS : c == '0' ? NUM_ZERO : NUM_INT;
	token_reset(&s->tok);
	token_add(&s->tok, &c, 1);
	return 0;
}

/* Everything but strings and numbers: one byte, white space already skipped. */
static int structure(struct json_scan *s, uint8_t c, uint64_t off)
{
	switch (s->state) {
	case ST_FIRST_ITEM:
		if (c == ']')
			return pop(s, true);
		/* fall through */
	case ST_VALUE:
		return value_begin(s, c, off);
	case ST_FIRST_KEY:
		if (c == '}')
			return pop(s, false);
		/* fall through */
	case ST_KEY:
		return c == '"' ? string_begin(s, off, true) : -EINVAL;
	case ST_COLON:
		if (c != ':')
			return -EINVAL;
		s->state = ST_VALUE;
		return 0;
	case ST_AFTER:
		if (c == ',') {
			s->state = in_array(s) ? ST_VALUE : ST_KEY;
			return 0;
		}
		return c == '}' ? pop(s, false) : c == ']' ? pop(s, true) : -EINVAL;
	}
	return -EINVAL;         /* ST_DONE: something behind the value */
}

static int byte_order_mark(struct json_scan *s, uint8_t c)
{
	static const uint8_t mark[3] = { 0xef, 0xbb, 0xbf };

	if (c != mark[s->state - ST_BOM1])
		return -EINVAL;
	s->state++;
	return 0;
}

/* A run of digits and the like. Returns where it ended; a byte that can't belong to it ends the number. */
static const uint8_t *number(struct json_scan *s, const uint8_t *p, const uint8_t *end, int *rc)
{
	const uint8_t *start = p;

	while (p < end) {
		int next;

		if (s->num_state == NUM_INT && (uint8_t)(*p - '0') <= 9) {      /* most of all numbers: token ids */
			p++;
			continue;
		}
		next = num_next(s->num_state, *p);
		if (next < 0)
			break;
		s->num_state = (uint8_t)next;
		p++;
	}
	token_add(&s->tok, start, (size_t)(p - start));
	if (p == end)
		return p;
	if (*p == 'I' && s->num_state == NUM_MINUS) {
		*rc = literal_begin(s, LIT_NINF, 2);
		return p + 1;
	}
	*rc = number_end(s);
	return p;
}

#define RUN_IN_PLACE 256 /* plain bytes that are worth handing on without a copy */

static const uint8_t *string(struct json_scan *s, const uint8_t *p, const uint8_t *end, const uint8_t *base, int *rc)
{
	size_t k = s->find(p, (size_t)(end - p));

	if (k < RUN_IN_PLACE && p + k < end && p[k] == '\\' && !s->in_key && !s->high) {
		uint8_t out[JSON_TEXT_RUN + JSON_TEXT_SLACK];
		size_t len, used = s->text(p, (size_t)(end - p), out, &len);

		if (len)
			*rc = s->ops->str_chunk(s->ctx, out, len);
		if (used)
			return p + used;
	}
	if (k) {
		if (s->high && (*rc = lone_surrogate(s)))
			return p;
		*rc = string_out(s, p, k);
		p += k;
		if (*rc || p == end)
			return p;
	}
	switch (*p++) {
	case '"':
		*rc = string_end(s, s->off + (uint64_t)(p - base));
		break;
	case '\\':
		s->state = ST_ESCAPE;
		break;
	default:
		*rc = -EINVAL;
	}
	return p;
}

int json_feed(struct json_scan *s, const void *data, size_t n)
{
	const uint8_t *base = data, *p = base, *end = base + n;
	int rc = s->rc;

	while (!rc && p < end) {
		uint8_t c = *p;

		switch (s->state) {
		case ST_STRING:
			p = string(s, p, end, base, &rc);
			continue;
		case ST_NUMBER:
			p = number(s, p, end, &rc);
			continue;
		case ST_ESCAPE:
			rc = escape(s, c);
			break;
		case ST_HEX:
			rc = hex_digit(s, c);
			break;
		case ST_LITERAL:
			if (c != (uint8_t)literals[s->lit][s->lit_pos++])
				rc = -EINVAL;
			else if (!literals[s->lit][s->lit_pos])
				rc = literal_end(s);
			break;
		case ST_BOM1:
			if (c != 0xef) {
				s->state = ST_VALUE;
				continue;
			}
			/* fall through */
		case ST_BOM2:
		case ST_BOM3:
			rc = byte_order_mark(s, c);
			break;
		default:
			if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
				rc = structure(s, c, s->off + (uint64_t)(p - base));
		}
		p++;
	}
	s->off += (uint64_t)(p - base);
	s->rc = rc;
	return rc;
}
