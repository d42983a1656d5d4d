/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Time, cache and admission: the statements of tools/node/node.h, with figures by hand. */
#include <errno.h>

#include "help.h"

/* -- time -- */

static void step_formula_by_hand(void **state)
{
	struct node *n = setup(NULL);

	submit(n, 1, 1, 160, 3);
	/* 15 ms + 160 x 62.5 us + 0.7 ns x 160 x 80 */
	assert_int_equal(step(n), 15000000 + 10000000 + 8960);
	/* 15 ms + 35 us + 161 (then 162) x 17.8 ns */
	assert_int_equal(step(n), 15000000 + 35000 + 2866);
	assert_int_equal(step(n), 15000000 + 35000 + 2884);
	assert_true(seen[1].finished);
	assert_int_equal(seen[1].tokens, 3);
	assert_int_equal(seen[1].first_ns, 25008960);
	assert_int_equal(step(n), 0);
	assert_int_equal(stats(n).busy_ns, now_ns);
	node_free(n);
}

static void slow(struct node_config *c)
{
	c->speed = 0.4;
}

static void speed_divides_the_step(void **state)
{
	struct node *n = setup(slow);

	submit(n, 1, 1, 160, 1);
	assert_int_equal(step(n), 62522400);	/* 25.00896 ms / 0.4 */
	node_free(n);
}

static void decodes_and_prefill_share_a_step(void **state)
{
	struct node *n = setup(NULL);

	submit(n, 1, 1, 160, 10);
	step(n);
	submit(n, 2, 2, 320, 10);
	/* one decode at context 161 and 320 tokens of prefill */
	assert_int_equal(step(n), 15000000 + 35000 + 2866 + 20000000 + 35840);
	assert_int_equal(seen[1].tokens, 2);
	assert_int_equal(seen[2].tokens, 1);
	node_free(n);
}

/* -- cache -- */

static void a_repeated_prompt_computes_its_last_block_only(void **state)
{
	struct node *n = setup(NULL);

	submit(n, 1, 1, 160, 1);
	run(n);
	submit(n, 2, 1, 160, 1);
	/* 160 tokens are 10 blocks, but the last token is computed: 9 blocks hit. 16 tokens at context 144. */
	assert_int_equal(step(n), 15000000 + 1000000 + 1702);	/* 0.7 x 16 x 152 = 1702.4 */
	assert_int_equal(seen[1].cached, 0);
	assert_int_equal(seen[2].cached, 144);
	assert_int_equal(stats(n).query_tokens, 320);
	assert_int_equal(stats(n).hit_tokens, 144);
	node_free(n);
}

static void a_prompt_one_token_longer_hits_all_blocks(void **state)
{
	struct node *n = setup(NULL);

	submit(n, 1, 1, 160, 1);
	run(n);
	submit(n, 2, 1, 161, 1);
	assert_int_equal(step(n), 15000000 + 62500 + 112);	/* 1 token: 0.7 x 160.5 */
	assert_int_equal(seen[2].cached, 160);
	node_free(n);
}

static void a_block_can_be_hit_when_its_step_has_ended(void **state)
{
	struct node *n = setup(NULL);

	submit(n, 1, 1, 160, 100);
	step(n);
	submit(n, 2, 1, 161, 1);	/* the first request still decodes */
	step(n);
	assert_false(seen[1].finished);
	assert_int_equal(seen[2].cached, 160);
	node_free(n);
}

static void two_at_once_compute_a_copy_each(void **state)
{
	struct node *n = setup(NULL);

	submit(n, 1, 1, 160, 1);
	submit(n, 2, 1, 160, 1);
	assert_int_equal(step(n), 15000000 + 20000000 + 2 * 8960);
	assert_int_equal(seen[1].cached + seen[2].cached, 0);
	assert_int_equal(stats(n).blocks_cached, 20);
	assert_int_equal(match(n, 1, 10), 160);
	node_free(n);
}

static void answers_are_cached(void **state)
{
	struct node *n = setup(NULL);

	submit(n, 1, 1, 32, 33);
	run(n);
	/* Of 65 tokens the last was never computed: 64 are 4 blocks. */
	assert_int_equal(match(n, 1, 5), 64);
	submit(n, 2, 1, 100, 1);
	run(n);
	assert_int_equal(seen[2].cached, 64);
	node_free(n);
}

