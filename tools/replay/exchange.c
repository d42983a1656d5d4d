/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/exchange.h"

#include "replay/must.h"

struct letter {
	struct letter *next;
	uint64_t due_ns;
	uint32_t from;
	struct route_event ev;
	uint64_t hash[];
};

struct replay_exchange {
	struct letter *first, *last;
};

struct replay_exchange *replay_exchange_new(void)
{
	return must_calloc(1, sizeof(struct replay_exchange));
}

void replay_exchange_free(struct replay_exchange *x)
{
	while (x->first) {
		struct letter *l = x->first;

		x->first = l->next;
		free(l);
	}
	free(x);
}

void replay_exchange_send(struct replay_exchange *x, uint32_t gateway, const struct route_event *ev)
{
	uint32_t n = ev->hash ? ev->count : 0;
	struct letter *l = must(malloc(sizeof(*l) + n * (sizeof(uint64_t) + sizeof(uint16_t))));

	l->next = NULL;
	l->due_ns = ev->now_ns + REPLAY_EVENT_DELAY_MS * 1000000ull;
	l->from = gateway;
	l->ev = *ev;
	l->ev.hash = NULL;
	l->ev.bytes = NULL;
	if (n) {
		memcpy(l->hash, ev->hash, n * sizeof(uint64_t));
		l->ev.hash = l->hash;
		if (ev->bytes)
			l->ev.bytes = memcpy(l->hash + n, ev->bytes, n * sizeof(uint16_t));
	}
	*(x->first ? &x->last->next : &x->first) = l;
	x->last = l;
}

uint64_t replay_exchange_next_ns(const struct replay_exchange *x)
{
	return x->first ? x->first->due_ns : UINT64_MAX;
}

void replay_exchange_deliver(struct replay_exchange *x, struct replay_gateway *g, uint32_t gateways)
{
	struct letter *l = x->first;

	x->first = l->next;
	for (uint32_t i = 0; i < gateways; i++)
		if (i != l->from)
			replay_route_apply(&g[i], l->from, &l->ev, l->due_ns);
	free(l);
}
