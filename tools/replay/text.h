/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A prompt as the two sides see it: the node as chained hashes of 16-token blocks, whatever the
 * messages, the router as a chain of blocks of at most 256 bytes that are cut at messages, 4
 * bytes a token. Messages stand for their tokens by a number: equal numbers are equal texts. */
#ifndef KVSTEER_REPLAY_TEXT_H
#define KVSTEER_REPLAY_TEXT_H
#include <stdint.h>

#define REPLAY_TOKEN_BYTES 4u
#define REPLAY_CHAIN_TOKENS 64u /* of a full block of the router's chain */

struct replay_text {
	uint32_t tokens;
	/* Node: full blocks, and the state of the one that is not full. */
	uint64_t *block;
	uint32_t blocks, blocks_room;
	uint64_t open;
	/* Router. */
	uint64_t *hash;
	uint16_t *bytes;
	uint8_t *flags;
	uint32_t links, links_room;
};

/* Adds a message. Ends the program when memory is out, as everything of this tool does. */
void replay_text_say(struct replay_text *t, uint64_t message, uint32_t tokens, uint8_t flags);
/* Adds tokens that go on with the message before: no border for the router. */
void replay_text_go_on(struct replay_text *t, uint64_t message, uint32_t tokens);
void replay_text_copy(struct replay_text *to, const struct replay_text *from);
void replay_text_free(struct replay_text *t);
#endif
