/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The requests of a node: table, queue, submission, abort. The scheduler is in
 * step.c, the blocks are in kvcache.c. */
#include "node/node.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/node_impl.h"

void node_config_default(struct node_config *cfg)
{
	*cfg = (struct node_config){
		.a_ms = 15, .b_us = 62.5, .c_us = 35, .d_ns = 17.8, .e_ns = 0.7, .speed = 1,
		.batch_tokens = 8192, .max_seqs = 256, .kv_tokens = 640000, .watermark = 0.01,
		.adapter_slots = 8, .adapter_load_ms = 150, .max_requests = 65536,
	};
}

static bool figure_ok(double v)
{
	return isfinite(v) && v >= 0;
}

static bool config_ok(const struct node_config *c)
{
	return figure_ok(c->a_ms) && figure_ok(c->b_us) && figure_ok(c->c_us) && figure_ok(c->d_ns) &&
	       figure_ok(c->e_ns) && isfinite(c->speed) && c->speed > 0 && figure_ok(c->adapter_load_ms) &&
	       c->watermark >= 0 && c->watermark < 1 && c->max_seqs >= 1 && c->max_seqs <= 65536 &&
	       c->batch_tokens >= c->max_seqs && c->kv_tokens >= 2 * NODE_BLOCK_TOKENS && c->adapter_slots >= 1 &&
	       c->adapter_slots <= 4096 && c->max_requests >= 1 && c->max_requests < SEQ_NONE;
}

struct node *node_new_sharing(const struct node_config *cfg, struct node *with)
{
	struct node *n;

