/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Finding the end of plain string content: the inner loop of the scanner. A
 * prompt is mostly long strings, so this decides the speed of the room. */
#include <string.h>

#include "prompt/json.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static size_t find_tail(const uint8_t *p, size_t i, size_t n)
{
	for (; i < n; i++) {
		if (json_special(p[i]))
			return i;
	}
	return n;
}

#define ONES  0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

/* High bit of each byte that is zero, in one word; exact at least for the lowest such byte. */
static inline uint64_t zero_bytes(uint64_t v)
{
	return (v - ONES) & ~v & HIGHS;
}

size_t json_find_plain(const uint8_t *p, size_t n)
{
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		uint64_t v, m;

		memcpy(&v, p + i, 8);
		/* F8..FF: the five top bits set, found by turning them into zero. */
		m = zero_bytes(v ^ (ONES * '"')) | zero_bytes(v ^ (ONES * '\\')) |
		    zero_bytes(v & (ONES * 0xe0)) | zero_bytes((v & (ONES * 0xf8)) ^ (ONES * 0xf8));
		if (m)
			return find_tail(p, i, i + 8);
	}
	return find_tail(p, i, n);
}

#if defined(__x86_64__)
static size_t find_sse2(const uint8_t *p, size_t n)
{
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
	const __m128i ctl = _mm_set1_epi8(0x1f), top = _mm_set1_epi8((char)0xf8);
	size_t i = 0;

	for (; i + 16 <= n; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(p + i));
		__m128i m = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)),
					 _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(v, ctl), v),
						      _mm_cmpeq_epi8(_mm_max_epu8(v, top), v)));
		int bits = _mm_movemask_epi8(m);

		if (bits)
			return i + (size_t)__builtin_ctz((unsigned int)bits);
	}
	return find_tail(p, i, n);
}

__attribute__((target("avx2"))) static size_t find_avx2(const uint8_t *p, size_t n)
{
	const __m256i quote = _mm256_set1_epi8('"'), slash = _mm256_set1_epi8('\\');
	const __m256i ctl = _mm256_set1_epi8(0x1f), top = _mm256_set1_epi8((char)0xf8);
	size_t i = 0;

	for (; i + 32 <= n; i += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(p + i));
		__m256i m = _mm256_or_si256(
			_mm256_or_si256(_mm256_cmpeq_epi8(v, quote), _mm256_cmpeq_epi8(v, slash)),
			_mm256_or_si256(_mm256_cmpeq_epi8(_mm256_min_epu8(v, ctl), v),
					_mm256_cmpeq_epi8(_mm256_max_epu8(v, top), v)));
		int bits = _mm256_movemask_epi8(m);

		if (bits)
			return i + (size_t)__builtin_ctz((unsigned int)bits);
	}
	return find_tail(p, i, n);
}
#endif

json_find_fn *json_find_nth(unsigned int i)
{
	if (i == 0)
		return json_find_plain;
#if defined(__x86_64__)
	if (i == 1)
		return find_sse2;
	if (i == 2 && __builtin_cpu_supports("avx2"))
		return find_avx2;
#endif
	return NULL;
}

json_find_fn *json_find_best(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2") ? find_avx2 : find_sse2;
#else
	return json_find_plain;
#endif
}
