/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Prompt text: four ASCII bytes a token (three letters and a space), the same
 * bytes for the same key. None of them needs a JSON escape, so text goes into
 * a body as it is. Texts of different keys differ from their first token on,
 * so that no two prefixes share a block by accident. */
#ifndef KVSTEER_LOAD_TEXT_H
#define KVSTEER_LOAD_TEXT_H
#include <stddef.h>
#include <stdint.h>

#define LOAD_TOKEN_BYTES 4u

/* Fills exactly `len` bytes; a shorter text of a key is a prefix of a longer one. */
void load_text_fill(char *dst, size_t len, uint64_t key);
#endif
