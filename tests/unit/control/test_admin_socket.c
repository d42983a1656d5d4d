/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The admin socket's file: whose it is, who may connect, what is removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/admin_socket.h"

static char dir[64];

static int setup(void **state)
{
	strcpy(dir, "/tmp/kvsteer-test-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	return system(cmd);
}

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void test_made_with_its_directory(void **state)
{
	const char *path = in_dir("run/admin.sock");
	struct stat st;
	char err[256];
	mode_t old = umask(0);
	int fd = admin_listen_unix(path, err, sizeof(err));

	umask(old);
	assert_true(fd >= 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0660);
	close(fd);
}

/* A dead process's socket is replaced; a living one's is not taken away. */
static void test_stale_and_living(void **state)
{
	const char *path = in_dir("admin.sock");
	char err[256];
	int fd = admin_listen_unix(path, err, sizeof(err)), again;

	assert_true(fd >= 0);
	assert_int_equal(admin_listen_unix(path, err, sizeof(err)), -EADDRINUSE);
	assert_non_null(strstr(err, "Address already in use"));
	close(fd);
	again = admin_listen_unix(path, err, sizeof(err));
	assert_true(again >= 0);
	close(again);
}

static void test_other_files_stay(void **state)
{
	const char *path = in_dir("precious");
	struct stat st;
	char err[256];
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	assert_int_equal(admin_listen_unix(path, err, sizeof(err)), -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 1);
}

static void test_impossible_places(void **state)
{
	char err[256], longer[200] = "/tmp/";

	memset(longer + 5, 'x', 150);
	assert_int_equal(admin_listen_unix(longer, err, sizeof(err)), -ENAMETOOLONG);
	assert_true(admin_listen_unix("/proc/none/such/admin.sock", err, sizeof(err)) < 0);
	assert_non_null(strstr(err, "/proc/none/such"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_made_with_its_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_and_living, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_files_stay, setup, teardown),
		cmocka_unit_test_setup_teardown(test_impossible_places, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
