/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/text.h"

#include <stdlib.h>
#include <string.h>

#include "load/rng.h"
#include "node/node.h"
#include "replay/must.h"
#include "route/pool.h"

static void say_to_node(struct replay_text *t, uint64_t message, uint32_t tokens)
{
	uint32_t at = 0, n, in_block;

	while (at < tokens) {
		in_block = (t->tokens + at) % NODE_BLOCK_TOKENS;
		n = NODE_BLOCK_TOKENS - in_block;
		if (n > tokens - at)
			n = tokens - at;
		/* A block's content is the list of its pieces: whose tokens, from where, how many. */
		t->open = load_mix(t->open ^ message, (uint64_t)at << 8 | n);
		at += n;
		if (in_block + n < NODE_BLOCK_TOKENS)
			break;
		if (t->blocks == t->blocks_room)
			t->block = must_grow(t->block, &t->blocks_room, sizeof(*t->block));
		t->block[t->blocks++] = t->open; /* which the next block goes on from: chained */
	}
}

static void add_link(struct replay_text *t, uint64_t content, uint32_t bytes, uint8_t flags)
{
	if (t->links == t->links_room) {
		t->hash = must_grow(t->hash, &t->links_room, sizeof(*t->hash));
		t->bytes = must_realloc(t->bytes, t->links_room * sizeof(*t->bytes));
		t->flags = must_realloc(t->flags, t->links_room * sizeof(*t->flags));
	}
	t->hash[t->links] = load_mix(t->links ? t->hash[t->links - 1] : 7, content);
	t->bytes[t->links] = (uint16_t)bytes;
	t->flags[t->links++] = flags;
}

static void say_to_router(struct replay_text *t, uint64_t message, uint32_t tokens, uint8_t flags)
{
	for (uint32_t at = 0; at < tokens; at += REPLAY_CHAIN_TOKENS) {
		uint32_t n = tokens - at < REPLAY_CHAIN_TOKENS ? tokens - at : REPLAY_CHAIN_TOKENS;

		add_link(t, load_mix(message, (uint64_t)at << 16 | n), n * REPLAY_TOKEN_BYTES,
			 at ? flags & (uint8_t)~ROUTE_BLOCK_MESSAGE_START : flags);
	}
}

void replay_text_say(struct replay_text *t, uint64_t message, uint32_t tokens, uint8_t flags)
{
	say_to_node(t, message, tokens);
	say_to_router(t, message, tokens, flags | ROUTE_BLOCK_MESSAGE_START);
	t->tokens += tokens;
}

void replay_text_go_on(struct replay_text *t, uint64_t message, uint32_t tokens)
{
	say_to_node(t, message, tokens);
	say_to_router(t, message, tokens, t->links ? 0 : ROUTE_BLOCK_MESSAGE_START);
	t->tokens += tokens;
}

void replay_text_copy(struct replay_text *to, const struct replay_text *from)
{
	*to = *from;
	to->block = must_copy(from->block, from->blocks * sizeof(*from->block));
	to->hash = must_copy(from->hash, from->links * sizeof(*from->hash));
	to->bytes = must_copy(from->bytes, from->links * sizeof(*from->bytes));
	to->flags = must_copy(from->flags, from->links * sizeof(*from->flags));
	to->blocks_room = from->blocks;
	to->links_room = from->links;
}

void replay_text_free(struct replay_text *t)
{
	free(t->block);
	free(t->hash);
	free(t->bytes);
	free(t->flags);
	memset(t, 0, sizeof(*t));
}
