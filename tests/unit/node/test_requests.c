/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Adapters, aborts, resets, refused figures, and all of it at once under pressure. */
#include <errno.h>

#include "help.h"

static void two_seqs(struct node_config *c)
{
	c->max_seqs = 2;
}

/* -- adapters -- */

static void an_adapter_stalls_the_node_once(void **state)
{
	struct node *n = setup(NULL);

	submit_as(n, 1, 1, 16, 1, 7);
	assert_int_equal(step(n), 150000000 + 15000000 + 1000000 + 90);	/* 0.7 x 16 x 8 = 89.6 */
	submit_as(n, 2, 2, 16, 1, 7);
	assert_int_equal(step(n), 15000000 + 1000000 + 90);
	assert_true(node_adapter_resident(n, 7));
	assert_false(node_adapter_resident(n, 8));
	assert_int_equal(stats(n).adapter_loads, 1);
	node_free(n);
}

static void two_slots(struct node_config *c)
{
	c->adapter_slots = 2;
}

static void the_adapter_unused_longest_gives_way(void **state)
{
	struct node *n = setup(two_slots);

	for (int32_t a = 1; a <= 2; a++) {
		submit_as(n, (uint64_t)a, (uint64_t)a, 16, 1, a);
		run(n);
	}
	submit_as(n, 3, 3, 16, 1, 1);
	run(n);
	submit_as(n, 4, 4, 16, 1, 3);
	run(n);
	assert_true(node_adapter_resident(n, 1));
	assert_false(node_adapter_resident(n, 2));
	assert_true(node_adapter_resident(n, 3));
	node_free(n);
}

static void adapters_in_use_stay_and_others_pass_the_waiting(void **state)
{
	struct node *n = setup(two_slots);
	int32_t ids[4];

	submit_as(n, 1, 1, 16, 10, 1);
	submit_as(n, 2, 2, 16, 20, 2);
	submit_as(n, 3, 3, 16, 1, 3);	/* no slot */
	submit(n, 4, 4, 16, 1);		/* the base model passes it */
	step(n);
	assert_true(seen[4].finished);
	assert_int_equal(stats(n).waiting, 1);
	assert_int_equal(stats(n).waiting_deferred, 1);
	assert_int_equal(node_adapters(n, true, ids, 4), 2);
	assert_int_equal(ids[0], 1);
	assert_int_equal(ids[1], 2);
	assert_int_equal(node_adapters(n, false, ids, 4), 1);
	assert_int_equal(ids[0], 3);
	run(n);
	assert_true(seen[3].first_ns > seen[1].last_ns);
	assert_true(seen[3].first_ns < seen[2].last_ns);
	node_free(n);
}

/* -- abort, reset -- */

static void a_waiting_request_is_dropped_at_once(void **state)
{
	struct node *n = setup(two_seqs);
	uint64_t id;

	submit(n, 1, 1, 16, 3);
	submit(n, 2, 2, 16, 3);
	id = submit(n, 3, 3, 16, 3);
	step(n);
	assert_int_equal(node_abort(n, id), 0);
	assert_int_equal(stats(n).waiting, 0);
	assert_int_equal(stats(n).waiting_tokens, 0);
	assert_int_equal(node_abort(n, id), -ENOENT);
	run(n);
	assert_int_equal(seen[3].tokens, 0);
	assert_int_equal(stats(n).aborted, 1);
	node_free(n);
}

static void a_running_request_is_dropped_at_the_end_of_its_step(void **state)
{
	struct node *n = setup(NULL);
	uint64_t id = submit(n, 1, 1, 160, 10);

	assert_true(node_step_begin(n, 0, &end_ns));
	assert_int_equal(node_abort(n, id), 0);
	assert_int_equal(stats(n).running, 1);	/* the GPU computes it to the end of the step */
	assert_int_equal(end_ns, 25008960);
	step_finish(n);
	assert_int_equal(seen[1].tokens, 0);
	assert_int_equal(stats(n).running, 0);
	assert_int_equal(stats(n).blocks_pinned, 0);
	assert_int_equal(match(n, 1, 10), 160);	/* what was computed is cached */
	assert_int_equal(step(n), 0);
	node_free(n);
}

static void between_steps_an_abort_is_immediate(void **state)
{
	struct node *n = setup(NULL);
	uint64_t id = submit(n, 1, 1, 160, 10);

	submit(n, 2, 2, 16, 4);
	step(n);
	assert_int_equal(node_abort(n, id), 0);
	assert_int_equal(stats(n).running, 1);
	run(n);
	assert_int_equal(seen[1].tokens, 1);
	assert_int_equal(seen[2].tokens, 4);
	node_free(n);
}

