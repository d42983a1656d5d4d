/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The two hash functions of this room: XXH3 over the bytes of a block, and a
 * chain step. XXH3 is inlined: most inputs are 24 or 256 bytes, where the call
 * and the dispatch on length would cost as much as the hash. */
#ifndef KVSTEER_PROMPT_HASH_H
#define KVSTEER_PROMPT_HASH_H
#include <stddef.h>
#include <stdint.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t hash_bytes(const void *p, size_t n)
{
	return XXH3_64bits(p, n);
}

/* One step of a chain: the hash so far, the next item, and what kind of item it is. Every chain of the room
 * uses it, so an item can never be taken for one of another kind or at another place. */
static inline uint64_t hash_chain(uint64_t prev, uint64_t item, uint64_t meta)
{
	uint64_t v[3] = { prev, item, meta };

	return XXH3_64bits(v, sizeof(v));
}
#endif
