/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What one gateway's pool learns from another one's events. */
#include <errno.h>

#include "fixture.h"

/* Two gateways of the same two nodes; what the first one does reaches the second one at once. */
struct pair {
	struct fx a, b;
	struct route_peer *peer; /* of b: a */
};

static void on_event(void *ctx, const struct route_event *ev)
{
	struct pair *p = ctx;

	route_peer_apply(p->peer, ev, ev->node, p->b.now);
}

static void pair_open(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	fx_open(&p->a, ROUTE_POLICY_COST, 2, 64);
	fx_open(&p->b, ROUTE_POLICY_COST, 2, 64);
	assert_int_equal(route_peer_open(p->b.pool, &p->peer, 16), 0);
	route_pool_set_event_fn(p->a.pool, on_event, p);
}

static void pair_close(struct pair *p)
{
	route_peer_close(p->peer);
	fx_close(&p->b);
	fx_close(&p->a);
}

static uint32_t match(struct fx *f, const struct route_request *r, uint32_t node)
{
	struct route_explain_row row[2];

	assert_int_equal(route_explain(f->pool, r, f->now, row, 2, NULL), 2);
	return row[node].match_tokens;
}

static double cost(struct fx *f, const struct route_request *r, uint32_t node)
{
	struct route_explain_row row[2];

	assert_int_equal(route_explain(f->pool, r, f->now, row, 2, NULL), 2);
	return row[node].cost_ms;
}

static void a_prefix_is_known_where_the_other_one_sent_it(void **state)
{
	static struct fx_prompt prompt;
	struct pair p;
	struct route_request r;
	struct route_ticket t = { 0 }, mine = { 0 };
	uint32_t node;

	memset(&prompt, 0, sizeof(prompt));
	fx_say(&prompt, 1, 3000, 0);
	r = fx_request(&prompt);
	pair_open(&p);
	node = fx_assign(&p.a, &r, &t);
	assert_int_equal(match(&p.b, &r, node), 3000);
	assert_int_equal(match(&p.b, &r, !node), 0);
	assert_int_equal(fx_assign(&p.b, &r, &mine), node);
	route_end(p.b.pool, &mine, p.b.now, ROUTE_END_OK, 10);
	route_end(p.a.pool, &t, p.a.now, ROUTE_END_OK, 10);
	pair_close(&p);
}

static void its_work_ahead_counts_until_the_first_token(void **state)
{
	static struct fx_prompt prompt, other;
	struct pair p;
	struct route_request r, o;
	struct route_ticket t = { 0 };
	double idle, busy;
	uint32_t node;

	memset(&prompt, 0, sizeof(prompt));
	memset(&other, 0, sizeof(other));
	fx_say(&prompt, 1, 3000, 0);
	fx_say(&other, 2, 3000, 0);
	r = fx_request(&prompt);
	o = fx_request(&other);
	pair_open(&p);
	idle = cost(&p.b, &o, 0);
	node = fx_assign(&p.a, &r, &t);
	busy = cost(&p.b, &o, node);
	/* Behind 190 ms of prefill, and recomputing there has a price. */
	assert_true(busy > idle + 190);
	assert_int_equal(fx_status(&p.b, node).unp, 1);
	p.b.now += FX_S;
	route_first_token(p.a.pool, &t, p.b.now, ROUTE_TOKENS_UNKNOWN);
	assert_int_equal(fx_status(&p.b, node).unp, 0);
	/* It decodes: a step's time and the price of slowing it, no more. */
	assert_true(cost(&p.b, &o, node) < idle + 30);
	assert_true(cost(&p.b, &o, node) > cost(&p.b, &o, !node));
	route_end(p.a.pool, &t, p.b.now, ROUTE_END_OK, 10);
	assert_true(cost(&p.b, &o, node) < idle + 1e-6);
	pair_close(&p);
}

static void what_failed_is_taken_back(void **state)
{
	static struct fx_prompt prompt;
	struct pair p;
	struct route_request r;
	struct route_ticket t = { 0 };
	struct route_plan plan;
	uint32_t node;

	memset(&prompt, 0, sizeof(prompt));
	fx_say(&prompt, 1, 3000, 0);
	r = fx_request(&prompt);
	pair_open(&p);
	node = fx_assign(&p.a, &r, &t);
	assert_int_equal(route_retry(p.a.pool, &t, p.a.now, &plan), 0);
	assert_int_equal(plan.node, !node);
	assert_int_equal(match(&p.b, &r, node), 0);
	assert_int_equal(match(&p.b, &r, !node), 3000);
	assert_int_equal(fx_status(&p.b, node).unp, 0);
	assert_int_equal(fx_status(&p.b, !node).unp, 1);
	route_end(p.a.pool, &t, p.a.now, ROUTE_END_BACKEND_FAILED, 0);
	assert_int_equal(match(&p.b, &r, !node), 0);
	pair_close(&p);
}

