/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/utf8.h"

size_t utf8_sequence(const char *s, size_t n, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 }; /* below: an overlong form */
	const unsigned char *u = (const unsigned char *)s;
	uint32_t v;
	size_t len;

	if (!n)
		return 0;
	len = u[0] < 0x80 ? 1 : u[0] < 0xc0 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf8 ? 4 : 0;
	if (!len || len > n)
		return 0;
	v = len == 1 ? u[0] : u[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (u[i] & 0x3f);
	}
	if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
		return 0;
	if (cp)
		*cp = v;
	return len;
}