	if (!config_ok(cfg)) {
		errno = EINVAL;
		return NULL;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->cfg = *cfg;
	n->running = calloc(cfg->max_seqs, sizeof(*n->running));
	n->event = calloc(2 * (size_t)cfg->max_seqs, sizeof(*n->event));
	n->adapter = calloc(cfg->adapter_slots, sizeof(*n->adapter));
	n->kv = with ? with->kv : &n->own_kv;
	if (!n->running || !n->event || !n->adapter ||
	    (!with && kvcache_init(n->kv, cfg->kv_tokens / NODE_BLOCK_TOKENS))) {
		node_free(n);
		errno = ENOMEM;
		return NULL;
	}
	n->watermark_blocks = (uint32_t)(cfg->watermark * n->kv->blocks);
	n->seq_free = n->wait_head = n->wait_tail = SEQ_NONE;
	return n;
}

struct node *node_new(const struct node_config *cfg)
{
	return node_new_sharing(cfg, NULL);
}

void node_free(struct node *n)
{
	if (!n)
		return;
	for (uint32_t i = 0; i < n->seqs; i++) {
		free(n->seq[i].hash);
		free(n->seq[i].block);
	}
	free(n->seq);
	free(n->running);
	free(n->event);
	free(n->adapter);
	kvcache_destroy(&n->own_kv);
	free(n);
}

/* The table doubles; entries keep their index for life. */
static int seq_table_grow(struct node *n)
{
	uint32_t room = n->seqs ? n->seqs * 2 : 64;
	struct node_seq *seq = realloc(n->seq, room * sizeof(*seq));

	if (!seq)
		return -ENOMEM;
	n->seq = seq;
	memset(seq + n->seqs, 0, (room - n->seqs) * sizeof(*seq));
	for (uint32_t i = room; i-- > n->seqs;) {
		seq[i].next = n->seq_free;
		n->seq_free = i;
	}
	n->seqs = room;
	return 0;
}

void node_wait_add(struct node *n, uint32_t i, bool at_head)
{
	struct node_seq *s = &n->seq[i];

	s->state = SEQ_WAITING;
	s->prev = at_head ? SEQ_NONE : n->wait_tail;
	s->next = at_head ? n->wait_head : SEQ_NONE;
	if (s->prev == SEQ_NONE)
		n->wait_head = i;
	else
		n->seq[s->prev].next = i;
	if (s->next == SEQ_NONE)
		n->wait_tail = i;
	else
		n->seq[s->next].prev = i;
	n->st.waiting++;
	n->st.waiting_tokens += s->prompt_tokens;
}

void node_wait_del(struct node *n, uint32_t i)
{
	struct node_seq *s = &n->seq[i];

	if (s->prev == SEQ_NONE)
		n->wait_head = s->next;
	else
		n->seq[s->prev].next = s->next;
	if (s->next == SEQ_NONE)
		n->wait_tail = s->prev;
	else
		n->seq[s->next].prev = s->prev;
	n->st.waiting--;
	n->st.waiting_tokens -= s->prompt_tokens;
}

void node_seq_release(struct node *n, struct node_seq *s)
{
	struct node_adapter *a = s->adapter == NODE_NO_ADAPTER ? NULL : node_adapter_find(n, s->adapter);

	while (s->blocks)
		kvcache_unpin(n->kv, s->block[--s->blocks]);
	if (a && s->state == SEQ_RUNNING)
		a->running--;
	s->computed = s->chunk = 0;
	s->decoding = false;
}

void node_seq_free(struct node *n, uint32_t i)
{
	struct node_seq *s = &n->seq[i];
	uint32_t generation = s->generation + 1;

	free(s->hash);
	free(s->block);
	memset(s, 0, sizeof(*s));
	s->generation = generation;
	s->next = n->seq_free;
	n->seq_free = i;
}

int node_submit(struct node *n, const struct node_request *req, uint64_t now_ns, uint64_t *id)
{
	uint64_t tokens = (uint64_t)req->prompt_tokens + req->output_tokens;
	struct node_seq *s;
	uint32_t i, hashes;

	(void)now_ns;	/* the queue is in order of submission; no figure of the model needs the time yet */
	if (!req->prompt_tokens || !req->output_tokens)
		return -EINVAL;
	/* Alone on the node it must fit with the watermark left, or the queue behind it stands for ever. */
	if (tokens > (uint64_t)(n->kv->blocks - n->watermark_blocks) * NODE_BLOCK_TOKENS)
		return -E2BIG;
	if (n->st.running + n->st.waiting >= n->cfg.max_requests) {
		n->st.refused++;
		return -EBUSY;
	}
	if (n->seq_free == SEQ_NONE && seq_table_grow(n))
		return -ENOMEM;
	i = n->seq_free;
	s = &n->seq[i];
	hashes = (uint32_t)(tokens / NODE_BLOCK_TOKENS);
	if (hashes > req->hashes)
		hashes = req->hashes;
	s->blocks_room = node_blocks_for((uint32_t)tokens);
	s->hash = malloc(hashes * sizeof(*s->hash) + 1);
	s->block = malloc(s->blocks_room * sizeof(*s->block));
	if (!s->hash || !s->block) {
		free(s->hash);
		free(s->block);
		s->hash = NULL;
		s->block = NULL;
		return -ENOMEM;
	}
	n->seq_free = s->next;
	if (hashes)
		memcpy(s->hash, req->hash, hashes * sizeof(*s->hash));
	s->hashes = hashes;
	s->prompt_tokens = req->prompt_tokens;
	s->output_tokens = req->output_tokens;
	s->adapter = req->adapter;
	s->cookie = req->cookie;
	node_wait_add(n, i, false);
	if (id)
		*id = (uint64_t)s->generation << 32 | i;
	return 0;
}

int node_abort(struct node *n, uint64_t id)
{
	uint32_t i = (uint32_t)id;
	struct node_seq *s;

	if (i >= n->seqs)
		return -ENOENT;
	s = &n->seq[i];
	if (s->state == SEQ_FREE || s->generation != id >> 32 || s->aborted)
		return -ENOENT;
	n->st.aborted++;
	if (s->state == SEQ_WAITING) {
		node_wait_del(n, i);
		node_seq_free(n, i);
		return 0;
	}
	s->aborted = true;	/* its part of the step is being computed; removed at the end of it */
	if (n->stepping)
		return 0;
	for (uint32_t r = 0; r < n->st.running; r++) {
		if (n->running[r] != i)
			continue;
		memmove(&n->running[r], &n->running[r + 1], (n->st.running - r - 1) * sizeof(*n->running));
		break;
	}
	n->st.running--;
	node_seq_release(n, s);
	node_seq_free(n, i);
	return 0;
}

uint32_t node_match_tokens(const struct node *n, const uint64_t *hash, uint32_t hashes)
{
	uint32_t i = 0;

	while (i < hashes && kvcache_find(n->kv, hash[i]) != KVCACHE_NONE)
		i++;
	return i * NODE_BLOCK_TOKENS;
}

struct node_adapter *node_adapter_find(const struct node *n, int32_t id)
{
	for (uint32_t i = 0; i < n->adapters; i++)
		if (n->adapter[i].id == id)
			return &n->adapter[i];
	return NULL;
}

bool node_adapter_resident(const struct node *n, int32_t adapter)
{
	return node_adapter_find(n, adapter) != NULL;
}

static size_t id_add(int32_t *ids, size_t count, size_t max, int32_t id)
{
	size_t at = 0;

	while (at < count && ids[at] < id)
		at++;
	if ((at < count && ids[at] == id) || at >= max)
		return count;
	if (count == max)
		count--;
	memmove(&ids[at + 1], &ids[at], (count - at) * sizeof(*ids));
	ids[at] = id;
	return count + 1;
}

size_t node_adapters(const struct node *n, bool of_running, int32_t *ids, size_t max)
{
	size_t count = 0;

	if (of_running) {
		for (uint32_t r = 0; r < n->st.running; r++)
			if (n->seq[n->running[r]].adapter != NODE_NO_ADAPTER)
				count = id_add(ids, count, max, n->seq[n->running[r]].adapter);
	} else {
		for (uint32_t i = n->wait_head; i != SEQ_NONE; i = n->seq[i].next)
			if (n->seq[i].adapter != NODE_NO_ADAPTER)
				count = id_add(ids, count, max, n->seq[i].adapter);
	}
	return count;
}

void node_reset(struct node *n)
{
	for (uint32_t i = 0; i < n->seqs; i++)
		if (n->seq[i].state != SEQ_FREE)
			node_seq_free(n, i);
	kvcache_clear(n->kv);
	n->wait_head = n->wait_tail = SEQ_NONE;
	n->adapters = 0;
	n->stepping = false;
	n->events = n->preempts = 0;
	memset(&n->st, 0, sizeof(n->st));
}

void node_read_stats(const struct node *n, struct node_stats *out)
{
	*out = n->st;
	out->blocks_total = n->kv->blocks;
	out->blocks_pinned = n->kv->blocks - n->kv->free;
	out->blocks_cached = n->kv->cached;
	out->evicted_blocks = n->kv->evicted;
}
