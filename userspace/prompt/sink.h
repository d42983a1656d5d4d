/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Canonical bytes into blocks. A sink cuts a byte stream every 256 bytes and
 * keeps one hash per block, either in a list (what becomes part of the chain)
 * or folded into one digest (small things: a role, a media part). Where whole
 * blocks lie in the input they are hashed in place, without a copy. */
#ifndef KVSTEER_PROMPT_SINK_H
#define KVSTEER_PROMPT_SINK_H
#include <stdbool.h>
#include <string.h>

#include "prompt/hash.h"
#include "prompt/prompt.h"

/* What a block is made of; part of the chain, so equal bytes of different kinds differ. */
enum block_kind {
	KIND_DIGEST,            /* of a sink without a list */
	KIND_HEADER,            /* a message's role, name, ... */
	KIND_CONTENT, KIND_REASONING, KIND_TOOL_CALLS, KIND_ARGUMENTS, KIND_OUTPUT,
	KIND_TEMPLATE, KIND_TOOLS, KIND_FUNCTIONS, KIND_SYSTEM, KIND_SUFFIX,
	KIND_TEXT, KIND_TOKENS, KIND_VALUE,
	KIND_TRAILER,
	KIND_RAW,
	KIND_SPILL,             /* stands for bytes of the block before it that don't fit one block */
	KIND_FOLD,              /* several blocks under one hash */
	KIND_EMPTY,
};

/* Marks in canonical streams. F8..FF never occur in the text (json.h), so 0xff starts a mark. */
#define MARK          0xff
#define MARK_OBJECT   '{'
#define MARK_OBJECT_E '}'
#define MARK_ARRAY    '['
#define MARK_ARRAY_E  ']'
#define MARK_KEY      'k'       /* then the key's bytes */
#define MARK_KEY_HASH 'K'       /* then length and hash of a long key, 16 bytes */
#define MARK_STRING   's'       /* then the decoded bytes */
#define MARK_NUMBER   'n'       /* then its text */
#define MARK_NUM_HASH 'N'       /* as for keys */
#define MARK_TRUE     't'
#define MARK_FALSE    'f'
#define MARK_NULL     'z'
#define MARK_PART     'P'       /* between the parts of a message's content */
#define MARK_BAG      'B'       /* then the digest of a part that is more than text, 8 bytes */

struct block {
	uint64_t hash;
	uint32_t bytes;
	uint8_t kind;
	uint8_t flags;          /* PROMPT_BLOCK_* */
};

struct block_list {
	struct block *v;
	uint32_t n, cap;
	uint32_t max;           /* more are folded into the last one */
	bool nomem;             /* sticky: blocks are missing */
};

struct sink {
	struct block_list *list;        /* NULL: fold into acc */
	uint64_t acc;
	uint64_t total;                 /* canonical bytes written */
	uint32_t fill;
	uint32_t limit;                 /* bytes at which the current block is full */
	uint32_t emitted;
	uint64_t extra;                 /* weight that the next block has beside its bytes */
	uint8_t kind;
	uint8_t buf[PROMPT_BLOCK_BYTES];
};

/* Appends one block. `bytes` beyond PROMPT_BLOCK_BYTES follow as KIND_SPILL blocks. */
void block_list_add(struct block_list *l, uint64_t hash, uint64_t bytes, uint8_t kind, uint8_t flags);
/* Empties the list; keeps its memory unless it is large. */
void block_list_reset(struct block_list *l, uint32_t max);
void block_list_free(struct block_list *l);

/* Starts a stream. The first block holds at most `first` bytes, the others PROMPT_BLOCK_BYTES. */
void sink_begin(struct sink *s, struct block_list *list, uint8_t kind, uint32_t first);
void sink_write_slow(struct sink *s, const uint8_t *p, size_t n);
/* Ends the stream; one that nothing was written to gives one empty block. */
void sink_end(struct sink *s);
/* Ends a stream without a list and returns its digest. */
uint64_t sink_digest(struct sink *s);

static inline void sink_write(struct sink *s, const void *p, size_t n)
{
	if (n < s->limit - s->fill) {
		memcpy(s->buf + s->fill, p, n);
		s->fill += (uint32_t)n;
		s->total += n;
		return;
	}
	sink_write_slow(s, p, n);
}

static inline void sink_mark(struct sink *s, uint8_t mark)
{
	uint8_t m[2] = { MARK, mark };

	sink_write(s, m, 2);
}

/* A place in a stream to come back to: for keys that are given twice. */
struct sink_pos {
	struct sink sink;
	uint32_t list_n;
	struct block last;              /* folding may have changed it */
};

void sink_save(const struct sink *s, struct sink_pos *pos);
void sink_rewind(struct sink *s, const struct sink_pos *pos);
#endif
