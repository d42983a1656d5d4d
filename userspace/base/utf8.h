/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef KVSTEER_BASE_UTF8_H
#define KVSTEER_BASE_UTF8_H
#include <stddef.h>
#include <stdint.h>

/* Length (1..4) of the valid sequence that s[0..n) begins with, its code point in *cp (if
 * not NULL); 0 if it begins with none, or n is 0. */
size_t utf8_sequence(const char *s, size_t n, uint32_t *cp);
#endif
