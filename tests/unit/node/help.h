/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A node under test: requests by cookie, and what became of them. */
#ifndef KVSTEER_TESTS_NODE_HELP_H
#define KVSTEER_TESTS_NODE_HELP_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/node.h"

#define MAX_REQ 4096

/* What a test sees of its requests, by cookie. */
struct seen {
	uint32_t tokens, cached, preempted;
	uint64_t first_ns, last_ns;
	bool finished;
};

static struct seen seen[MAX_REQ];
static uint64_t now_ns, end_ns;

static inline struct node *setup(void (*change)(struct node_config *))
{
	struct node_config cfg;
	struct node *n;

	node_config_default(&cfg);
	if (change)
		change(&cfg);
	memset(seen, 0, sizeof(seen));
	now_ns = 0;
	n = node_new(&cfg);
	assert_non_null(n);
	return n;
}

/* Block b of chain `chain`. */
static inline uint64_t hash_of(uint64_t chain, uint32_t b)
{
	return (chain + 1) * 0x9e3779b97f4a7c15ull + b * 0xc2b2ae3d27d4eb4full;
}

/* Submits prompt + answer as one chain. Returns the id. */
static inline uint64_t submit_as(struct node *n, uint64_t cookie, uint64_t chain, uint32_t prompt, uint32_t output, int32_t adapter)
{
	uint64_t hash[4096], id;
	struct node_request req = { .hash = hash, .hashes = (prompt + output) / 16, .prompt_tokens = prompt,
		.output_tokens = output, .adapter = adapter, .cookie = cookie };

	for (uint32_t b = 0; b < req.hashes; b++)
		hash[b] = hash_of(chain, b);
	assert_int_equal(node_submit(n, &req, now_ns, &id), 0);
	return id;
}

static inline uint64_t submit(struct node *n, uint64_t cookie, uint64_t chain, uint32_t prompt, uint32_t output)
{
	return submit_as(n, cookie, chain, prompt, output, NODE_NO_ADAPTER);
}

static inline uint32_t match(struct node *n, uint64_t chain, uint32_t blocks)
{
	uint64_t hash[64];

	for (uint32_t b = 0; b < blocks; b++)
		hash[b] = hash_of(chain, b);
	return node_match_tokens(n, hash, blocks);
}

static inline void step_finish(struct node *n)
{
	const struct node_event *ev;
	size_t count;

	now_ns = end_ns;
	count = node_step_end(n, &ev);
	for (size_t i = 0; i < count; i++) {
		struct seen *s = &seen[ev[i].cookie];

		assert_false(s->finished);
		if (ev[i].flags & NODE_EV_PREEMPTED) {
			assert_int_equal(ev[i].flags, NODE_EV_PREEMPTED);
			s->preempted++;
			continue;
		}
		assert_true(ev[i].flags & NODE_EV_TOKEN);
		assert_int_equal(ev[i].generated, ++s->tokens);
		assert_int_equal(!!(ev[i].flags & NODE_EV_FIRST), s->tokens == 1);
		if (s->tokens == 1) {
			s->first_ns = now_ns;
			s->cached = ev[i].cached_tokens;
		}
		s->last_ns = now_ns;
		s->finished = ev[i].flags & NODE_EV_FINISHED;
	}
}

/* One step; returns its duration, 0 if there was nothing to do. */
static inline uint64_t step(struct node *n)
{
	uint64_t begin = now_ns;

	if (!node_step_begin(n, now_ns, &end_ns))
		return 0;
	step_finish(n);
	return now_ns - begin;
}

static inline int run(struct node *n)
{
	int steps = 0;

	while (step(n))
		assert_true(++steps < 1000000);
	return steps;
}

static inline struct node_stats stats(struct node *n)
{
	struct node_stats st;

	node_read_stats(n, &st);
	return st;
}
#endif
