/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A prefix index in memory of its own, and chains for it. */
#ifndef KVSTEER_TESTS_ROUTE_INDEX_HELP_H
#define KVSTEER_TESTS_ROUTE_INDEX_HELP_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "route/index.h"

#define MAX_CHAIN 64

static inline uint64_t rng(void)
{
	static uint64_t rng_state = 88172645463325252ull;

	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;

	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 32;
}

struct region {
	struct prefix_index ix;
	void *mem;
	size_t bytes;
};

static inline void region_open(struct region *r, uint32_t nodes, uint32_t pairs, uint64_t capacity)
{
	uint32_t i;

	r->bytes = index_bytes(nodes, pairs);
	r->mem = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(r->mem, MAP_FAILED);
	assert_int_equal(index_init(&r->ix, r->mem, r->bytes, nodes, pairs, 42), 0);
	for (i = 0; i < nodes; i++)
		index_set_capacity(&r->ix, i, capacity);
}

static inline void region_close(struct region *r)
{
	munmap(r->mem, r->bytes);
}

static inline void fill_chain(uint64_t seed, uint32_t n, uint64_t *hash, uint16_t *bytes)
{
	uint32_t i;
	uint64_t h = seed;

	for (i = 0; i < n; i++) {
		h = mix(h, i);
		hash[i] = h;
		bytes[i] = 256;
	}
}
#endif
