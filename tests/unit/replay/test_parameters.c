/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The parameters that make figures comparable: workloads and baselines are what docs and reference say,
 * and what the generator draws is what its parameters say. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "replay/policy.h"
#include "replay/source.h"

static const struct {
	const char *name;
	enum replay_content content;
	double rate;
	uint32_t prefixes, tokens;
	double zipf, hot, question, answer;
	bool burst, mixed;
	uint32_t adapters, kv, gateways;
} table[] = {
	{ "support", REPLAY_PREFIXES, 120, 1000, 3008, .4, 0, 50, 150, 0, 0, 0, 0, 1 },
	{ "support-hi", REPLAY_PREFIXES, 200, 1000, 3008, .4, 0, 50, 150, 0, 0, 0, 0, 1 },
	{ "tight", REPLAY_PREFIXES, 120, 1350, 3008, .6, 0, 50, 150, 0, 0, 0, 0, 1 },
	{ "nofit", REPLAY_PREFIXES, 55, 4000, 3008, .9, 0, 50, 150, 0, 0, 0, 0, 1 },
	{ "long8k", REPLAY_PREFIXES, 80, 400, 8000, .4, 0, 50, 200, 0, 0, 0, 0, 1 },
	{ "chat", REPLAY_CHAT, 120, 0, 0, 0, 0, 120, 250, 0, 0, 0, 0, 1 },
	{ "mc-conv", REPLAY_TRACE, 5.1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 },
	{ "burst", REPLAY_PREFIXES, 120, 1000, 3008, .8, 0, 50, 150, 1, 0, 0, 0, 1 },
	{ "hetero", REPLAY_PREFIXES, 100, 700, 3008, .6, 0, 50, 150, 0, 1, 0, 0, 1 },
	{ "het-mc", REPLAY_TRACE, 3.4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1 },
	{ "hot40", REPLAY_PREFIXES, 130, 1000, 3008, .4, .4, 50, 150, 0, 0, 0, 0, 1 },
	{ "lora", REPLAY_PREFIXES, 50, 64, 3008, .4, 0, 50, 150, 0, 0, 32, 0, 1 },
	{ "kv200k", REPLAY_PREFIXES, 22, 300, 1008, .4, 0, 1000, 1200, 0, 0, 0, 200000, 1 },
	{ "kv300k", REPLAY_PREFIXES, 28, 300, 1008, .4, 0, 1000, 1200, 0, 0, 0, 300000, 1 },
	{ "g4-support", REPLAY_PREFIXES, 120, 1000, 3008, .4, 0, 50, 150, 0, 0, 0, 0, 4 },
	{ "g4-chat", REPLAY_CHAT, 120, 0, 0, 0, 0, 120, 250, 0, 0, 0, 0, 4 },
	{ "g4-hot40", REPLAY_PREFIXES, 130, 1000, 3008, .4, .4, 50, 150, 0, 0, 0, 0, 4 },
	{ "g4-mc-conv", REPLAY_TRACE, 5.1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4 },
	{ "g4-burst-hetero", REPLAY_PREFIXES, 80, 700, 3008, .8, 0, 50, 150, 1, 1, 0, 0, 4 },
};

static void workloads_are_those_of_the_table(void **state)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct replay_workload *w = replay_workload_find(table[i].name);

		assert_non_null(w);
		assert_int_equal(w->content, table[i].content);
		assert_true(w->rate == table[i].rate);
		assert_int_equal(w->prefixes, table[i].prefixes);
		assert_int_equal(w->prefix_tokens, table[i].tokens);
		assert_true(w->zipf == table[i].zipf);
		assert_true(w->hot_share == table[i].hot);
		assert_true(w->question == table[i].question);
		assert_true(w->answer == table[i].answer);
		assert_int_equal(w->burst, table[i].burst);
		assert_int_equal(w->mixed, table[i].mixed);
		assert_int_equal(w->adapters, table[i].adapters);
		assert_int_equal(w->kv_tokens, table[i].kv);
		assert_int_equal(w->gateways, table[i].gateways);
		assert_in_range(w->warmup_s, 60, 200);
		if (w->base) {
			assert_non_null(replay_workload_find(w->base));
			assert_int_equal(replay_workload_find(w->base)->gateways, 1);
		}
	}
	assert_null(replay_workload_find("no such workload"));
	assert_int_equal(REPLAY_NODES, 7);
	assert_int_equal(REPLAY_CHAT_SYSTEM_TOKENS, 256);
	assert_int_equal(REPLAY_CHAT_TURNS, 5);
	assert_true(REPLAY_CHAT_THINK_S == 30);
	assert_int_equal(REPLAY_EVENT_DELAY_MS, 20);
	assert_int_equal(REPLAY_LATE_MIN_MS, 100);
	assert_int_equal(REPLAY_LATE_MAX_MS, 500);
}

