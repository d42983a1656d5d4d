/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A conversation: its turns follow each other, each with the answers really
 * received so far, and think time between. */
#ifndef KVSTEER_LOAD_CONV_H
#define KVSTEER_LOAD_CONV_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/body.h"
#include "load/rng.h"

#define LOAD_CONV_TURNS_MAX 100u
#define LOAD_CONV_BYTES_MAX (4u << 20)

struct load_conv {
	uint64_t id;
	uint32_t prefix;
	uint32_t model;
	uint32_t turns;  /* it will have */
	uint32_t turn;   /* asked so far */
	char *history;   /* owned: JSON text from behind the prefix on */
	size_t len;
	size_t cap;
};

/* A new conversation or NULL. */
struct load_conv *load_conv_new(uint64_t id, uint32_t prefix, uint32_t model, uint32_t turns);
void load_conv_free(struct load_conv *c);
/* Adds the user's next message. Returns 0, -ENOMEM or -E2BIG. */
int load_conv_ask(struct load_conv *c, const struct load_body *b, uint32_t tokens);
/* Adds the answer as it was received (JSON-escaped) and tells whether a turn is to follow. */
bool load_conv_answer(struct load_conv *c, const struct load_body *b, const char *text, size_t len);
#endif
