/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which keys of a reload wait for a restart: those that differ from the start, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "config/config.h"
#include "control/restart.h"

#define POOLS "pools:\n  - backends: [http://127.0.0.1:9001]\n"

static struct config *load(const char *yaml)
{
	struct config_error e;
	struct config *cfg;

	assert_int_equal(config_load_buffer(yaml, strlen(yaml), "t", &cfg, &e), 0);
	return cfg;
}

static void test_rows(void **state)
{
	static const struct {
		const char *yaml, *key; /* NULL: nothing needs a restart */
	} rows[] = {
		{ POOLS, NULL },
		{ "listeners: ['127.0.0.1:1']\nlog: {access: off, level: error}\nlimits: {body: 1MiB}\n" POOLS, NULL },
		{ "admin: {address: 127.0.0.1:9091}\n" POOLS, "admin.address" },
		{ "admin: {address: off}\n" POOLS, "admin.address" },
		{ "admin: {socket: off}\n" POOLS, "admin.socket" },
		{ "workers: 3\n" POOLS, "workers" },
		{ "datapath: relay\n" POOLS, "datapath" },
		{ "limits: {connections: 77}\n" POOLS, "limits.connections" },
	};
	struct config *start = load(POOLS);

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct config *now = load(rows[i].yaml);
		const char *keys[RESTART_KEYS_MAX];

		assert_int_equal(restart_keys(start, now, keys), rows[i].key ? 1 : 0);
		if (rows[i].key)
			assert_string_equal(keys[0], rows[i].key);
		config_unref(now);
	}
	config_unref(start);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
