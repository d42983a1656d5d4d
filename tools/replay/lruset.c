/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/lruset.h"

#include "load/rng.h"
#include "replay/must.h"

#define NONE UINT32_MAX

struct pair {
	uint64_t hash, when_ns;
	uint32_t node, chain, older, newer;
};

struct list {
	uint32_t oldest, newest, n;
};

struct lruset {
	uint32_t lists, room, used, buckets;
	struct list *list;
	struct pair *pair;
	uint32_t *bucket;
	uint32_t spare; /* chain of given back pairs */
};

struct lruset *lruset_new(uint32_t lists, uint32_t room)
{
	struct lruset *s = must_calloc(1, sizeof(*s));

	s->lists = lists;
	s->room = room;
	s->spare = NONE;
	s->pair = must_calloc((size_t)lists * room, sizeof(*s->pair));
	for (s->buckets = 1024; s->buckets < lists * room; s->buckets *= 2)
		;
	s->bucket = must(malloc(s->buckets * sizeof(*s->bucket)));
	memset(s->bucket, 0xff, s->buckets * sizeof(*s->bucket));
	s->list = must_calloc(lists, sizeof(*s->list));
	for (uint32_t i = 0; i < lists; i++)
		s->list[i] = (struct list){ NONE, NONE, 0 };
	return s;
}

void lruset_free(struct lruset *s)
{
	free(s->pair);
	free(s->bucket);
	free(s->list);
	free(s);
}

static uint32_t *bucket_of(const struct lruset *s, uint32_t node, uint64_t hash)
{
	return &s->bucket[load_mix(hash, node) & (s->buckets - 1)];
}

static uint32_t find(const struct lruset *s, uint32_t node, uint64_t hash)
{
	uint32_t p = *bucket_of(s, node, hash);

	while (p != NONE && (s->pair[p].hash != hash || s->pair[p].node != node))
		p = s->pair[p].chain;
	return p;
}

static void unlink_pair(struct lruset *s, struct list *l, uint32_t p)
{
	struct pair *e = &s->pair[p];

	*(e->older == NONE ? &l->oldest : &s->pair[e->older].newer) = e->newer;
	*(e->newer == NONE ? &l->newest : &s->pair[e->newer].older) = e->older;
	l->n--;
}

static void link_newest(struct lruset *s, struct list *l, uint32_t p)
{
	struct pair *e = &s->pair[p];

	e->older = l->newest;
	e->newer = NONE;
	*(l->newest == NONE ? &l->oldest : &s->pair[l->newest].newer) = p;
	l->newest = p;
	l->n++;
}

static void evict_oldest(struct lruset *s, struct list *l)
{
	uint32_t p = l->oldest, *at = bucket_of(s, s->pair[p].node, s->pair[p].hash);

	while (*at != p)
		at = &s->pair[*at].chain;
	*at = s->pair[p].chain;
	unlink_pair(s, l, p);
	s->pair[p].chain = s->spare;
	s->spare = p;
}

static uint32_t make(struct lruset *s, struct list *l, uint32_t node, uint64_t hash)
{
	uint32_t p, *at;

	if (l->n == s->room)
		evict_oldest(s, l);
	p = s->spare;
	if (p == NONE)
		p = s->used++;
	else
		s->spare = s->pair[p].chain;
	at = bucket_of(s, node, hash);
	s->pair[p] = (struct pair){ .hash = hash, .node = node, .chain = *at };
	*at = p;
	return p;
}

uint32_t lruset_match(const struct lruset *s, uint32_t node, const uint64_t *hash, uint32_t n, uint32_t stride,
		      uint64_t since_ns)
{
	uint32_t run = 0, p;

	for (uint32_t i = stride - 1; i < n; i += stride, run++) {
		p = find(s, node, hash[i]);
		if (p == NONE || s->pair[p].when_ns < since_ns)
			break;
	}
	return run;
}

void lruset_touch(struct lruset *s, uint32_t node, const uint64_t *hash, uint32_t n, uint32_t stride, uint64_t now_ns)
{
	struct list *l = &s->list[s->lists == 1 ? 0 : node];

	for (uint32_t k = n / stride; k-- > 0;) {
		uint64_t h = hash[k * stride + stride - 1];
		uint32_t p = find(s, node, h);

		if (p == NONE)
			p = make(s, l, node, h);
		else
			unlink_pair(s, l, p);
		link_newest(s, l, p);
		s->pair[p].when_ns = now_ns;
	}
}

uint32_t lruset_pairs(const struct lruset *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->lists; i++)
		n += s->list[i].n;
	return n;
}
