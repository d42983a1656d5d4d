/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "http/json_peek.h"

#include <string.h>

static const char *skip_ws(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* p is at the opening quote. Returns behind the closing one, or NULL if cut. */
static const char *skip_string(const char *p, const char *end)
{
	for (p++; p < end; p++) {
		if (*p == '"')
			return p + 1;
		if (*p == '\\' && ++p == end)
			break;
	}
	return NULL;
}

/* Behind the value at p, or NULL if cut. Brackets are counted, not matched: the
 * engine's own JSON is trusted to be JSON, and wrong counts only end early. */
static const char *skip_value(const char *p, const char *end)
{
	unsigned int depth = 0;

	while (p < end) {
		switch (*p) {
		case '"':
			p = skip_string(p, end);
			if (!p)
				return NULL;
			if (!depth)
				return p;
			continue;
		case '{':
		case '[':
			depth++;
			break;
		case '}':
		case ']':
			if (!depth)
				return p; /* ends a number or literal */
			if (!--depth)
				return p + 1;
			break;
		case ',':
		case ' ':
		case '\t':
		case '\r':
		case '\n':
			if (!depth)
				return p;
			break;
		default:
			break;
		}
		p++;
	}
	return NULL;
}

bool json_peek_object(struct json_peek *j, const char *s, const char *end)
{
	s = skip_ws(s, end);
	if (s >= end || *s != '{')
		return false;
	j->p = s + 1;
	j->end = end;
	return true;
}

bool json_peek_next(struct json_peek *j, struct json_member *m)
{
	const char *p = skip_ws(j->p, j->end), *end = j->end, *q;

	if (p < end && *p == ',')
		p = skip_ws(p + 1, end);
	if (p >= end || *p != '"')
		goto stop;
	q = skip_string(p, end);
	if (!q)
		goto stop;
	m->key = p + 1;
	m->key_len = (size_t)(q - p - 2);
	p = skip_ws(q, end);
	if (p >= end || *p != ':')
		goto stop;
	p = skip_ws(p + 1, end);
	if (p >= end)
		goto stop;
	q = skip_value(p, end);
	m->complete = q != NULL;
	m->value = p;
	m->value_len = (size_t)((q ? q : end) - p);
	j->p = q ? q : end;
	return m->value_len > 0;
stop:
	j->p = p < end ? p : end;
	return false;
}

bool json_key_is(const struct json_member *m, const char *key)
{
	return strlen(key) == m->key_len && !memcmp(m->key, key, m->key_len);
}

bool json_string_is(const struct json_member *m, const char *s)
{
	size_t n = strlen(s);

	return m->complete && m->value_len == n + 2 && m->value[0] == '"' && !memcmp(m->value + 1, s, n);
}

bool json_u64(const struct json_member *m, uint64_t *out)
{
	const char *p = m->value;
	size_t n = m->value_len;
	uint64_t v = 0;

	if (!m->complete)
		return false;
	if (n >= 2 && p[0] == '"') {
		p++;
		n -= 2;
	}
	if (!n || n > 18)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	*out = v;
	return true;
}