static void ten_blocks(struct node_config *c)
{
	c->kv_tokens = 160;
	c->watermark = 0;
}

static void eviction_takes_the_tail_of_the_oldest_chain(void **state)
{
	struct node *n = setup(ten_blocks);

	submit(n, 1, 1, 64, 1);
	run(n);
	submit(n, 2, 2, 64, 1);
	run(n);
	submit(n, 3, 3, 64, 1);	/* 2 blocks are empty, 2 are evicted */
	run(n);
	assert_int_equal(match(n, 1, 4), 32);
	assert_int_equal(match(n, 2, 4), 64);
	assert_int_equal(match(n, 3, 4), 64);
	assert_int_equal(stats(n).evicted_blocks, 2);
	assert_int_equal(stats(n).blocks_pinned, 0);
	node_free(n);
}

static void a_hit_makes_a_chain_young_again(void **state)
{
	struct node *n = setup(ten_blocks);

	submit(n, 1, 1, 64, 1);
	run(n);
	submit(n, 2, 2, 64, 1);
	run(n);
	submit(n, 3, 1, 65, 1);	/* hits chain 1, takes one of the empty blocks */
	run(n);
	submit(n, 4, 4, 64, 1);
	run(n);
	assert_int_equal(match(n, 1, 4), 64);
	assert_int_equal(match(n, 2, 4), 32);
	node_free(n);
}

static void running_requests_pin_their_blocks(void **state)
{
	struct node *n = setup(ten_blocks);

	submit(n, 1, 1, 64, 60);
	step(n);
	for (uint64_t c = 2; c < 8; c++) {
		submit(n, c, c, 32, 1);
		step(n);
		assert_true(seen[c].finished);
		assert_int_equal(match(n, 1, 4), 64);
	}
	assert_false(seen[1].finished);
	node_free(n);
}

/* -- admission -- */

static void two_seqs(struct node_config *c)
{
	c->max_seqs = 2;
}

static void at_most_max_seqs_run(void **state)
{
	struct node *n = setup(two_seqs);

	for (uint64_t c = 1; c <= 3; c++)
		submit(n, c, c, 32, c == 1 ? 2 : 5);
	step(n);
	assert_int_equal(stats(n).running, 2);
	assert_int_equal(stats(n).waiting, 1);
	assert_int_equal(stats(n).waiting_tokens, 32);
	step(n);
	assert_true(seen[1].finished);
	assert_int_equal(seen[3].tokens, 0);
	step(n);
	assert_int_equal(seen[3].tokens, 1);
	node_free(n);
}

static void budget_64(struct node_config *c)
{
	c->batch_tokens = 64;
	c->max_seqs = 8;
}

static void the_budget_cuts_prefills_into_chunks(void **state)
{
	struct node *n = setup(budget_64);

	submit(n, 1, 1, 16, 100);
	step(n);
	submit(n, 2, 2, 160, 1);
	/* a decode takes one token of 64: chunks of 63, 63, 34 */
	for (int i = 0; i < 2; i++) {
		step(n);
		assert_int_equal(seen[2].tokens, 0);
		assert_int_equal(seen[1].tokens, 2 + i);
	}
	assert_int_equal(stats(n).prefill_left_tokens, 34);
	assert_int_equal(match(n, 2, 10), 112);	/* of 126 computed tokens, whole blocks */
	step(n);
	assert_int_equal(seen[2].tokens, 1);
	node_free(n);
}

static void the_chunk_context_is_its_mean(void **state)
{
	struct node *n = setup(budget_64);

	submit(n, 1, 1, 128, 1);
	assert_int_equal(step(n), 15000000 + 4000000 + 1434);	/* 0.7 x 64 x 32 = 1433.6 */
	assert_int_equal(step(n), 15000000 + 4000000 + 4301);	/* 0.7 x 64 x 96 = 4300.8 */
	node_free(n);
}

static void hundred_blocks(struct node_config *c)
{
	c->kv_tokens = 1600;	/* the watermark is one block */
}

static void the_watermark_stays_free(void **state)
{
	struct node *n = setup(hundred_blocks);

	submit(n, 1, 1, 16 * 90, 20);	/* leaves 10; it will grow by 2 */
	submit(n, 2, 2, 16 * 9, 1);	/* would leave 1: allowed */
	step(n);
	assert_int_equal(seen[2].tokens, 1);
	submit(n, 3, 3, 16 * 9, 1);	/* now the first one holds 91: 9 + 1 do not fit */
	step(n);
	assert_int_equal(stats(n).waiting, 1);
	run(n);
	assert_true(seen[1].finished && seen[3].finished);
	assert_true(seen[3].first_ns > seen[1].last_ns);
	node_free(n);
}