static void a_mixed_fleet(void **state)
{
	const struct replay_workload *w = replay_workload_find("hetero"), *even = replay_workload_find("support");

	for (uint32_t i = 0; i < REPLAY_NODES; i++) {
		assert_true(replay_node_speed(w, i) == (i < 4 ? 1 : .4));
		assert_true(replay_node_speed(even, i) == 1);
	}
}

static void baselines_by_their_published_parameters(void **state)
{
	const char *const names[] = { "round_robin", "least_request", "random", "p2c", "least_metrics", "consistent_hash",
				      "chwbl", "sglang_cache_aware", "gie_322", "dynamo_w1", "dynamo_w8", "oracle", "pool",
				      "cost", "cost_alone" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_non_null(replay_policy_find(names[i]));
	assert_int_equal(REPLAY_KEY_TOKENS, 256);
	assert_int_equal(REPLAY_RING_NODES, 100);
	assert_int_equal(REPLAY_CHWBL_NODES, 256);
	assert_true(REPLAY_CHWBL_FACTOR == 1.25);
	assert_int_equal(REPLAY_SGLANG_ABSOLUTE, 64);
	assert_true(REPLAY_SGLANG_RELATIVE == 1.5);
	assert_true(REPLAY_SGLANG_MATCH == .3);
	assert_int_equal(REPLAY_SGLANG_TOKENS, 4000000);
	assert_int_equal(REPLAY_GIE_PREFIX, 3);
	assert_int_equal(REPLAY_GIE_QUEUE, 2);
	assert_int_equal(REPLAY_GIE_KV, 2);
	assert_int_equal(REPLAY_GIE_ADAPTER, 1);
	assert_int_equal(REPLAY_GIE_BLOCK_TOKENS, 64);
	assert_int_equal(REPLAY_GIE_BLOCKS, 31250);
	assert_int_equal(REPLAY_DYNAMO_TTL_S, 120);
	assert_int_equal(replay_policy_find("dynamo_w1")->variant, 1);
	assert_int_equal(replay_policy_find("dynamo_w8")->variant, 8);
	assert_true(REPLAY_ORACLE_KAPPA == 1);
	assert_true(REPLAY_ORACLE_PHI == .02);
	assert_true(REPLAY_ORACLE_OMEGA == 1);
	assert_true(replay_policy_find("oracle")->omniscient && replay_policy_find("pool")->omniscient);
	assert_false(replay_policy_find("cost")->omniscient || replay_policy_find("gie_322")->omniscient);
	assert_true(replay_policy_find("pool")->one_cache);
	assert_false(replay_policy_find("oracle")->one_cache);
	assert_true(replay_policy_find("cost")->exchange);
	assert_false(replay_policy_find("cost_alone")->exchange);
}

static void near(const char *what, double got, double want, double by)
{
	if (!(fabs(got - want) <= by * want))
		fail_msg("%s: %g, want %g within %g %%", what, got, want, by * 100);
}

static void draws_of_hot40(void **state)
{
	const struct replay_workload *w = replay_workload_find("hot40");
	const uint32_t n = 20000;
	struct replay_source s;
	double question = 0, answer = 0, logs = 0, squares = 0;
	uint64_t at = 0;
	uint32_t hot = 0;

	assert_int_equal(replay_source_open(&s, w, w->rate, 5, NULL), 0);
	for (uint32_t i = 0; i < n; i++) {
		struct replay_talk *t = replay_source_next(&s, &at);

		replay_talk_ask(&s, t);
		assert_int_equal(t->turns, 1);
		assert_int_equal(replay_talk_think_ns(&s, t), UINT64_MAX);
		hot += t->prefix == 0;
		question += t->prompt_tokens - 3008;
		answer += t->answer_tokens;
		logs += log(t->answer_tokens);
		squares += log(t->answer_tokens) * log(t->answer_tokens);
		assert_int_equal(t->text.tokens, t->prompt_tokens + t->answer_tokens);
		assert_int_equal(t->text.blocks, t->text.tokens / NODE_BLOCK_TOKENS);
		replay_talk_free(t);
	}
	near("rate", n / (at * 1e-9), 130, .03);
	near("share of the hot prefix", (double)hot / n, .4 + .6 * .004, .05);
	near("question", question / n, 50, .03);
	near("answer", answer / n, 150, .03);
	near("sigma", sqrt(squares / n - logs / n * (logs / n)), REPLAY_SIGMA, .05);
	replay_source_close(&s);
}

static void draws_of_chat(void **state)
{
	const struct replay_workload *w = replay_workload_find("chat");
	const uint32_t n = 5000;
	struct replay_source s;
	double turns = 0, think = 0, asked = 0, user = 0, answers = 0;
	uint64_t at = 0, pause;

	assert_int_equal(replay_source_open(&s, w, w->rate, 5, NULL), 0);
	for (uint32_t i = 0; i < n; i++) {
		struct replay_talk *t = replay_source_next(&s, &at);
		uint32_t before = REPLAY_CHAT_SYSTEM_TOKENS;

		assert_int_equal(t->text.tokens, before);
		turns += t->turns;
		do {
			replay_talk_ask(&s, t);
			asked++;
			user += t->prompt_tokens - before;
			answers += t->answer_tokens;
			before = t->text.tokens;
			pause = replay_talk_think_ns(&s, t);
			think += pause == UINT64_MAX ? 0 : pause * 1e-9;
		} while (pause != UINT64_MAX);
		assert_int_equal(t->turn, t->turns);
		replay_talk_free(t);
	}
	near("conversations a second", n / (at * 1e-9), 120.0 / 5, .05);
	near("turns", turns / n, 5, .05);
	near("think time", think / (asked - n), 30, .03);
	near("user tokens", user / asked, 120, .05);
	near("answer tokens", answers / asked, 250, .05);
	replay_source_close(&s);
}

/* What the next turn repeats is the same to both sides, and what it does not repeat is not. */
static void a_turn_continues_the_one_before(void **state)
{
	const struct replay_workload *w = replay_workload_find("chat");
	struct replay_source s;
	struct replay_text before;
	struct replay_talk *t;
	uint64_t at;

	assert_int_equal(replay_source_open(&s, w, w->rate, 5, NULL), 0);
	do {
		t = replay_source_next(&s, &at);
		if (t->turns < 2)
			replay_talk_free(t);
	} while (t->turns < 2);
	replay_talk_ask(&s, t);
	assert_true(t->text.flags[t->prompt_links] & ROUTE_BLOCK_ASSISTANT);
	assert_true(t->text.flags[t->prompt_links] & ROUTE_BLOCK_MESSAGE_START);
	replay_text_copy(&before, &t->text);
	replay_talk_ask(&s, t);
	assert_memory_equal(before.block, t->text.block, before.blocks * sizeof(*before.block));
	assert_memory_equal(before.hash, t->text.hash, before.links * sizeof(*before.hash));
	assert_int_not_equal(before.hash[before.links - 1], t->text.hash[before.links]);
	replay_text_free(&before);
	replay_talk_free(t);
	replay_source_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workloads_are_those_of_the_table),
		cmocka_unit_test(a_mixed_fleet),
		cmocka_unit_test(baselines_by_their_published_parameters),
		cmocka_unit_test(draws_of_hot40),
		cmocka_unit_test(draws_of_chat),
		cmocka_unit_test(a_turn_continues_the_one_before),
	};

	return cmocka_run_group_tests_name("replay/parameters", tests, NULL, NULL);
}
