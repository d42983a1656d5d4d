/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/agenda.h"

#include <stdbool.h>

#include "replay/must.h"

static bool before(const struct replay_due *a, const struct replay_due *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->serial < b->serial;
}

void replay_agenda_add(struct replay_agenda *a, uint64_t at_ns, void *what)
{
	struct replay_due d = { at_ns, a->serial++, what };
	uint32_t i = a->n;

	if (a->n == a->room)
		a->heap = must_grow(a->heap, &a->room, sizeof(*a->heap));
	a->n++;
	for (; i && before(&d, &a->heap[(i - 1) / 2]); i = (i - 1) / 2)
		a->heap[i] = a->heap[(i - 1) / 2];
	a->heap[i] = d;
}

uint64_t replay_agenda_next_ns(const struct replay_agenda *a)
{
	return a->n ? a->heap[0].at_ns : UINT64_MAX;
}

void *replay_agenda_take(struct replay_agenda *a)
{
	struct replay_due last;
	uint32_t i = 0, child;
	void *what;

	if (!a->n)
		return NULL;
	what = a->heap[0].what;
	last = a->heap[--a->n];
	while ((child = 2 * i + 1) < a->n) {
		if (child + 1 < a->n && before(&a->heap[child + 1], &a->heap[child]))
			child++;
		if (!before(&a->heap[child], &last))
			break;
		a->heap[i] = a->heap[child];
		i = child;
	}
	a->heap[i] = last;
	return what;
}
