/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "prompt/sink.h"

#include <stdlib.h>

#define LIST_FIRST 64
#define LIST_KEEP  4096         /* blocks kept from one request to the next: 64 KiB, a 1 MB prompt */

static void list_push(struct block_list *l, uint64_t hash, uint32_t bytes, uint8_t kind, uint8_t flags)
{
	struct block *b;

	if (l->n >= l->max && l->n) {
		b = &l->v[l->n - 1];
		b->hash = hash_chain(b->hash, hash, kind | (uint64_t)flags << 8 | (uint64_t)KIND_FOLD << 16);
		b->bytes = b->bytes + bytes < b->bytes ? UINT32_MAX : b->bytes + bytes;
		b->kind = KIND_FOLD;
		b->flags |= flags & PROMPT_BLOCK_ASSISTANT;
		return;
	}
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : LIST_FIRST;
		struct block *v = realloc(l->v, cap * sizeof(*v));

		if (!v) {
			l->nomem = true;
			return;
		}
		l->v = v;
		l->cap = cap;
	}
	b = &l->v[l->n++];
	b->hash = hash;
	b->bytes = bytes;
	b->kind = kind;
	b->flags = flags;
}

void block_list_add(struct block_list *l, uint64_t hash, uint64_t bytes, uint8_t kind, uint8_t flags)
{
	uint64_t i = 0;

	for (;;) {
		uint32_t b = bytes > PROMPT_BLOCK_BYTES ? PROMPT_BLOCK_BYTES : (uint32_t)bytes;

		list_push(l, hash, b, kind, flags);
		bytes -= b;
		if (!bytes)
			return;
		hash = hash_chain(hash, ++i, KIND_SPILL);
		kind = KIND_SPILL;
		flags &= (uint8_t)~PROMPT_BLOCK_MESSAGE_START;
	}
}

void block_list_reset(struct block_list *l, uint32_t max)
{
	if (l->cap > LIST_KEEP)
		block_list_free(l);
	l->n = 0;
	l->max = max;
	l->nomem = false;
}

void block_list_free(struct block_list *l)
{
	free(l->v);
	l->v = NULL;
	l->n = l->cap = 0;
}

void sink_begin(struct sink *s, struct block_list *list, uint8_t kind, uint32_t first)
{
	s->list = list;
	s->acc = 0;
	s->total = 0;
	s->fill = 0;
	s->limit = first;
	s->emitted = 0;
	s->extra = 0;
	s->kind = kind;
}

static void emit(struct sink *s, const uint8_t *p, uint32_t n)
{
	uint64_t h = hash_bytes(p, n);

	if (s->list)
		block_list_add(s->list, h, n + s->extra, s->kind, 0);
	else
		s->acc = hash_chain(s->acc, h, s->kind);
	s->extra = 0;
	s->emitted++;
	s->limit = PROMPT_BLOCK_BYTES;
}

void sink_write_slow(struct sink *s, const uint8_t *p, size_t n)
{
	s->total += n;
	if (s->fill) {
		uint32_t k = s->limit - s->fill;

		if (k > n)
			k = (uint32_t)n;
		memcpy(s->buf + s->fill, p, k);
		s->fill += k;
		p += k;
		n -= k;
		if (s->fill < s->limit)
			return;
		emit(s, s->buf, s->fill);
		s->fill = 0;
	}
	while (n >= s->limit) {
		uint32_t k = s->limit;

		emit(s, p, k);
		p += k;
		n -= k;
	}
	if (n)
		memcpy(s->buf, p, n);
	s->fill = (uint32_t)n;
}

void sink_end(struct sink *s)
{
	if (s->fill || !s->emitted)
		emit(s, s->buf, s->fill);
	s->fill = 0;
}

uint64_t sink_digest(struct sink *s)
{
	if (s->fill || !s->emitted)
		emit(s, s->buf, s->fill);
	s->fill = 0;
	return hash_chain(s->acc, s->total, KIND_DIGEST);
}

void sink_save(const struct sink *s, struct sink_pos *pos)
{
	memcpy(&pos->sink, s, offsetof(struct sink, buf) + s->fill);
	pos->list_n = s->list ? s->list->n : 0;
	if (pos->list_n)
		pos->last = s->list->v[pos->list_n - 1];
}

void sink_rewind(struct sink *s, const struct sink_pos *pos)
{
	memcpy(s, &pos->sink, offsetof(struct sink, buf) + pos->sink.fill);
	if (!s->list)
		return;
	s->list->n = pos->list_n;
	if (pos->list_n)
		s->list->v[pos->list_n - 1] = pos->last;
}
