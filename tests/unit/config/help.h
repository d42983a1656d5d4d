/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef TESTS_UNIT_CONFIG_HELP_H
#define TESTS_UNIT_CONFIG_HELP_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

/* Loads text that must be good. */
static inline struct config *load_good(const char *yaml)
{
	struct config_error err;
	struct config *cfg = NULL;
	char text[1024];

	if (config_load_buffer(yaml, strlen(yaml), "t", &cfg, &err))
		fail_msg("refused: %s\n%s", config_error_text(&err, text, sizeof(text)), yaml);
	assert_non_null(cfg);
	return cfg;
}

/* Loads text that must be refused; the whole error into text. */
static inline void load_bad(const char *yaml, char *text, size_t len)
{
	struct config_error err;
	struct config *cfg = NULL;
	int r = config_load_buffer(yaml, strlen(yaml), "t", &cfg, &err);

	if (!r) {
		config_unref(cfg);
		fail_msg("accepted:\n%s", yaml);
	}
	assert_int_equal(r, -EINVAL);
	assert_null(cfg);
	config_error_text(&err, text, len);
}
#endif