/* The unread answer of one gateway, proven by the next turn through the other. */
static void a_conversation_goes_on_through_the_other_gateway(void **state)
{
	static struct fx_prompt prompt;
	struct pair p;
	struct route_request r;
	struct route_ticket t = { 0 };
	uint32_t node;

	memset(&prompt, 0, sizeof(prompt));
	fx_say(&prompt, 1, 1000, 0);
	r = fx_request(&prompt);
	pair_open(&p);
	node = fx_assign(&p.a, &r, &t);
	route_first_token(p.a.pool, &t, p.a.now + FX_S, ROUTE_TOKENS_UNKNOWN);
	route_end(p.a.pool, &t, p.a.now + FX_S, ROUTE_END_OK, 200);
	fx_say(&prompt, 1000, 200, ROUTE_BLOCK_ASSISTANT);
	fx_say(&prompt, 2000, 100, 0);
	r = fx_request(&prompt);
	assert_int_equal(match(&p.b, &r, node), 1200);
	pair_close(&p);
}

static void a_restart_empties_the_node_here_too(void **state)
{
	const struct route_snapshot_in restarted = { .kv_used = -1, .restarted = true };
	static struct fx_prompt prompt;
	struct pair p;
	struct route_request r;
	uint32_t node;

	memset(&prompt, 0, sizeof(prompt));
	fx_say(&prompt, 1, 3000, 0);
	r = fx_request(&prompt);
	pair_open(&p);
	node = fx_serve(&p.a, &r);
	assert_int_equal(match(&p.b, &r, node), 3000);
	assert_int_equal(route_snapshot(p.a.pool, node, &restarted, p.a.now), 0);
	assert_int_equal(match(&p.b, &r, node), 0);
	pair_close(&p);
}

/* Its requests take room below a cap, and their number here is bounded. */
static void cap_and_bound(void **state)
{
	static struct fx_prompt prompt;
	struct route_ticket t[40], mine = { 0 };
	struct route_plan plan;
	struct pair p;
	struct route_request r;
	uint32_t i;

	memset(t, 0, sizeof(t));
	memset(&prompt, 0, sizeof(prompt));
	fx_say(&prompt, 1, 100, 0);
	r = fx_request(&prompt);
	pair_open(&p);
	p.b.cfg.cap = 8;
	assert_int_equal(route_pool_update(p.b.pool, &p.b.cfg), 0);
	p.a.cfg.policy = ROUTE_POLICY_ROUND_ROBIN;
	assert_int_equal(route_pool_update(p.a.pool, &p.a.cfg), 0);
	for (i = 0; i < 40; i++)
		fx_assign(&p.a, &r, &t[i]);
	assert_int_equal(fx_status(&p.b, 0).unp, 8);
	assert_int_equal(fx_status(&p.b, 1).unp, 8);
	assert_int_equal(route_assign(p.b.pool, &r, p.b.now, &mine, &plan), -EAGAIN);
	for (i = 0; i < 40; i++)
		route_end(p.a.pool, &t[i], p.a.now, ROUTE_END_CLIENT_GONE, 0);
	assert_int_equal(fx_status(&p.b, 0).unp + fx_status(&p.b, 1).unp, 0);
	assert_int_equal(route_assign(p.b.pool, &r, p.b.now, &mine, &plan), 0);
	route_end(p.b.pool, &mine, p.b.now, ROUTE_END_OK, 1);
	pair_close(&p);
}

/* A peer that dies takes its requests along; the backend that it used last can leave. */
static void a_peer_that_is_gone(void **state)
{
	static struct fx_prompt prompt;
	struct pair p;
	struct route_request r;
	struct route_ticket t = { 0 };
	uint32_t node;

	memset(&prompt, 0, sizeof(prompt));
	fx_say(&prompt, 1, 3000, 0);
	r = fx_request(&prompt);
	pair_open(&p);
	node = fx_assign(&p.a, &r, &t);
	assert_int_equal(fx_status(&p.b, node).unp, 1);
	route_pool_set_event_fn(p.a.pool, NULL, NULL);
	route_peer_close(p.peer);
	assert_int_equal(fx_status(&p.b, node).unp, 0);
	assert_int_equal(route_peer_open(p.b.pool, &p.peer, 16), 0);
	route_end(p.a.pool, &t, p.a.now, ROUTE_END_OK, 1);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prefix_is_known_where_the_other_one_sent_it),
		cmocka_unit_test(its_work_ahead_counts_until_the_first_token),
		cmocka_unit_test(what_failed_is_taken_back),
		cmocka_unit_test(a_conversation_goes_on_through_the_other_gateway),
		cmocka_unit_test(a_restart_empties_the_node_here_too),
		cmocka_unit_test(cap_and_bound),
		cmocka_unit_test(a_peer_that_is_gone),
	};

	return cmocka_run_group_tests_name("route/peer", tests, NULL, NULL);
}
