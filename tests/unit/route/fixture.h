/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A pool on a ledger of its own, prompts, and time, for the tests of route/. */
#ifndef KVSTEER_TESTS_ROUTE_FIXTURE_H
#define KVSTEER_TESTS_ROUTE_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "route/pool.h"

#define FX_NODES 64
#define FX_MS 1000000ull
#define FX_S 1000000000ull
#define FX_BLOCK 256u

struct fx {
	struct ledger ledger;
	struct route_pool *pool;
	struct route_pool_config cfg;
	struct route_backend_config b[ROUTE_MAX_NODES];
	char name[ROUTE_MAX_NODES][16];
	uint64_t now;
};

static inline void fx_names(struct fx *f, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		snprintf(f->name[i], sizeof(f->name[i]), "n%u", i);
		f->b[i] = (struct route_backend_config){ .name = f->name[i], .address = "127.0.0.1:1" };
	}
	f->cfg.name = "pool";
	f->cfg.backends = f->b;
	f->cfg.n_backends = n;
}

/* f zeroed, f->cfg and f->b as wanted before, or left at their defaults. */
static inline void fx_open(struct fx *f, enum route_policy policy, uint32_t n, uint32_t cap)
{
	fx_names(f, n);
	f->cfg.policy = policy;
	f->cfg.cap = cap;
	f->now = 1000 * FX_S;
	assert_int_equal(ledger_create(&f->ledger, 8192, 4), 0);
	assert_int_equal(route_pool_create(&f->pool, &f->cfg, &f->ledger), 0);
}

/* Every path must have given everything back. */
static inline void fx_close(struct fx *f)
{
	uint32_t i;

	assert_int_equal(route_check_invariants(f->pool), 0);
	assert_int_equal(ledger_count_all(&f->ledger), 0);
	for (i = 0; i < BACKENDS_MAX_ROWS; i++)
		assert_int_equal(ledger_in_flight(&f->ledger, i), 0);
	assert_int_equal(ledger_refused_releases(&f->ledger), 0);
	route_pool_free(f->pool);
	ledger_destroy(&f->ledger);
}

static inline uint64_t fx_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;

	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 32;
}

/* A prompt: arrays with room to grow by further messages. */
struct fx_prompt {
	uint64_t hash[2048];
	uint16_t bytes[2048];
	uint8_t flags[2048];
	uint32_t n;
	uint64_t total, last;
};

static inline void fx_say(struct fx_prompt *p, uint64_t text, uint32_t tokens, uint8_t flags)
{
	uint32_t left = tokens * 4, i = 0;

	for (; left; i++) {
		uint32_t n = left < FX_BLOCK ? left : FX_BLOCK;

		assert_true(p->n < 2048);
		p->last = fx_mix(p->last, text + i);
		p->hash[p->n] = p->last;
		p->bytes[p->n] = (uint16_t)n;
		p->flags[p->n++] = (uint8_t)(flags | (i ? 0 : ROUTE_BLOCK_MESSAGE_START));
		p->total += n;
		left -= n;
	}
}

static inline struct route_request fx_request(const struct fx_prompt *p)
{
	struct route_request r = { .first_token_visible = true };

	if (p)
		r.chain = (struct route_chain){ p->hash, p->bytes, p->flags, p->n, p->total };
	return r;
}

/* Assigns and expects success; returns the node. */
static inline uint32_t fx_assign(struct fx *f, const struct route_request *r, struct route_ticket *t)
{
	struct route_plan plan;

	assert_int_equal(route_assign(f->pool, r, f->now, t, &plan), 0);
	return plan.node;
}

/* The whole life of a request, answered as predicted. */
static inline uint32_t fx_serve(struct fx *f, const struct route_request *r)
{
	struct route_ticket t = { 0 };
	struct route_plan plan;

	assert_int_equal(route_assign(f->pool, r, f->now, &t, &plan), 0);
	f->now += (uint64_t)(plan.ttft_ms * 1e6);
	route_first_token(f->pool, &t, f->now, ROUTE_TOKENS_UNKNOWN);
	route_end(f->pool, &t, f->now, ROUTE_END_OK, 150);
	return plan.node;
}

static inline struct route_backend_status fx_status(struct fx *f, uint32_t node)
{
	struct route_backend_status s[ROUTE_MAX_NODES];
	uint32_t n = route_pool_status(f->pool, f->now, NULL, s, ROUTE_MAX_NODES), i;

	for (i = 0; i < n; i++)
		if (s[i].node == node)
			return s[i];
	fail_msg("no node %u", node);
	return s[0];
}
#endif
