/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Volatile heads: what clients put in front of a prompt anew with each request (a date, a request's id), so
 * that no two prompts begin alike. Pieces that match a pattern are left out of the key; the body that is
 * forwarded keeps them. */
#ifndef KVSTEER_PROMPT_HEADS_H
#define KVSTEER_PROMPT_HEADS_H
#include <stddef.h>
#include <stdint.h>

#define HEADS_TEXT_MAX 1024 /* bytes of a text's start that are looked at */

/* Copies the start of a text, text[0..n), n <= HEADS_TEXT_MAX, to out without the pieces that match. A
 * pattern is tried at the beginning of each line; `*` stands for any bytes up to what follows it in the
 * pattern, at its end up to the end of the line. Returns the length of out. */
size_t heads_remove(const char *const *patterns, unsigned n_patterns, const uint8_t *text, size_t n, uint8_t *out);
#endif