static void the_queue_is_first_come_first_served(void **state)
{
	struct node *n = setup(hundred_blocks);

	submit(n, 1, 1, 16 * 50, 30);
	submit(n, 2, 2, 16 * 60, 1);	/* does not fit beside the first */
	submit(n, 3, 3, 16, 1);		/* would */
	run(n);
	assert_true(seen[3].first_ns >= seen[2].first_ns);
	assert_true(seen[2].first_ns > seen[1].last_ns);
	node_free(n);
}

static void eight_blocks(struct node_config *c)
{
	c->kv_tokens = 128;
	c->watermark = 0;
}

static void the_youngest_is_preempted_and_computed_again(void **state)
{
	struct node *n = setup(eight_blocks);

	submit(n, 1, 1, 48, 40);
	submit(n, 2, 2, 48, 40);
	run(n);
	/* Both hold 4 blocks at 64 tokens; then the older one needs a fifth. */
	assert_int_equal(stats(n).preempted, 1);
	assert_int_equal(seen[1].preempted, 0);
	assert_int_equal(seen[2].preempted, 1);
	assert_int_equal(seen[1].tokens, 40);
	assert_int_equal(seen[2].tokens, 40);
	assert_true(seen[2].last_ns > seen[1].last_ns);
	assert_int_equal(stats(n).query_tokens, 96);	/* the second admission is not counted */
	assert_int_equal(stats(n).blocks_pinned, 0);
	node_free(n);
}

static void what_can_never_run_is_refused(void **state)
{
	struct node *n = setup(hundred_blocks);
	struct node_request req = { .prompt_tokens = 1500, .output_tokens = 85, .adapter = NODE_NO_ADAPTER };

	assert_int_equal(node_submit(n, &req, 0, NULL), -E2BIG);	/* 1585 > 99 blocks */
	req.output_tokens = 84;
	assert_int_equal(node_submit(n, &req, 0, NULL), 0);
	req.output_tokens = 0;
	assert_int_equal(node_submit(n, &req, 0, NULL), -EINVAL);
	run(n);
	assert_int_equal(stats(n).finished, 1);
	node_free(n);
}

static void three_requests(struct node_config *c)
{
	c->max_requests = 3;
}

static void the_queue_has_a_limit(void **state)
{
	struct node *n = setup(three_requests);
	struct node_request req = { .prompt_tokens = 16, .output_tokens = 2, .adapter = NODE_NO_ADAPTER, .cookie = 1 };

	for (int i = 0; i < 3; i++)
		submit(n, (uint64_t)i, (uint64_t)i, 16, 2);
	assert_int_equal(node_submit(n, &req, 0, NULL), -EBUSY);
	assert_int_equal(stats(n).refused, 1);
	node_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(step_formula_by_hand),
		cmocka_unit_test(speed_divides_the_step),
		cmocka_unit_test(decodes_and_prefill_share_a_step),
		cmocka_unit_test(a_repeated_prompt_computes_its_last_block_only),
		cmocka_unit_test(a_prompt_one_token_longer_hits_all_blocks),
		cmocka_unit_test(a_block_can_be_hit_when_its_step_has_ended),
		cmocka_unit_test(two_at_once_compute_a_copy_each),
		cmocka_unit_test(answers_are_cached),
		cmocka_unit_test(eviction_takes_the_tail_of_the_oldest_chain),
		cmocka_unit_test(a_hit_makes_a_chain_young_again),
		cmocka_unit_test(running_requests_pin_their_blocks),
		cmocka_unit_test(at_most_max_seqs_run),
		cmocka_unit_test(the_budget_cuts_prefills_into_chunks),
		cmocka_unit_test(the_chunk_context_is_its_mean),
		cmocka_unit_test(the_watermark_stays_free),
		cmocka_unit_test(the_queue_is_first_come_first_served),
		cmocka_unit_test(the_youngest_is_preempted_and_computed_again),
		cmocka_unit_test(what_can_never_run_is_refused),
		cmocka_unit_test(the_queue_has_a_limit),
	};

	return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
