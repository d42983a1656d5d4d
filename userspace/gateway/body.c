/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BODY_SMALL_BYTES 4096u

static struct body_chunk *chunk_new(struct body_pool *pool, uint64_t want)
{
	uint32_t cap = want <= BODY_SMALL_BYTES ? BODY_SMALL_BYTES : BODY_CHUNK_BYTES;
	struct body_chunk *c;

	if (cap == BODY_CHUNK_BYTES && pool->spare) {
		c = pool->spare;
		pool->spare = c->next;
		pool->n_spare--;
	} else if (cap == BODY_SMALL_BYTES && pool->spare_small) {
		c = pool->spare_small;
		pool->spare_small = c->next;
		pool->n_spare_small--;
	} else {
		c = malloc(sizeof(*c) + cap);
		if (!c)
			return NULL;
		c->cap = cap;
	}
	c->next = NULL;
	c->len = 0;
	pool->bytes += cap;
	return c;
}

static void chunk_put(struct body_pool *pool, struct body_chunk *c)
{
	pool->bytes -= c->cap;
	if (c->cap == BODY_CHUNK_BYTES && pool->n_spare < BODY_CHUNKS_SPARE) {
		c->next = pool->spare;
		pool->spare = c;
		pool->n_spare++;
	} else if (c->cap == BODY_SMALL_BYTES && pool->n_spare_small < BODY_SMALLS_SPARE) {
		c->next = pool->spare_small;
		pool->spare_small = c;
		pool->n_spare_small++;
	} else {
		free(c);
	}
}

uint8_t *body_space(struct body *b, struct body_pool *pool, uint64_t want, uint32_t *room)
{
	if (!b->tail || b->tail->len == b->tail->cap) {
		/* only a body's first chunk is small: many small ones would be many vectors */
		struct body_chunk *c = chunk_new(pool, b->held ? BODY_CHUNK_BYTES : want);

		if (!c)
			return NULL;
		if (b->tail)
			b->tail->next = c;
		else
			b->head = c;
		b->tail = c;
		if (!b->at) {
			b->at = c;
			b->at_off = 0;
		}
	}
	*room = b->tail->cap - b->tail->len;
	if (*room > want)
		*room = (uint32_t)want;
	return b->tail->data + b->tail->len;
}

void body_filled(struct body *b, uint32_t n)
{
	b->tail->len += n;
	b->held += n;
	b->unsent += n;
}

int body_append(struct body *b, struct body_pool *pool, const uint8_t *p, uint32_t n)
{
	while (n) {
		uint32_t room;
		uint8_t *to = body_space(b, pool, n, &room);

		if (!to)
			return -ENOMEM;
		memcpy(to, p, room);
		body_filled(b, room);
		p += room;
		n -= room;
	}
	return 0;
}

unsigned body_vectors(const struct body *b, struct iovec *v, unsigned max)
{
	unsigned n = 0;
	uint32_t off = b->at_off;

	for (struct body_chunk *c = b->at; c && n < max; c = c->next, off = 0)
		if (c->len > off)
			v[n++] = (struct iovec){ c->data + off, c->len - off };
	return n;
}

unsigned body_all_vectors(const struct body *b, struct iovec *v, unsigned max)
{
	unsigned n = 0;

	for (struct body_chunk *c = b->head; c && n < max; c = c->next)
		if (c->len)
			v[n++] = (struct iovec){ c->data, c->len };
	return n;
}

static void drop_before(struct body *b, struct body_pool *pool)
{
	while (b->head && b->head != b->at) {
		struct body_chunk *c = b->head;

		b->head = c->next;
		b->held -= c->len;
		chunk_put(pool, c);
	}
	if (!b->head)
		b->tail = NULL;
}

void body_sent(struct body *b, struct body_pool *pool, uint64_t n)
{
	b->unsent -= n;
	while (b->at && n >= b->at->len - b->at_off) {
		/* a chunk with room left stays the place where the next bytes land */
		if (!b->at->next && b->at->len < b->at->cap && !b->dropping) {
			b->at_off += (uint32_t)n;
			return;
		}
		n -= b->at->len - b->at_off;
		b->at = b->at->next;
		b->at_off = 0;
	}
	b->at_off += (uint32_t)n;
	if (b->dropping)
		drop_before(b, pool);
}

void body_rewind(struct body *b)
{
	b->at = b->head;
	b->at_off = 0;
	b->unsent = b->held;
}

/* Appends bytes off..end of `from` to `to`. */
static int copy_range(struct body *to, struct body_pool *pool, const struct body *from, uint64_t off, uint64_t end)
{
	uint64_t at = 0;

	for (struct body_chunk *c = from->head; c && at < end; at += c->len, c = c->next) {
		uint64_t a = off > at ? off - at : 0, z = end - at < c->len ? end - at : c->len;

		if (a < z && body_append(to, pool, c->data + a, (uint32_t)(z - a)))
			return -ENOMEM;
	}
	return 0;
}

int body_replace(struct body *b, struct body_pool *pool, uint64_t off, uint64_t len, const char *with, uint32_t with_len)
{
	struct body n = { 0 };

	if (copy_range(&n, pool, b, 0, off) || body_append(&n, pool, (const uint8_t *)with, with_len) ||
	    copy_range(&n, pool, b, off + len, b->held)) {
		body_free(&n, pool);
		return -ENOMEM;
	}
	body_free(b, pool);
	*b = n;
	return 0;
}

void body_drop_sent(struct body *b, struct body_pool *pool)
{
	b->dropping = true;
	drop_before(b, pool);
}

void body_free(struct body *b, struct body_pool *pool)
{
	while (b->head) {
		struct body_chunk *c = b->head;

		b->head = c->next;
		chunk_put(pool, c);
	}
	memset(b, 0, sizeof(*b));
}

static void chunks_free(struct body_chunk *c)
{
	while (c) {
		struct body_chunk *next = c->next;

		free(c);
		c = next;
	}
}

void body_pool_free(struct body_pool *pool)
{
	chunks_free(pool->spare);
	chunks_free(pool->spare_small);
	memset(pool, 0, sizeof(*pool));
}
