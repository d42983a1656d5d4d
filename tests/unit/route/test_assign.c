/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A request's life under the cost policy: where it goes, what it adds, that all of it is given back on
 * every path, and what is learned. */
#include <errno.h>
#include <pthread.h>

#include "fixture.h"

static void same_prefix_sticks(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_plan plan;
	uint32_t first, i;

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	fx_say(&p, 1, 3008, 0);
	r = fx_request(&p);
	first = fx_serve(&f, &r);
	for (i = 0; i < 5; i++) {
		struct fx_prompt q = p;

		fx_say(&q, 1000 + i, 50, 0);
		r = fx_request(&q);
		assert_int_equal(route_assign(f.pool, &r, f.now, &t, &plan), 0);
		assert_int_equal(plan.node, first);
		assert_int_equal(plan.match_tokens, 3008);
		assert_int_equal(plan.prompt_tokens, 3058);
		assert_int_equal(plan.n_alternates, 3);
		route_first_token(f.pool, &t, f.now += 30 * FX_MS, ROUTE_TOKENS_UNKNOWN);
		route_end(f.pool, &t, f.now += FX_S, ROUTE_END_OK, 100);
	}
	fx_close(&f);
}

/* A reach of 4096 tokens was too short for agents. */
static void long_prompts_match_to_their_end(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p, q;
	struct route_request r;
	struct route_ticket t = { 0 };
	uint32_t home;

	memset(&p, 0, sizeof(p));
	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	fx_say(&p, 1, 100000, 0);
	r = fx_request(&p);
	home = fx_serve(&f, &r);
	q = p;
	fx_say(&q, 500000, 200, 0);
	r = fx_request(&q);
	assert_int_equal(fx_assign(&f, &r, &t), home);
	assert_int_equal(t.match_tokens, 100000);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	/* Two prompts that differ in their last block only share all but that. */
	p.hash[p.n - 1] ^= 1;
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	assert_int_equal(t.match_tokens, 100000 - p.bytes[p.n - 1] / 4);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* Two simultaneous equal prompts: the second sees that the first is under way. */
static void simultaneous_equal_prompts_see_each_other(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket a = { 0 }, b = { 0 };

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	fx_say(&p, 1, 3008, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &a);
	assert_int_equal(fx_assign(&f, &r, &b), a.node);
	assert_int_equal(b.match_tokens, 3008);
	assert_int_equal(fx_status(&f, a.node).unp, 2);
	route_end(f.pool, &a, f.now, ROUTE_END_CLIENT_GONE, 0);
	/* b still relies on the entries that a made. */
	assert_int_equal(fx_status(&f, b.node).index_blocks, 47);
	route_end(f.pool, &b, f.now, ROUTE_END_CLIENT_GONE, 0);
	assert_int_equal(fx_status(&f, 0).index_blocks, 0);
	fx_close(&f);
}

/* "Everything sticks to one node at low load" and "all go to the smallest tree, ignoring load": cold
 * prefixes are placed by load. */
static void cold_prefixes_go_where_load_is_least(void **state)
{
	struct fx f = { 0 };
	struct route_ticket t[24] = { 0 };
	static struct fx_prompt p[24];
	uint32_t i, count[8] = { 0 };

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	for (i = 0; i < 24; i++) {
		struct route_request r;

		memset(&p[i], 0, sizeof(p[i]));
		fx_say(&p[i], 1000 * i, 3000, 0);
		r = fx_request(&p[i]);
		count[fx_assign(&f, &r, &t[i])]++;
	}
	for (i = 0; i < 8; i++)
		assert_int_equal(count[i], 3);
	for (i = 0; i < 24; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* Hot prefixes piled up on one node, or overflowed all to the same default one: here they spread as soon
 * as waiting costs more than computing again. */
static void hot_prefix_spreads(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p[400];
	static struct route_ticket t[400];
	uint32_t i, count[8] = { 0 }, used = 0, most = 0;

	fx_open(&f, ROUTE_POLICY_COST, 8, 256);
	for (i = 0; i < 400; i++) {
		struct route_request r;

		memset(&p[i], 0, sizeof(p[i]));
		fx_say(&p[i], 1, 3008, 0);
		fx_say(&p[i], 5000 + i, 50, 0);
		r = fx_request(&p[i]);
		count[fx_assign(&f, &r, &t[i])]++;
		f.now += FX_MS; /* 1000 a second: far more than one node's prefill */
	}
	for (i = 0; i < 8; i++) {
		used += count[i] > 0;
		most = count[i] > most ? count[i] : most;
	}
	assert_true(used >= 4);
	assert_true(most < 200);
	for (i = 0; i < 400; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

/* One hot worker turned affinity off fleet-wide: the candidate is judged, not the fleet. */
static void one_busy_node_leaves_affinity_of_others(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt quiet, heavy[40];
	static struct route_ticket t[40];
	struct route_snapshot_in snap = { .waiting = 80, .running = 200, .kv_used = 0.5 };
	struct route_request r;
	uint32_t home, busy, i;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	memset(&quiet, 0, sizeof(quiet));
	fx_say(&quiet, 1, 3008, 0);
	r = fx_request(&quiet);
	home = fx_serve(&f, &r);
	busy = (home + 1) % 4;
	assert_int_equal(route_snapshot(f.pool, busy, &snap, f.now), 0);
	for (i = 0; i < 5; i++)
		assert_int_equal(fx_serve(&f, &r), home);
	/* And the busy one gets nothing cold. */
	for (i = 0; i < 3; i++) {
		memset(&heavy[i], 0, sizeof(heavy[i]));
		fx_say(&heavy[i], 9000 * (i + 1), 3000, 0);
		r = fx_request(&heavy[i]);
		assert_int_not_equal(fx_assign(&f, &r, &t[i]), busy);
	}
	for (i = 0; i < 3; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* GPUs of different speed under the same count of requests: r is learned, the slow node gets less. */
static void slow_node_gets_less(void **state)
{
	struct fx f = { 0 };
	uint32_t i, count[4] = { 0 };

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	for (i = 0; i < 600; i++) {
		struct route_ticket t = { 0 };
		static struct fx_prompt p;
		struct route_request r;
		struct route_plan plan;

		memset(&p, 0, sizeof(p));
		fx_say(&p, 1000 * i, 2000, 0);
		r = fx_request(&p);
		assert_int_equal(route_assign(f.pool, &r, f.now, &t, &plan), 0);
		if (i >= 200)
			count[plan.node]++;
		/* Node 0 takes 2.5 times what the profile says. */
		f.now += (uint64_t)(plan.ttft_ms / t.speed * (plan.node == 0 ? 2.5 : 1) * 1e6);
		route_first_token(f.pool, &t, f.now, ROUTE_TOKENS_UNKNOWN);
		route_end(f.pool, &t, f.now, ROUTE_END_OK, 100);
	}
	/* Never loaded, the fast ones take all once they are told apart. */
	assert_true(fx_status(&f, 0).speed > 1.05);
	assert_true(fx_status(&f, 1).speed < 1.02);
	assert_true(count[0] * 10 < count[1] + count[2] + count[3]);
	fx_close(&f);
}

static void retry_moves_everything(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_plan plan;
	uint32_t seen[3], i;

	fx_open(&f, ROUTE_POLICY_COST, 3, 256);
	fx_say(&p, 1, 3008, 0);
	r = fx_request(&p);
	seen[0] = fx_assign(&f, &r, &t);
	for (i = 1; i < 3; i++) {
		uint32_t slot = t.slot.slot;

		assert_int_equal(route_retry(f.pool, &t, f.now, &plan), 0);
		seen[i] = plan.node;
		assert_int_equal(t.slot.slot, slot);
		assert_int_equal(t.retries, i);
		assert_int_equal(fx_status(&f, seen[i - 1]).in_flight, 0);
		assert_int_equal(fx_status(&f, seen[i - 1]).unp, 0);
		assert_int_equal(fx_status(&f, seen[i - 1]).index_blocks, 0);
		assert_true(fx_status(&f, seen[i - 1]).work_s == 0);
		assert_int_equal(fx_status(&f, seen[i]).in_flight, 1);
		assert_int_equal(fx_status(&f, seen[i]).index_blocks, 47);
	}
	assert_true(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2]);
	assert_int_equal(route_retry(f.pool, &t, f.now, &plan), -EHOSTUNREACH);
	assert_int_equal(t.state, ROUTE_TICKET_ENDED);
	assert_int_equal(ledger_count_all(&f.ledger), 0);
	fx_close(&f);
}

/* A node that fails fast must not look fast, nor be believed to hold the prompt. */
static void failures_teach_nothing(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	enum route_outcome o;
	uint32_t node;

	fx_open(&f, ROUTE_POLICY_COST, 2, 256);
	fx_say(&p, 1, 3008, 0);
	r = fx_request(&p);
	for (o = ROUTE_END_CLIENT_GONE; o <= ROUTE_END_REFUSED; o++) {
		node = fx_assign(&f, &r, &t);
		assert_int_equal(t.match_tokens, 0);
		route_end(f.pool, &t, f.now += FX_MS, o, 0);
		assert_true(fx_status(&f, node).speed == 1.0);
		assert_int_equal(fx_status(&f, node).index_blocks, 0);
		assert_int_equal(fx_status(&f, node).prompt_tokens, 0);
	}
	/* After the first token the prompt is there, whatever becomes of the stream. */
	node = fx_assign(&f, &r, &t);
	route_first_token(f.pool, &t, f.now += 200 * FX_MS, ROUTE_TOKENS_UNKNOWN);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	assert_int_equal(fx_status(&f, node).index_blocks, 47);
	fx_close(&f);
}

/* Not streamed: no first token is seen. The work ahead goes down at the predicted time, or when a later
 * request of the node shows its first token, or at the end; r never learns from it. */
static void unseen_first_tokens(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p[3];
	struct route_request r;
	struct route_ticket t[3] = { 0 };
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	for (i = 0; i < 3; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		fx_say(&p[i], 1000 * i, 3000, 0);
	}
	r = fx_request(&p[0]);
	r.first_token_visible = false;
	fx_assign(&f, &r, &t[0]);
	assert_int_equal(fx_status(&f, 0).unp, 1);
	f.now += 100 * FX_MS;
	assert_int_equal(fx_status(&f, 0).unp, 1);
	f.now += 150 * FX_MS; /* 15 + 190.65 ms were predicted */
	assert_int_equal(fx_status(&f, 0).unp, 0);
	assert_int_equal(t[0].state, ROUTE_TICKET_DECODE);
	r = fx_request(&p[1]);
	r.first_token_visible = false;
	fx_assign(&f, &r, &t[1]);
	r = fx_request(&p[2]);
	fx_assign(&f, &r, &t[2]);
	assert_int_equal(fx_status(&f, 0).unp, 2);
	route_first_token(f.pool, &t[2], f.now += 10 * FX_MS, ROUTE_TOKENS_UNKNOWN);
	assert_int_equal(fx_status(&f, 0).unp, 0);
	assert_true(fx_status(&f, 0).work_s == 0);
	assert_int_equal(t[1].state, ROUTE_TICKET_DECODE);
	/* The head of a whole answer is no first token. */
	double speed = fx_status(&f, 0).speed;
	route_first_token(f.pool, &t[0], f.now += FX_S, ROUTE_TOKENS_UNKNOWN);
	assert_true(fx_status(&f, 0).speed == speed);
	for (i = 0; i < 3; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	assert_int_equal(fx_status(&f, 0).index_blocks, 3 * 47);
	fx_close(&f);
}

static void speed_is_learned_from_first_tokens(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	double base;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	fx_say(&p, 1, 4000, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	base = t.predicted_s;
	route_first_token(f.pool, &t, f.now += (uint64_t)(3 * base * 1e9), ROUTE_TOKENS_UNKNOWN);
	/* num = .99 x 2 + 3 base, den = .99 x 2 + base */
	assert_true(fx_status(&f, 0).speed > (1.98 + 3 * base) / (1.98 + base) - 1e-6);
	assert_true(fx_status(&f, 0).speed < (1.98 + 3 * base) / (1.98 + base) + 1e-6);
	/* A second first token changes nothing. */
	route_first_token(f.pool, &t, f.now += 60 * FX_S, ROUTE_TOKENS_UNKNOWN);
	assert_true(fx_status(&f, 0).speed < 1.3);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

/* The answer's bytes were not read; the next prompt of the conversation proves them. */
static void unread_answer_is_proven_by_the_next_prompt(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p, q;
	struct route_request r;
	struct route_ticket t = { 0 };
	uint32_t home;

	memset(&p, 0, sizeof(p));
	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	fx_say(&p, 1, 512, 0);
	fx_say(&p, 1000, 300, 0);
	r = fx_request(&p);
	home = fx_serve(&f, &r);
	/* Its 150 tokens press on the node's cache. */
	assert_int_equal(fx_status(&f, home).index_bytes, (812 + 150) * 4);
	q = p;
	fx_say(&q, 2000, 150, ROUTE_BLOCK_ASSISTANT);
	fx_say(&q, 3000, 40, 0);
	r = fx_request(&q);
	r.class_id = 1;
	assert_int_equal(fx_assign(&f, &r, &t), home);
	assert_int_equal(t.match_tokens, 812 + 150);
	/* The answer's blocks are real now, even if this request fails. */
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	assert_int_equal(fx_status(&f, home).index_bytes, (812 + 150) * 4);
	assert_int_equal(fx_status(&f, home).index_blocks, 8 + 5 + 3);
	/* A prompt that goes on otherwise gets no such credit. */
	q = p;
	fx_say(&q, 7000, 150, 0);
	r = fx_request(&q);
	fx_assign(&f, &r, &t);
	assert_int_equal(t.match_tokens, 812);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

/* Things behind the prompt (a response format) are not in the next turn's chain. */
static void trailer_does_not_hide_the_answer(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p, q;
	struct route_request r;
	struct route_ticket t = { 0 };

	memset(&p, 0, sizeof(p));
	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	fx_say(&p, 1, 600, 0);
	q = p;
	fx_say(&q, 500, 30, ROUTE_BLOCK_TRAILER);
	r = fx_request(&q);
	fx_serve(&f, &r);
	q = p;
	fx_say(&q, 2000, 150, ROUTE_BLOCK_ASSISTANT);
	fx_say(&q, 3000, 40, 0);
	r = fx_request(&q);
	fx_assign(&f, &r, &t);
	assert_int_equal(t.match_tokens, 750);
	route_end(f.pool, &t, f.now, ROUTE_END_CLIENT_GONE, 0);
	fx_close(&f);
}

static void a_read_answer_joins_the_index(void **state)
{
	struct fx f = { 0 };
	static struct fx_prompt p, q;
	struct route_request r, full;
	struct route_ticket t = { 0 };

	memset(&p, 0, sizeof(p));
	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	fx_say(&p, 1, 640, 0);
	q = p;
	fx_say(&q, 2000, 128, ROUTE_BLOCK_ASSISTANT);
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	route_first_token(f.pool, &t, f.now += 50 * FX_MS, ROUTE_TOKENS_UNKNOWN);
	full = fx_request(&q);
	route_answer(f.pool, &t, &full.chain);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 128);
	assert_int_equal(fx_status(&f, 0).index_blocks, 12);
	assert_int_equal(fx_status(&f, 0).index_bytes, 768 * 4);
	fx_close(&f);
}

static void reported_usage_is_learned(void **state)
{
	struct fx f = { .cfg = { .pi_start = 0.5 } };
	struct fx_prompt p = { 0 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_pool_status ps;
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 256);
	fx_say(&p, 1, 4000, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	/* Half of what the index does not know is hoped for on the key's own node. */
	assert_int_equal(t.match_tokens, 2000);
	route_first_token(f.pool, &t, f.now += 200 * FX_MS, 4000);
	route_usage(f.pool, &t, 3200, 3000);
	route_usage(f.pool, &t, 1, 1);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_true(ps.pi[0] > 0.5 + 0.02 * 0.5 - 1e-9 && ps.pi[0] < 0.5 + 0.02 * 0.5 + 1e-9);
	assert_true(ps.pi[1] == 0.5);
	assert_true(ps.bytes_per_token > 4.0 && ps.bytes_per_token < 5.0);
	route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	assert_int_equal(fx_status(&f, 0).hit_reported_tokens, 3000);
	assert_int_equal(fx_status(&f, 0).prompt_tokens, 3200);
	/* Answers that held nothing bring it down, slower. */
	for (i = 0; i < 200; i++) {
		memset(&p, 0, sizeof(p));
		fx_say(&p, 100 + 1000 * i, 4000, 0);
		r = fx_request(&p);
		fx_assign(&f, &r, &t);
		route_first_token(f.pool, &t, f.now += 200 * FX_MS, ROUTE_TOKENS_UNKNOWN);
		route_usage(f.pool, &t, ROUTE_TOKENS_UNKNOWN, 0);
		route_end(f.pool, &t, f.now, ROUTE_END_OK, 10);
	}
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_true(ps.pi[0] < 0.51 * 0.4 && ps.pi[0] > 0.51 * 0.3);
	fx_close(&f);
}

/* Residency reports list adapters in use only: absence is not "not loaded". */
static void adapters_are_remembered(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_snapshot_in snap = { .kv_used = -1 };
	struct route_explain_row rows[4];
	struct route_request r;
	uint32_t home, i;

	fx_open(&f, ROUTE_POLICY_COST, 4, 256);
	fx_say(&p, 1, 40, 0);
	r = fx_request(&p);
	r.adapter = "support-de";
	route_explain(f.pool, &r, f.now, rows, 4, NULL);
	assert_true(rows[0].adapter_ms > 149);
	home = fx_serve(&f, &r);
	for (i = 0; i < 4; i++)
		route_snapshot(f.pool, i, &snap, f.now);
	memset(&p, 0, sizeof(p));
	fx_say(&p, 7777, 40, 0);
	r = fx_request(&p);
	r.adapter = "support-de";
	assert_int_equal(fx_serve(&f, &r), home);
	/* Eight others since: it is gone. */
	const char *others[8] = { "1", "2", "3", "4", "5", "6", "7", "8" };
	snap.adapters = others;
	snap.n_adapters = 8;
	route_snapshot(f.pool, home, &snap, f.now);
	assert_int_equal(route_explain(f.pool, &r, f.now, rows, 4, NULL), 4);
	assert_true(rows[home].adapter_ms > 149);
	fx_close(&f);
}

static void explain_has_no_side_effects(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_explain_row rows[8], again[8];
	struct route_pool_status before, after;
	struct route_request r;
	uint32_t tokens, i, n, chosen = 0;

	fx_open(&f, ROUTE_POLICY_COST, 5, 256);
	fx_say(&p, 1, 3000, 0);
	r = fx_request(&p);
	fx_serve(&f, &r);
	route_set_drain(f.pool, "n3", true);
	route_pool_status(f.pool, f.now, &before, NULL, 0);
	n = route_explain(f.pool, &r, f.now, rows, 8, &tokens);
	assert_int_equal(n, 5);
	assert_int_equal(tokens, 3000);
	for (i = 0; i < 100; i++)
		assert_int_equal(route_explain(f.pool, &r, f.now, again, 8, NULL), 5);
	assert_memory_equal(rows, again, sizeof(rows[0]) * 5);
	route_pool_status(f.pool, f.now, &after, NULL, 0);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(ledger_count_all(&f.ledger), 0);
	for (i = 0; i < n; i++) {
		chosen += rows[i].chosen;
		if (!strcmp(rows[i].name, "n3")) {
			assert_false(rows[i].eligible);
			assert_string_equal(rows[i].why, "draining");
		} else {
			assert_true(rows[i].eligible);
			assert_true(rows[i].cost_ms >= rows[i].ttft_ms);
		}
	}
	assert_int_equal(chosen, 1);
	/* And it is what an assign then does. */
	for (i = 0; i < n && !rows[i].chosen; i++)
		;
	assert_int_equal(fx_serve(&f, &r), rows[i].node);
	fx_close(&f);
}

/* ---- caps ------------------------------------------------------------------- */

static void cap_is_hard_and_counts_strangers(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_ticket t[8] = { 0 }, more = { 0 };
	struct route_snapshot_in snap = { .waiting = 1, .running = 2, .kv_used = -1 };
	struct route_plan plan;
	struct route_pool_status ps;
	uint32_t i;

	fx_open(&f, ROUTE_POLICY_COST, 1, 4);
	route_snapshot(f.pool, 0, &snap, f.now); /* three requests came past this gateway */
	fx_assign(&f, &r, &t[0]);
	assert_int_equal(route_assign(f.pool, &r, f.now, &more, &plan), -EAGAIN);
	/* Stale is unknown, not full: own counts alone. */
	f.now += 6 * FX_S;
	for (i = 1; i < 4; i++)
		fx_assign(&f, &r, &t[i]);
	assert_int_equal(route_assign(f.pool, &r, f.now, &more, &plan), -EAGAIN);
	route_pool_status(f.pool, f.now, &ps, NULL, 0);
	assert_int_equal(ps.n_eligible, 0);
	assert_true(ps.saturation >= 1);
	assert_int_equal(ps.refused_at_cap, 2);
	for (i = 0; i < 4; i++)
		route_end(f.pool, &t[i], f.now, ROUTE_END_OK, 10);
	fx_assign(&f, &r, &more);
	route_end(f.pool, &more, f.now, ROUTE_END_OK, 10);
	fx_close(&f);
}

/* 200 ms of staleness of a one-node pool answered HTTP 500 while the engine was healthy. */
static void stale_counters_do_not_stop_a_pool_of_one(void **state)
{
	struct fx f = { 0 };
	struct route_request r = fx_request(NULL);
	struct route_snapshot_in snap = { .waiting = 300, .running = 256, .kv_used = 0.99 };

	fx_open(&f, ROUTE_POLICY_COST, 1, 4);
	route_snapshot(f.pool, 0, &snap, f.now);
	f.now += 5 * FX_S + 1;
	route_tick(f.pool, f.now);
	assert_true(fx_status(&f, 0).stale);
	assert_int_equal(fx_status(&f, 0).state, BACKEND_READY);
	assert_int_equal(fx_serve(&f, &r), 0);
	fx_close(&f);
}

#define THREADS 4

struct worker {
	struct fx *f;
	uint32_t id, served, refused, over;
};

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	static __thread struct fx_prompt p;
	struct route_ticket t[6];
	struct route_plan plan;
	uint32_t n = 0, i, seed = w->id + 1;

	memset(t, 0, sizeof(t));
	for (i = 0; i < 4000; i++) {
		struct route_request r;

		seed = seed * 1664525 + 1013904223;
		memset(&p, 0, sizeof(p));
		fx_say(&p, seed >> 28, 200, 0);
		r = fx_request(NULL); /* the chain must outlive the ticket: no key here but a placement key */
		r.placement_key = p.last;
		r.worker = w->id;
		r.first_token_visible = seed >> 20 & 1;
		if (n < 6 && seed >> 31) {
			if (route_assign(w->f->pool, &r, i, &t[n], &plan)) {
				w->refused++;
				continue;
			}
			if (ledger_in_flight(&w->f->ledger, plan.row) > 3)
				w->over++;
			n++;
		} else if (n) {
			n--;
			if (seed >> 29 & 1)
				route_first_token(w->f->pool, &t[n], i, ROUTE_TOKENS_UNKNOWN);
			if ((seed >> 27 & 3) == 0 && route_retry(w->f->pool, &t[n], i, &plan))
				continue;
			route_end(w->f->pool, &t[n], i, seed >> 25 & 3, 10);
			w->served++;
		}
	}
	while (n)
		route_end(w->f->pool, &t[--n], i, ROUTE_END_OK, 10);
	return NULL;
}

/* The cap is a promise to the operator; counters that leak or reset broke it elsewhere. */
static void caps_hold_under_threads(void **state)
{
	static struct fx f;
	struct worker w[THREADS];
	pthread_t tid[THREADS];
	uint32_t i;

	memset(&f, 0, sizeof(f));
	fx_open(&f, ROUTE_POLICY_COST, 5, 3);
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .f = &f, .id = i };
		assert_int_equal(pthread_create(&tid[i], NULL, worker_run, &w[i]), 0);
	}
	for (i = 0; i < 50; i++)
		assert_int_equal(route_check_invariants(f.pool), 0);
	for (i = 0; i < THREADS; i++) {
		pthread_join(tid[i], NULL);
		assert_int_equal(w[i].over, 0);
		assert_true(w[i].served > 500);
	}
	for (i = 0; i < 5; i++) {
		assert_int_equal(fx_status(&f, i).unp, 0);
		assert_true(fx_status(&f, i).work_s == 0);
	}
	fx_close(&f);
}

struct log {
	uint32_t n[8];
	uint64_t seq, hashes;
};

static void on_event(void *ctx, const struct route_event *ev)
{
	struct log *l = ctx;

	assert_int_equal(ev->seq, l->seq + 1);
	l->seq = ev->seq;
	l->n[ev->kind]++;
	if (ev->kind == ROUTE_EVENT_INSERT)
		l->hashes += ev->count;
	if (ev->kind == ROUTE_EVENT_DROP)
		l->hashes -= ev->count;
}

static void events_tell_all_effects(void **state)
{
	struct fx f = { 0 };
	struct fx_prompt p = { 0 };
	struct route_snapshot_in snap = { .kv_used = -1 };
	struct route_request r;
	struct route_ticket t = { 0 };
	struct log log = { .seq = 0 };

	fx_open(&f, ROUTE_POLICY_COST, 2, 256);
	log.seq = 0;
	route_pool_set_event_fn(f.pool, on_event, &log);
	fx_say(&p, 1, 3008, 0);
	r = fx_request(&p);
	fx_assign(&f, &r, &t);
	assert_int_equal(log.hashes, 47);
	route_end(f.pool, &t, f.now, ROUTE_END_BACKEND_FAILED, 0);
	assert_int_equal(log.hashes, 0);
	fx_serve(&f, &r);
	assert_int_equal(log.hashes, 47);
	route_snapshot(f.pool, 0, &snap, f.now);
	assert_int_equal(log.n[ROUTE_EVENT_ASSIGN], 2);
	assert_int_equal(log.n[ROUTE_EVENT_FIRST_TOKEN], 1);
	assert_int_equal(log.n[ROUTE_EVENT_END], 2);
	assert_int_equal(log.n[ROUTE_EVENT_DROP], 1);
	assert_int_equal(log.n[ROUTE_EVENT_SNAPSHOT], 1);
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_prefix_sticks),
		cmocka_unit_test(long_prompts_match_to_their_end),
		cmocka_unit_test(simultaneous_equal_prompts_see_each_other),
		cmocka_unit_test(cold_prefixes_go_where_load_is_least),
		cmocka_unit_test(hot_prefix_spreads),
		cmocka_unit_test(one_busy_node_leaves_affinity_of_others),
		cmocka_unit_test(slow_node_gets_less),
		cmocka_unit_test(retry_moves_everything),
		cmocka_unit_test(failures_teach_nothing),
		cmocka_unit_test(unseen_first_tokens),
		cmocka_unit_test(speed_is_learned_from_first_tokens),
		cmocka_unit_test(unread_answer_is_proven_by_the_next_prompt),
		cmocka_unit_test(trailer_does_not_hide_the_answer),
		cmocka_unit_test(a_read_answer_joins_the_index),
		cmocka_unit_test(reported_usage_is_learned),
		cmocka_unit_test(adapters_are_remembered),
		cmocka_unit_test(explain_has_no_side_effects),
		cmocka_unit_test(cap_is_hard_and_counts_strangers),
		cmocka_unit_test(stale_counters_do_not_stop_a_pool_of_one),
		cmocka_unit_test(caps_hold_under_threads),
		cmocka_unit_test(events_tell_all_effects),
	};

	return cmocka_run_group_tests_name("route/assign", tests, NULL, NULL);
}
