/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Configuration files. Holds: a refusal names a place and a reason; what is accepted
 * keeps the promises of config/config.h; no read is out of bounds, nothing leaks. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

static void check_pool(const struct config *cfg, const struct config_pool *p)
{
	CHECK(p->name && *p->name && p->n_backends >= 1 && p->n_backends <= CONFIG_MAX_BACKENDS);
	CHECK(p->concurrency_threshold >= 1 && p->concurrency_threshold <= 1024);
	CHECK(p->scrape.stale_ns > p->scrape.interval_ns);
	CHECK(p->any_model == (!p->models.n && !p->adapters.n && !p->n_aliases));
	for (unsigned i = 0; i < p->n_backends; i++) {
		const struct config_backend *b = &p->backends[i];

		CHECK(b->name && *b->name && b->port && *b->host && b->host_header && b->path_prefix);
		CHECK(b->concurrency_threshold >= 1 && b->concurrency_threshold <= 1024);
		/* both go into request lines and fields as they are */
		CHECK(!strpbrk(b->path_prefix, " \r\n\t") && !strpbrk(b->host_header, " \r\n\t"));
		for (unsigned k = 0; k < i; k++)
			CHECK(strcmp(b->name, p->backends[k].name));
	}
	for (unsigned i = 0; i < cfg->n_pools; i++)
		CHECK(&cfg->pools[i] == p || strcmp(cfg->pools[i].name, p->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_error err;
	struct config *cfg;
	char text[1024], *copy = malloc(size ? size : 1);
	unsigned defaults = 0, any = 0;
	int r;

	/* a copy of exactly this length, so that a sanitizer sees a read behind its end */
	memcpy(copy, data, size);
	r = config_load_buffer(copy, size, "fuzz", &cfg, &err);
	free(copy);
	if (r) {
		CHECK(r == -EINVAL && !cfg && *err.message && (err.line || size > CONFIG_MAX_FILE_BYTES));
		CHECK(!strpbrk(config_error_text(&err, text, sizeof(text)), "\r\n\033"));
		return 0;
	}
	CHECK(cfg->n_pools >= 1 && cfg->n_listeners >= 1 && cfg->limits.headers >= 8);
	CHECK(!cfg->limits.body_bytes || cfg->limits.scan_bytes <= cfg->limits.body_bytes);
	for (unsigned i = 0; i < cfg->n_pools; i++) {
		check_pool(cfg, &cfg->pools[i]);
		defaults += cfg->pools[i].is_default;
		any += cfg->pools[i].any_model;
	}
	CHECK(defaults <= 1 && any <= 1);
	config_unref(cfg);
	return 0;
}
