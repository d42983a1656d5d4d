/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the tests of the prompt room share: keys of bodies, and a random source
 * that gives the same numbers everywhere. */
#ifndef KVSTEER_TEST_PROMPT_HELP_H
#define KVSTEER_TEST_PROMPT_HELP_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prompt/prompt.h"

static inline uint32_t rnd(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33);
}

struct made {
	struct prompt_info info;
	struct prompt_key key;
};

/* Key and fields of a body, fed in pieces of `piece` bytes (0: at once). */
static inline struct made make_limited(enum prompt_family family, const char *body, size_t n, size_t piece,
				       const struct prompt_limits *lim, bool truncated)
{
	struct prompt_key_params params = { .model = "m" };
	struct prompt_scan *s = prompt_scan_new();
	struct iovec iov = { (void *)(uintptr_t)body, n };
	struct made m;
	size_t off;

	assert_non_null(s);
	prompt_scan_begin(s, family, lim);
	if (!piece)
		piece = n ? n : 1;
	for (off = 0; off < n; off += piece) {
		size_t k = n - off < piece ? n - off : piece;
		char *copy = malloc(k);         /* of exact size, for the address sanitizer */

		assert_non_null(copy);
		memcpy(copy, body + off, k);
		prompt_scan_feed(s, copy, k);
		free(copy);
	}
	prompt_scan_end(s, truncated);
	m.info = *prompt_scan_info(s);
	assert_int_equal(prompt_key_build(s, &params, &iov, 1, &m.key), 0);
	assert_true(m.key.nblocks >= 1);
	prompt_scan_free(s);
	return m;
}

static inline struct made make(enum prompt_family family, const char *body)
{
	return make_limited(family, body, strlen(body), 0, NULL, false);
}

static inline bool same_key(const struct prompt_key *a, const struct prompt_key *b)
{
	return a->nblocks == b->nblocks && a->raw == b->raw && a->class_id == b->class_id &&
	       a->total_bytes == b->total_bytes && !memcmp(a->hash, b->hash, a->nblocks * sizeof(*a->hash)) &&
	       !memcmp(a->bytes, b->bytes, a->nblocks * sizeof(*a->bytes)) && !memcmp(a->flags, b->flags, a->nblocks);
}

static inline uint32_t shared_blocks(const struct prompt_key *a, const struct prompt_key *b)
{
	uint32_t n = a->nblocks < b->nblocks ? a->nblocks : b->nblocks, i = 0;

	while (i < n && a->hash[i] == b->hash[i])
		i++;
	return i;
}

/* "..." of n letters, for long texts in bodies. */
static inline char *letters(size_t n, unsigned int seed)
{
	uint64_t st = seed;
	char *s = malloc(n + 1);
	size_t i;

	assert_non_null(s);
	for (i = 0; i < n; i++)
		s[i] = (char)('a' + rnd(&st) % 26);
	s[n] = '\0';
	return s;
}
#endif
