/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The chain: seed (model, salts, hints), then the blocks of the sections in the
 * order in which engines render them, whatever the order of the body's keys. */
#include <errno.h>
#include <stdlib.h>

#include "prompt/scan.h"

#define RAW_MAX_BLOCKS 49152

struct chain {
	struct prompt_key *key;
	uint64_t h;
	uint32_t max;
};

/* Room for `n` blocks in one allocation. */
static int key_alloc(struct prompt_key *k, uint32_t n)
{
	uint8_t *mem = malloc((size_t)n * (sizeof(*k->hash) + sizeof(*k->bytes) + sizeof(*k->flags)));

	if (!mem)
		return -ENOMEM;
	k->hash = (uint64_t *)(void *)mem;
	k->bytes = (uint16_t *)(void *)(mem + (size_t)n * sizeof(*k->hash));
	k->flags = mem + (size_t)n * (sizeof(*k->hash) + sizeof(*k->bytes));
	return 0;
}

static void chain_add(struct chain *c, const struct block *b)
{
	struct prompt_key *k = c->key;
	uint64_t start = b->flags & PROMPT_BLOCK_MESSAGE_START;
	uint32_t bytes = b->bytes > UINT16_MAX ? UINT16_MAX : b->bytes, i = k->nblocks;

	c->h = hash_chain(c->h, b->hash, b->kind | start << 8);
	if (i == c->max) {      /* the rest is folded into the last block */
		i--;
		bytes = k->bytes[i] + bytes > UINT16_MAX ? UINT16_MAX : k->bytes[i] + bytes;
		k->total_bytes -= k->bytes[i];
		k->flags[i] |= b->flags & (PROMPT_BLOCK_ASSISTANT | PROMPT_BLOCK_TRAILER);
	} else {
		k->nblocks++;
		k->flags[i] = b->flags;
	}
	k->hash[i] = c->h;
	k->bytes[i] = (uint16_t)bytes;
	k->total_bytes += bytes;
}

static uint64_t seed_field(uint64_t h, const void *p, size_t n, uint64_t what)
{
	return p ? hash_chain(h, hash_bytes(p, n), what << 32 | n) : h;
}

static uint64_t seed(const struct prompt_key_params *p, const char *model, uint64_t salt)
{
	uint64_t h = hash_chain(0, salt, 1);

	h = seed_field(h, model, model ? strlen(model) : 0, 2);
	h = seed_field(h, p->hint, p->hint_len, 3);
	return seed_field(h, p->tenant, p->tenant_len, 4);
}

/* Blocks that stand for a bag: one, and what its weight needs beyond that. */
static void bag_blocks(const struct bag *b, struct block_list *l, uint8_t kind, uint8_t flags)
{
	uint64_t bytes = 0, h = bag_hash(b, &bytes);

	if (h)
		block_list_add(l, h, bytes ? bytes : sizeof(h), kind, flags);
}

static int build(const struct prompt_scan *s, const struct prompt_key_params *params, struct block_list *head,
		 struct block_list *tail, struct prompt_key *out)
{
	const char *model = params->model ? params->model : s->info.has_model ? s->info.model : NULL;
	bool chat = s->info.shape == PROMPT_SHAPE_CHAT;
	struct chain c = { .key = out, .max = s->lim.max_blocks };
	const struct block_list *order[SEC_MAX + 2];
	uint64_t salt_bytes = 0, n = 0;
	uint32_t i;
	int k, parts = 0;

	order[parts++] = head;
	for (k = 0; k < SEC_MAX; k++) {
		if (s->present[k] && k != (chat ? SEC_PROMPT : SEC_MESSAGES))
			order[parts++] = &s->sec[k];
	}
	order[parts++] = tail;
	for (k = 0; k < parts; k++) {
		if (order[k]->nomem)
			return -ENOMEM;
		n += order[k]->n;
	}
	if (!n)
		return 0;
	if (key_alloc(out, n < c.max ? (uint32_t)n : c.max))
		return -ENOMEM;
	c.h = seed(params, model, bag_hash(&s->salt, &salt_bytes));
	for (k = 0; k < parts; k++) {
		for (i = 0; i < order[k]->n; i++)
			chain_add(&c, &order[k]->v[i]);
	}
	out->class_id = s->info.has_assistant && chat;
	return 0;
}

int prompt_key_build(const struct prompt_scan *s, const struct prompt_key_params *params, const struct iovec *iov,
		     int niov, struct prompt_key *out)
{
	struct block_list head = { .max = BAG_MAX * 4096 }, tail = { .max = BAG_MAX };
	struct prompt_key_params p = *params;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (s->info.shape != PROMPT_SHAPE_NONE) {
		bag_blocks(&s->tmpl, &head, KIND_TEMPLATE, PROMPT_BLOCK_MESSAGE_START);
		bag_blocks(&s->trailer, &tail, KIND_TRAILER, PROMPT_BLOCK_MESSAGE_START | PROMPT_BLOCK_TRAILER);
		rc = build(s, params, &head, &tail, out);
		block_list_free(&head);
		block_list_free(&tail);
		if (rc || out->nblocks)
			return rc;
	}
	if (!p.model && s->info.has_model)
		p.model = s->info.model;
	return prompt_key_build_raw(iov, niov, &p, s->lim.max_blocks, out);
}

int prompt_key_build_raw(const struct iovec *iov, int niov, const struct prompt_key_params *params,
			 uint32_t max_blocks, struct prompt_key *out)
{
	struct block_list l = { .max = max_blocks ? max_blocks : RAW_MAX_BLOCKS };
	struct chain c = { .key = out, .max = l.max };
	struct sink sink;
	uint32_t i;
	int rc = -ENOMEM, k;

	memset(out, 0, sizeof(*out));
	sink_begin(&sink, &l, KIND_RAW, PROMPT_BLOCK_BYTES);
	for (k = 0; k < niov; k++)
		sink_write(&sink, iov[k].iov_base, iov[k].iov_len);
	sink_end(&sink);
	if (l.nomem || key_alloc(out, l.n))
		goto out;
	c.h = seed(params, params->model, 0);
	for (i = 0; i < l.n; i++)
		chain_add(&c, &l.v[i]);
	out->raw = true;
	rc = 0;
out:
	block_list_free(&l);
	return rc;
}

void prompt_key_free(struct prompt_key *k)
{
	free(k->hash);
	memset(k, 0, sizeof(*k));
}
