/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The process's own figures against what a test can see of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "control/process.h"

static void test_figures_move(void **state)
{
	const size_t bytes = 64u << 20;
	struct process_figures a, b;
	int fd[3];
	volatile char *mem;

	prctl(PR_SET_NAME, "a) S 1 2"); /* what a parser of stat might stumble over */
	process_read(&a);
	assert_in_range(a.resident_bytes, 100000, a.virtual_bytes);
	assert_true(a.open_fds >= 3 && a.open_fds < a.max_fds);
	assert_true(a.start_s <= (double)time(NULL) + 1 && a.start_s > (double)time(NULL) - 600);
	for (int i = 0; i < 3; i++)
		fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	mem = malloc(bytes);
	for (size_t i = 0; i < bytes; i++)
		mem[i] = (char)i;
	process_read(&b);
	assert_int_equal(b.open_fds, a.open_fds + 3);
	assert_true(b.resident_bytes >= a.resident_bytes + bytes * 9 / 10);
	assert_true(b.cpu_s > a.cpu_s && b.cpu_s < a.cpu_s + 60);
	assert_true(b.start_s - a.start_s < 1 && a.start_s - b.start_s < 1);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	free((void *)mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_figures_move) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
