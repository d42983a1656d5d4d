/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/answer.h"

#include <stdlib.h>
#include <string.h>

void load_answer_reset(struct load_answer *a, bool keep_text)
{
	a->prompt_tokens = a->output_tokens = a->cached_tokens = -1;
	a->error = a->text_cut = false;
	a->keep_text = keep_text;
	a->text_len = 0;
}

void load_answer_free(struct load_answer *a)
{
	free(a->text);
	memset(a, 0, sizeof(*a));
}

/* The first byte of the value of `key` (quoted, without colon) at or after `p`, or NULL. */
static const char *find_value(const char *p, const char *end, const char *key, size_t key_len)
{
	while (p < end) {
		const char *at = memmem(p, (size_t)(end - p), key, key_len);

		if (!at)
			return NULL;
		p = at + key_len;
		while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
			p++;
		if (p == end || *p != ':')
			continue;
		p++;
		while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
			p++;
		return p < end ? p : NULL;
	}
	return NULL;
}

#define FIND(p, end, key) find_value((p), (end), "\"" key "\"", sizeof(key) + 1)

static void read_number(const char *p, const char *end, int64_t *out)
{
	int64_t v = 0;

	if (!p || *p < '0' || *p > '9')
		return;
	for (int i = 0; i < 15 && p < end && *p >= '0' && *p <= '9'; i++)
		v = v * 10 + (*p++ - '0');
	*out = v;
}

static void keep(struct load_answer *a, const char *p, size_t n)
{
	if (!a->keep_text || a->text_cut)
		return;
	if (a->text_len + n > a->text_cap) {
		size_t cap = a->text_cap ? a->text_cap * 2 : 2048;
		char *text;

		while (cap < a->text_len + n)
			cap *= 2;
		text = cap <= LOAD_ANSWER_TEXT_MAX ? realloc(a->text, cap) : NULL;
		if (!text) {
			a->text_cut = true;
			return;
		}
		a->text = text;
		a->text_cap = cap;
	}
	memcpy(a->text + a->text_len, p, n);
	a->text_len += n;
}

/* The string value of `key`, the first that is a string; returns whether it isn't empty. */
static bool take_text(struct load_answer *a, const char *p, const char *end, const char *key, size_t key_len)
{
	while ((p = find_value(p, end, key, key_len))) {
		const char *start;

		if (*p != '"')
			continue;
		start = ++p;
		while (p < end && *p != '"')
			p += *p == '\\' ? 2 : 1;
		if (p >= end || p == start)
			return false;
		keep(a, start, (size_t)(p - start));
		return true;
	}
	return false;
}

bool load_answer_scan(struct load_answer *a, const char *json, size_t len)
{
	const char *end = json + len, *p;
	bool token;

	token = take_text(a, json, end, "\"content\"", 9) || take_text(a, json, end, "\"text\"", 6);
	p = FIND(json, end, "usage");
	if (p && *p == '{') {
		/* Absent in some chunks, null in others: what is known stays. */
		read_number(FIND(p, end, "prompt_tokens"), end, &a->prompt_tokens);
		read_number(FIND(p, end, "completion_tokens"), end, &a->output_tokens);
		read_number(FIND(p, end, "cached_tokens"), end, &a->cached_tokens);
	}
	if (!token) {
		p = FIND(json, end, "error");
		if (p && *p == '{')
			a->error = true;
	}
	return token;
}
