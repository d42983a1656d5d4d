/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The command line of kvsteer-gpusim, and the schedule of faults. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpusim/options.h"

#define S 1000000000ull

/* Parses a line of words. */
static int parse(struct sim_options *o, const char *line, char err[512])
{
	static char copy[1024];
	char *argv[64] = { "kvsteer-gpusim" };
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	argv[argc] = NULL;
	return sim_options_parse(o, argc, argv, err, 512);
}

static void defaults(void **state)
{
	struct sim_options o;
	char err[512];

	assert_int_equal(parse(&o, "--model m", err), 0);
	assert_int_equal(o.nodes, 1);
	assert_int_equal(o.port, 9001);
	assert_int_equal(o.kv_tokens, 640000);
	assert_int_equal(o.max_seqs, 256);
	assert_int_equal(o.max_queued, 0);
	assert_true(o.time_scale == 1 && o.speed[0] == 1 && o.speed[SIM_MAX_NODES - 1] == 1);
	sim_options_free(&o);
}

static void every_flag(void **state)
{
	struct sim_options o;
	char err[512];

	assert_int_equal(parse(&o, "--nodes 7 --port=9100 --model m --adapters a,b --speed 1,1,.4 --kv-tokens 200000 "
			       "--time-scale 2 --seed 5 --max-seqs 8 --max-queued 4 --fault 6:byte --fault 0:stall@1.5+2", err), 0);
	assert_int_equal(o.nodes, 7);
	assert_int_equal(o.port, 9100);
	assert_int_equal(o.adapters, 2);
	assert_string_equal(o.adapter[1], "b");
	assert_true(o.speed[1] == 1 && o.speed[2] == .4 && o.speed[6] == .4);
	assert_int_equal(o.kv_tokens, 200000);
	assert_true(o.time_scale == 2);
	assert_int_equal(o.seed, 5);
	assert_int_equal(o.max_seqs, 8);
	assert_int_equal(o.max_queued, 4);
	assert_int_equal(o.faults, 2);
	assert_int_equal(o.fault[1].kind, SIM_FAULT_STALL);
	assert_int_equal(o.fault[1].start_ns, 1500000000);
	assert_int_equal(o.fault[1].end_ns, 3500000000);
	sim_options_free(&o);
}

/* A wrong line is refused with a message that names what was given. */
static void wrong_lines(void **state)
{
	static const char *const rows[][2] = {
		{ "", "--model" },
		{ "--model", "--model" },
		{ "--model m --nodes 0", "\"0\"" },
		{ "--model m --nodes 257", "\"257\"" },
		{ "--model m --nodes 1.5", "\"1.5\"" },
		{ "--model m --nodes x", "\"x\"" },
		{ "--model m --port 65536", "\"65536\"" },
		{ "--model m --port 65530 --nodes 7", "65535" },
		{ "--model m --adapters a,,b", "\"a,,b\"" },
		{ "--model m --adapters a,a", "\"a,a\"" },
		{ "--model m --adapters m", "\"m\"" },
		{ "--model m --speed 0", "\"0\"" },
		{ "--model m --speed 1,", "\"1,\"" },
		{ "--model m --speed nan", "\"nan\"" },
		{ "--model m --kv-tokens 10", "\"10\"" },
		{ "--model m --time-scale -1", "\"-1\"" },
		{ "--model m --max-seqs 0", "\"0\"" },
		{ "--model m --fault 1:hang", "node 1" },
		{ "--model m --fault hang", "\"hang\"" },
		{ "--model m --fault 0:hung", "busy-stream" },	/* the kinds are listed */
		{ "--model m --fault 0:hang@x", "\"0:hang@x\"" },
		{ "--model m --fault 0:hang@1+", "\"0:hang@1+\"" },
		{ "--model m --fault -1:hang", "\"-1:hang\"" },
		{ "--model m --bogus 1", "--bogus" },
		{ "m", "\"m\"" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_options o;
		char err[512] = "";

		assert_int_equal(parse(&o, rows[i][0], err), -EINVAL);
		if (!strstr(err, rows[i][1])) {
			print_error("%s: \"%s\" does not name %s\n", rows[i][0], err, rows[i][1]);
			fail();
		}
		sim_options_free(&o);
	}
}

static void every_kind_by_name(void **state)
{
	static const char *const kinds[SIM_FAULT_KINDS] = {
		"refuse", "hang", "reset", "5xx", "slow-metrics", "byte", "busy", "busy-stream", "loading", "stall", "restart",
	};

	for (int i = 0; i < SIM_FAULT_KINDS; i++) {
		struct sim_fault f;
		char spec[64], err[256];

		snprintf(spec, sizeof(spec), "3:%s@2", kinds[i]);
		assert_int_equal(sim_fault_parse(&f, spec, err, sizeof(err)), 0);
		assert_int_equal(f.node, 3);
		assert_int_equal(f.kind, i);
		assert_int_equal(f.start_ns, 2 * S);
		/* a restart without a duration is over at once, others stay */
		assert_true(f.end_ns == (i == SIM_FAULT_RESTART ? 2 * S : UINT64_MAX));
	}
}

static void faults_begin_and_end_on_time(void **state)
{
	struct sim_options o;
	char err[512];
	uint64_t t = 0;

	assert_int_equal(parse(&o, "--model m --nodes 2 --fault 0:busy@1+2 --fault 0:byte@2 --fault 1:hang", err), 0);
	assert_int_equal(sim_faults_at(&o, 0, 0), 0);
	assert_int_equal(sim_faults_at(&o, 1, 0), 1 << SIM_FAULT_HANG);
	assert_int_equal(sim_faults_at(&o, 0, 1 * S), 1 << SIM_FAULT_BUSY);
	assert_int_equal(sim_faults_at(&o, 0, 2 * S), 1 << SIM_FAULT_BUSY | 1 << SIM_FAULT_BYTE);
	assert_int_equal(sim_faults_at(&o, 0, 3 * S), 1 << SIM_FAULT_BYTE);
	for (uint64_t want = 1; want <= 3; want++) {
		t = sim_faults_next(&o, t);
		assert_int_equal(t, want * S);
	}
	assert_true(sim_faults_next(&o, t) == UINT64_MAX);
	sim_options_free(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_flag),
		cmocka_unit_test(wrong_lines),
		cmocka_unit_test(every_kind_by_name),
		cmocka_unit_test(faults_begin_and_end_on_time),
	};

	return cmocka_run_group_tests_name("gpusim options", tests, NULL, NULL);
}
