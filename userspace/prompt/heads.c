/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "prompt/heads.h"

#include <stdbool.h>
#include <string.h>

#define PIECES_MAX 8 /* removed at one place, one after the other */

/* How many bytes of line[0..n) the pattern takes from its beginning; 0: it does not match. Each `*` takes as
 * little as it can: no backtracking, for nothing has to match behind the pattern's end. */
static size_t match(const char *pattern, const uint8_t *line, size_t n)
{
	bool any = false;
	size_t at = 0;

	for (;;) {
		size_t len = strcspn(pattern, "*");
		const uint8_t *p;

		if (!len)
			p = line + at;
		else if (any)
			p = memmem(line + at, n - at, pattern, len);
		else
			p = n - at >= len && !memcmp(line + at, pattern, len) ? line + at : NULL;
		if (!p)
			return 0;
		at = (size_t)(p - line) + len;
		pattern += len;
		if (!*pattern)
			return at;
		any = true;
		pattern++;
		if (!*pattern)
			return n;
	}
}

static size_t match_any(const char *const *patterns, unsigned n_patterns, const uint8_t *line, size_t n)
{
	size_t len = 0;

	for (unsigned i = 0; i < n_patterns && !len; i++)
		len = match(patterns[i], line, n);
	return len;
}

size_t heads_remove(const char *const *patterns, unsigned n_patterns, const uint8_t *text, size_t n, uint8_t *out)
{
	size_t at = 0, len = 0;

	while (at < n) {
		const uint8_t *nl = memchr(text + at, '\n', n - at);
		size_t end = nl ? (size_t)(nl - text) : n, took;

		for (unsigned i = 0; i < PIECES_MAX && (took = match_any(patterns, n_patterns, text + at, end - at)); i++)
			at += took;
		if (nl)
			end++;
		memcpy(out + len, text + at, end - at);
		len += end - at;
		at = end;
	}
	return len;
}
