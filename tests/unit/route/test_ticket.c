/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a request adds to the pool, and that all of it is given back on every path. */

#include <errno.h>

#include "fixture.h"

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
		cmocka_unit_test(retry_moves_everything),
		cmocka_unit_test(failures_teach_nothing),
		cmocka_unit_test(unseen_first_tokens),
		cmocka_unit_test(unread_answer_is_proven_by_the_next_prompt),
		cmocka_unit_test(trailer_does_not_hide_the_answer),
		cmocka_unit_test(a_read_answer_joins_the_index),
		cmocka_unit_test(events_tell_all_effects),
	};

	return cmocka_run_group_tests_name("route/ticket", tests, NULL, NULL);
}
