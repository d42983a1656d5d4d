/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The bytes of one request body: a chain of chunks with a send position. Kept
 * until the answer begins (for a retry) or, beyond limits.scan, dropped as sent. */
#ifndef KVSTEER_GATEWAY_BODY_H
#define KVSTEER_GATEWAY_BODY_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define BODY_CHUNK_BYTES (64u << 10)
#define BODY_CHUNKS_SPARE 64 /* kept per worker: 4 MiB */
#define BODY_SMALLS_SPARE 64 /* the same of small ones: 256 KiB */

struct body_chunk {
	struct body_chunk *next;
	uint32_t len, cap;
	uint8_t data[];
};

/* Spare chunks of one worker. */
struct body_pool {
	struct body_chunk *spare, *spare_small;
	uint32_t n_spare, n_spare_small;
	uint64_t bytes; /* held by all chunks in use */
};

struct body {
	struct body_chunk *head, *tail;
	struct body_chunk *at; /* next to send */
	uint32_t at_off;
	uint64_t held;   /* bytes in the chain */
	uint64_t unsent; /* of these, behind the send position */
	bool dropping;   /* sent chunks are given back at once */
};

/* Space to receive into: at least 1 byte, at most `want` useful ones. NULL: no
 * memory. body_filled() then says how many came. */
uint8_t *body_space(struct body *b, struct body_pool *pool, uint64_t want, uint32_t *room);
void body_filled(struct body *b, uint32_t n);
/* Appends a copy. -ENOMEM (then nothing of it may be assumed appended). */
int body_append(struct body *b, struct body_pool *pool, const uint8_t *p, uint32_t n);
/* Up to `max` vectors of unsent bytes; returns how many. */
unsigned body_vectors(const struct body *b, struct iovec *v, unsigned max);
/* All bytes held, sent or not. */
unsigned body_all_vectors(const struct body *b, struct iovec *v, unsigned max);
/* `n` bytes went out. */
void body_sent(struct body *b, struct body_pool *pool, uint64_t n);
/* The send position goes back to the first byte (not once `dropping`). */
void body_rewind(struct body *b);
/* Replaces bytes off..off+len (all held, nothing sent yet) by `with`. -ENOMEM: unchanged. */
int body_replace(struct body *b, struct body_pool *pool, uint64_t off, uint64_t len, const char *with, uint32_t with_len);
/* From now on sent bytes are not kept. */
void body_drop_sent(struct body *b, struct body_pool *pool);
void body_free(struct body *b, struct body_pool *pool);
void body_pool_free(struct body_pool *pool);
#endif
