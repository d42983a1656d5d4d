/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Every form of a body in every pattern of packets, byte for byte through the kernel
 * path; the lost wake-up with its window held open; and that both find a program that
 * lacks the rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy.h"
#include "rig.h"

static struct engine *engine;

static void print_stats(const char *what, const struct load *l, const struct proxy_stats *st)
{
	printf("%s: %u ok, %u wrong, %u cut; kernel %llu bytes, relay %llu; %llu arms, %llu publishes (%llu late), "
	       "%llu ends, %llu takeovers by race, %llu by steps; sweep rescued %llu, lost %llu\n",
	       what, l->ok, l->wrong, l->cut, (unsigned long long)st->kernel_bytes, (unsigned long long)st->relayed_bytes,
	       (unsigned long long)st->worker.arms, (unsigned long long)st->worker.publishes,
	       (unsigned long long)st->worker.publishes_late, (unsigned long long)st->worker.ends,
	       (unsigned long long)st->worker.takeovers[SPLICE_WHY_RACE],
	       (unsigned long long)st->worker.takeovers[SPLICE_WHY_STEPS], (unsigned long long)st->worker.sweep_rescued,
	       (unsigned long long)st->kernel.lost_events);
}

static void forms_and_splits(void **state)
{
	struct proxy *p = proxy_start(&(struct proxy_opts){ .engine_port = engine_port(engine) });
	struct proxy_stats before, after;

	for (enum form form = 0; form < FORMS; form++)
		for (enum split split = 0; split < SPLITS; split++) {
			int fd = rig_connect(proxy_port(p), 0);
			static const uint32_t sizes[] = { 1, 300, 5000, 60000, 2 };

			proxy_stats(p, &before);
			for (unsigned i = 0; i < 5; i++) {
				uint32_t n = form == FORM_TINY_CHUNKS && sizes[i] > 2000 ? 2000 : sizes[i];
				enum verdict v = rig_request(fd, i == 2 ? 'R' : 'S', form, split, n, 1 + i + form * 100 + split * 10);

				if (v != RIG_OK)
					fail_msg("%s, %s, %u bytes: %s", form_name(form), split_name(split), n,
						 v == RIG_WRONG ? "wrong bytes" : "cut");
			}
			proxy_stats(p, &after);
			/* a head by itself leaves the rest to the kernel: else the table tests the relay */
			if (split == SPLIT_HEAD && after.kernel_bytes == before.kernel_bytes)
				fail_msg("%s: the kernel moved nothing", form_name(form));
			close(fd);
		}
	proxy_stats(p, &after);
	assert_int_equal(after.worker.sweep_rescued, 0);
	assert_int_equal(after.kernel.lost_events, 0);
	assert_int_equal(after.cut, 0);
	proxy_stop(p);
}

/* Many at a time, spliced and relayed answers in turn on the same connections. */
static void mixed_load(void **state)
{
	struct proxy *p = proxy_start(&(struct proxy_opts){ .engine_port = engine_port(engine) });
	struct load l = { .port = proxy_port(p), .clients = 24, .requests = 40, .payload_max = 40000, .kinds = "SSR",
			  .form = -1, .split = -1, .seed = 42 };
	struct proxy_stats st;

	load_run(&l);
	proxy_stats(p, &st);
	print_stats("mixed", &l, &st);
	assert_int_equal(l.wrong, 0);
	assert_int_equal(l.cut, 0);
	assert_int_equal(l.ok, 24 * 40);
	assert_int_equal(st.worker.sweep_rescued, 0);
	assert_true(st.kernel_bytes > 100000);
	proxy_stop(p);
}

static void run_race(const char *object, unsigned requests, struct load *l, struct proxy_stats *st)
{
	struct proxy *p = proxy_start(&(struct proxy_opts){ .engine_port = engine_port(engine), .object = object });

	*l = (struct load){ .port = proxy_port(p), .clients = 12, .requests = requests, .payload_max = 20000, .kinds = "S",
			    .form = FORM_EVENTS, .split = SPLIT_PACED, .seed = 7 };
	load_run(l);
	proxy_stats(p, st);
	print_stats(object, l, st);
	proxy_stop(p);
}

/* A packet is passed at the moment at which the daemon publishes: verdict and daemon must both
 * look again, or nobody reads it (74 of 41,000 publishes). */
static void lost_wakeup(void **state)
{
	struct proxy_stats st;
	struct load l;

	run_race("splice-race.o", 60, &l, &st);
	assert_int_equal(l.wrong + l.cut, 0);
	assert_int_equal(st.worker.sweep_rescued, 0);
	assert_true(st.worker.takeovers[SPLICE_WHY_RACE] > 0); /* the window was hit */
}

static void lost_wakeup_without_second_look(void **state)
{
	struct proxy_stats st;
	struct load l;

	run_race("mutant-no-relook.o", 30, &l, &st);
	assert_true(st.worker.sweep_rescued > 0);
}

/* A plain flag instead of the gate: bytes overtake each other. */
static void reordering_without_gate(void **state)
{
	struct proxy *p = proxy_start(&(struct proxy_opts){ .engine_port = engine_port(engine), .object = "mutant-no-gate.o" });
	struct load l = { .port = proxy_port(p), .clients = 8, .requests = 10, .payload_max = 200000, .kinds = "S",
			  .form = FORM_LENGTH, .split = SPLIT_LARGE };

	for (l.seed = 1; l.seed <= 20 && !(l.wrong + l.cut); l.seed++)
		load_run(&l);
	assert_true(l.wrong + l.cut > 0);
	proxy_stop(p);
}

static int start(void **state)
{
	engine = engine_start();
	return 0;
}

static int stop(void **state)
{
	engine_stop(engine);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_and_splits),
		cmocka_unit_test(mixed_load),
		cmocka_unit_test(lost_wakeup),
		cmocka_unit_test(lost_wakeup_without_second_look),
		cmocka_unit_test(reordering_without_gate),
	};
	struct proxy *p = proxy_start(&(struct proxy_opts){ 0 });

	if (!p)
		return 77; /* bpf() is refused: the reason was printed */
	proxy_stop(p);
	return cmocka_run_group_tests(tests, start, stop);
}
