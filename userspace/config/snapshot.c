/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The life of a snapshot. */
#include <stdatomic.h>
#include <stdlib.h>

#include "config/load.h"

struct config_box {
	struct config cfg; /* first: a config is its box */
	atomic_uint refs;
	struct arena arena;
};

struct config *config_alloc(struct arena **arena)
{
	struct config_box *box = calloc(1, sizeof(*box));

	if (!box)
		return NULL;
	atomic_init(&box->refs, 1);
	*arena = &box->arena;
	return &box->cfg;
}

struct config *config_ref(struct config *cfg)
{
	if (cfg)
		atomic_fetch_add_explicit(&((struct config_box *)cfg)->refs, 1, memory_order_relaxed);
	return cfg;
}

void config_unref(struct config *cfg)
{
	struct config_box *box = (struct config_box *)cfg;

	/* acquire-release: the thread that frees has seen what the others did before */
	if (!box || atomic_fetch_sub_explicit(&box->refs, 1, memory_order_acq_rel) != 1)
		return;
	arena_free(&box->arena);
	free(box);
}
