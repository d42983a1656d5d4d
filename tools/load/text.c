/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/text.h"

#include <string.h>

#include "load/rng.h"

/* 15 bits a token, 4 tokens a draw. */
static void fill16(char *dst, uint64_t bits)
{
	static const char letters[32] = "abcdefghijklmnopqrstuvwxyz012345";

	for (int t = 0; t < 4; t++) {
		dst[0] = letters[bits & 31];
		dst[1] = letters[(bits >> 5) & 31];
		dst[2] = letters[(bits >> 10) & 31];
		dst[3] = ' ';
		bits >>= 16;
		dst += LOAD_TOKEN_BYTES;
	}
}

void load_text_fill(char *dst, size_t len, uint64_t key)
{
	struct load_rng r;
	char tail[16];

	load_rng_seed(&r, key, 0x74657874);
	for (; len >= 16; dst += 16, len -= 16)
		fill16(dst, load_rng_next(&r));
	if (len) {
		fill16(tail, load_rng_next(&r));
		memcpy(dst, tail, len);
	}
}
