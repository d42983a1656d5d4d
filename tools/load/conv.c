/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/conv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "load/text.h"

#define KEY_CONV 0x636f6e76ull

struct load_conv *load_conv_new(uint64_t id, uint32_t prefix, uint32_t model, uint32_t turns)
{
	struct load_conv *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->id = id;
	c->prefix = prefix;
	c->model = model;
	c->turns = turns;
	return c;
}

void load_conv_free(struct load_conv *c)
{
	if (c)
		free(c->history);
	free(c);
}

/* Room for `n` more bytes. */
static int reserve(struct load_conv *c, size_t n)
{
	size_t cap = c->cap ? c->cap : 1024;
	char *history;

	if (c->len + n > LOAD_CONV_BYTES_MAX)
		return -E2BIG;
	while (cap < c->len + n)
		cap *= 2;
	if (cap == c->cap)
		return 0;
	history = realloc(c->history, cap);
	if (!history)
		return -ENOMEM;
	c->history = history;
	c->cap = cap;
	return 0;
}

int load_conv_ask(struct load_conv *c, const struct load_body *b, uint32_t tokens)
{
	/* Without a prefix the first message opens the prompt itself. */
	const char *next = c->prefix == LOAD_NO_PREFIX && !c->turn ? "" : b->next_user;
	size_t next_len = strlen(next), text_len = (size_t)tokens * LOAD_TOKEN_BYTES;
	int rc = reserve(c, next_len + text_len);

	if (rc)
		return rc;
	memcpy(c->history + c->len, next, next_len);
	load_text_fill(c->history + c->len + next_len, text_len,
		       load_mix(load_mix(b->o->seed, KEY_CONV), c->id << 8 | c->turn));
	c->len += next_len + text_len;
	c->turn++;
	return 0;
}

bool load_conv_answer(struct load_conv *c, const struct load_body *b, const char *text, size_t len)
{
	size_t next_len = strlen(b->next_assistant);

	if (c->turn >= c->turns || reserve(c, next_len + len))
		return false;
	memcpy(c->history + c->len, b->next_assistant, next_len);
	if (len)
		memcpy(c->history + c->len + next_len, text, len);
	c->len += next_len + len;
	return true;
}
