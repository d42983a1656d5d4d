/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Text with escapes, many bytes at a time: line breaks and quotes come every
 * few dozen bytes in prompts, so that handing on each run between two of them
 * would cost more than looking at the bytes. Plain bytes are copied while they
 * are examined, escapes are decoded into the same buffer. */
#include <string.h>

#include "prompt/json.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* What stands for itself or one byte behind a backslash; 0: nothing of the kind. */
static const uint8_t simple[256] = {
	['n'] = '\n', ['t'] = '\t', ['r'] = '\r', ['b'] = '\b', ['f'] = '\f', ['"'] = '"', ['\\'] = '\\', ['/'] = '/',
};

static inline int hex_value(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* \uXXXX at p, all six bytes there: its code point, or -1 where it is none or half of a pair. */
static inline int32_t unit_at(const uint8_t *p)
{
	int a = hex_value(p[2]), b = hex_value(p[3]), c = hex_value(p[4]), d = hex_value(p[5]);
	int32_t u;

	if ((a | b | c | d) < 0)
		return -1;
	u = a << 12 | b << 8 | c << 4 | d;
	return u >= 0xd800 && u <= 0xdfff ? -1 : u;
}

static inline size_t put_unit(uint8_t *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (uint8_t)(0xc0 | c >> 6);
		out[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	out[0] = (uint8_t)(0xe0 | c >> 12);
	out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	out[2] = (uint8_t)(0x80 | (c & 0x3f));
	return 3;
}

/* One escape of p[0..n), p[0] a backslash. Returns its length, 0 if it is not one for this file. */
__attribute__((always_inline)) static inline size_t unescape(const uint8_t *p, size_t n, uint8_t *out, size_t *len)
{
	int32_t u;

	if (n < 2)
		return 0;
	if (simple[p[1]]) {
		out[0] = simple[p[1]];
		*len = 1;
		return 2;
	}
	if (p[1] != 'u' || n < 6 || (u = unit_at(p)) < 0)
		return 0;
	*len = put_unit(out, (uint32_t)u);
	return 6;
}

static inline size_t copy_tail(uint8_t *out, const uint8_t *p, size_t n, size_t room)
{
	size_t i = 0;

	while (i < n && i < room && !json_special(p[i])) {
		out[i] = p[i];
		i++;
	}
	return i;
}

/* copy(): plain bytes of p[0..n) into out, up to the first other one, and no more than
 * room + JSON_TEXT_SLACK of them. */
#define TEXT_RUN(name, copy)                                                                                     \
	size_t name(const uint8_t *p, size_t n, uint8_t *out, size_t *out_len)                                   \
	{                                                                                                        \
		size_t i = 0, o = 0, k, len = 0;                                                                 \
                                                                                                                 \
		while (i < n && o < JSON_TEXT_RUN) {                                                             \
			k = copy(out + o, p + i, n - i, JSON_TEXT_RUN - o);                                      \
			i += k;                                                                                  \
			o += k;                                                                                  \
			if (i == n || o >= JSON_TEXT_RUN || p[i] != '\\')                                        \
				break;                                                                           \
			k = unescape(p + i, n - i, out + o, &len);                                               \
			if (!k)                                                                                  \
				break;                                                                           \
			i += k;                                                                                  \
			o += len;                                                                                \
		}                                                                                                \
		*out_len = o;                                                                                    \
		return i;                                                                                        \
	}

static TEXT_RUN(text_plain, copy_tail)

#if defined(__x86_64__)
static inline size_t copy_sse2(uint8_t *out, const uint8_t *p, size_t n, size_t room)
{
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
	const __m128i ctl = _mm_set1_epi8(0x1f), top = _mm_set1_epi8((char)0xf8);
	size_t i = 0;

	for (; i < room && i + 16 <= n; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(p + i));
		__m128i m = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)),
					 _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(v, ctl), v),
						      _mm_cmpeq_epi8(_mm_max_epu8(v, top), v)));
		int bits = _mm_movemask_epi8(m);

		_mm_storeu_si128((__m128i *)(out + i), v);
		if (bits)
			return i + (size_t)__builtin_ctz((unsigned int)bits);
	}
	return i >= room ? i : i + copy_tail(out + i, p + i, n - i, room - i);
}

__attribute__((target("avx2"))) static inline size_t copy_avx2(uint8_t *out, const uint8_t *p, size_t n, size_t room)
{
	const __m256i quote = _mm256_set1_epi8('"'), slash = _mm256_set1_epi8('\\');
	const __m256i ctl = _mm256_set1_epi8(0x1f), top = _mm256_set1_epi8((char)0xf8);
	size_t i = 0;

	for (; i < room && i + 32 <= n; i += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(p + i));
		__m256i m = _mm256_or_si256(
			_mm256_or_si256(_mm256_cmpeq_epi8(v, quote), _mm256_cmpeq_epi8(v, slash)),
			_mm256_or_si256(_mm256_cmpeq_epi8(_mm256_min_epu8(v, ctl), v),
					_mm256_cmpeq_epi8(_mm256_max_epu8(v, top), v)));
		int bits = _mm256_movemask_epi8(m);

		_mm256_storeu_si256((__m256i *)(out + i), v);
		if (bits)
			return i + (size_t)__builtin_ctz((unsigned int)bits);
	}
	return i >= room ? i : i + copy_tail(out + i, p + i, n - i, room - i);
}

static TEXT_RUN(text_sse2, copy_sse2)
__attribute__((target("avx2"))) static TEXT_RUN(text_avx2, copy_avx2)
#endif

json_text_fn *json_text_nth(unsigned int i)
{
	if (i == 0)
		return text_plain;
#if defined(__x86_64__)
	if (i == 1)
		return text_sse2;
	if (i == 2 && __builtin_cpu_supports("avx2"))
		return text_avx2;
#endif
	return NULL;
}

json_text_fn *json_text_best(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2") ? text_avx2 : text_sse2;
#else
	return text_plain;
#endif
}