static void ids_do_not_come_back(void **state)
{
	struct node *n = setup(NULL);
	uint64_t first = submit(n, 1, 1, 16, 1), second;

	run(n);
	second = submit(n, 2, 2, 16, 5);	/* the same entry of the table */
	assert_true(first != second);
	assert_int_equal(node_abort(n, first), -ENOENT);
	assert_int_equal(node_abort(n, 12345678), -ENOENT);
	run(n);
	assert_int_equal(seen[2].tokens, 5);
	node_free(n);
}

static void reset_forgets_all(void **state)
{
	struct node *n = setup(NULL);

	submit_as(n, 1, 1, 160, 10, 3);
	submit(n, 2, 2, 160, 10);
	step(n);
	assert_true(node_step_begin(n, now_ns, &end_ns));
	node_reset(n);
	assert_false(node_stepping(n));
	assert_int_equal(step(n), 0);
	assert_int_equal(match(n, 1, 10), 0);
	assert_false(node_adapter_resident(n, 3));
	assert_int_equal(stats(n).blocks_pinned + stats(n).blocks_cached + stats(n).running + stats(n).busy_ns, 0);
	submit(n, 3, 1, 160, 1);
	run(n);
	assert_int_equal(seen[3].cached, 0);
	assert_true(seen[3].finished);
	node_free(n);
}

static void senseless_figures_are_refused(void **state)
{
	struct node_config cfg;

	node_config_default(&cfg);
	cfg.speed = 0;
	assert_null(node_new(&cfg));
	assert_int_equal(errno, EINVAL);
	node_config_default(&cfg);
	cfg.batch_tokens = 100;	/* fewer than sequences */
	assert_null(node_new(&cfg));
	node_config_default(&cfg);
	cfg.watermark = 1;
	assert_null(node_new(&cfg));
}

static void crowded(struct node_config *c)
{
	c->kv_tokens = 16 * 120;
	c->max_seqs = 16;
	c->batch_tokens = 128;
	c->adapter_slots = 2;
}

/* Scarce blocks, slots and budget with aborts: everybody else still gets each
 * token exactly once (checked per event), and in the end nothing is pinned. */
static void nothing_is_lost_under_pressure(void **state)
{
	struct node *n = setup(crowded);
	uint64_t rng = 42, ids[MAX_REQ];
	uint32_t want[MAX_REQ], next = 0;
	bool aborted[MAX_REQ] = { 0 };

	while (next < 3000 || stats(n).running || stats(n).waiting) {
		uint32_t k;

		rng = rng * 6364136223846793005ull + 1442695040888963407ull;
		k = (uint32_t)(rng >> 33);
		if (next < 3000) {
			uint32_t prompt = 1 + k % 700;

			want[next] = 1 + k / 7 % 90;
			ids[next] = submit_as(n, next, k % 13, prompt, want[next], k % 5 ? NODE_NO_ADAPTER : (int32_t)(k % 4));
			next++;
		}
		if (node_step_begin(n, now_ns, &end_ns)) {
			if (next && k % 11 == 0 && !node_abort(n, ids[k / 3 % next]))
				aborted[k / 3 % next] = true;
			step_finish(n);
		}
	}
	for (uint32_t i = 0; i < next; i++) {
		if (aborted[i])
			continue;
		assert_true(seen[i].finished);
		assert_int_equal(seen[i].tokens, want[i]);
	}
	assert_true(stats(n).preempted > 10);
	assert_true(stats(n).aborted > 10);
	assert_int_equal(stats(n).finished + stats(n).aborted, next);
	assert_int_equal(stats(n).blocks_pinned, 0);
	assert_int_equal(stats(n).waiting_tokens, 0);
	assert_int_equal(stats(n).busy_ns, now_ns);
	node_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_adapter_stalls_the_node_once),
		cmocka_unit_test(the_adapter_unused_longest_gives_way),
		cmocka_unit_test(adapters_in_use_stay_and_others_pass_the_waiting),
		cmocka_unit_test(a_waiting_request_is_dropped_at_once),
		cmocka_unit_test(a_running_request_is_dropped_at_the_end_of_its_step),
		cmocka_unit_test(between_steps_an_abort_is_immediate),
		cmocka_unit_test(ids_do_not_come_back),
		cmocka_unit_test(reset_forgets_all),
		cmocka_unit_test(senseless_figures_are_refused),
		cmocka_unit_test(nothing_is_lost_under_pressure),
	};

	return cmocka_run_group_tests_name("node requests", tests, NULL, NULL);
}
