/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/flows.h"

#include <stdio.h>

#include "gateway/internal.h"

uint32_t gateway_flows(struct gateway *gw, uint64_t now_ns, struct gateway_flow *out, uint32_t n, uint32_t *live)
{
	const struct ledger *l = &gw->ledger;
	uint32_t written = 0;

	*live = 0;
	for (uint32_t i = 0; i < l->hdr->slots; i++) {
		const struct ledger_slot *s = &l->slots[i];
		uint64_t word = __atomic_load_n(&s->word, __ATOMIC_ACQUIRE), started_ns;
		uint32_t row = __atomic_load_n(&s->row, __ATOMIC_RELAXED);
		struct ledger_slot id = { .word = word };
		struct gateway_flow *f = &out[written];

		if (id.state == LEDGER_FREE)
			continue;
		++*live;
		if (written == n)
			continue;
		*f = (struct gateway_flow){ .slot = i,
					    .generation = id.generation,
					    .state = id.state,
					    .worker = __atomic_load_n(&s->owner, __ATOMIC_RELAXED) };
		started_ns = __atomic_load_n(&s->started_ns, __ATOMIC_RELAXED);
		f->age_ns = now_ns > started_ns ? now_ns - started_ns : 0;
		if (row < BACKENDS_MAX_ROWS) {
			snprintf(f->pool, sizeof(f->pool), "%.*s", (int)sizeof(f->pool) - 1, l->rows[row].pool);
			snprintf(f->backend, sizeof(f->backend), "%.*s", (int)sizeof(f->backend) - 1,
				 l->rows[row].name);
		}
		/* released or taken anew while it was read: what was read may be of two requests */
		if (__atomic_load_n(&s->word, __ATOMIC_ACQUIRE) == word)
			written++;
	}
	return written;
}
