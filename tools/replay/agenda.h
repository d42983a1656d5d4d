/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is due at a time: a heap; equal times come out in the order in which they went in. */
#ifndef KVSTEER_REPLAY_AGENDA_H
#define KVSTEER_REPLAY_AGENDA_H
#include <stdint.h>

struct replay_due {
	uint64_t at_ns, serial;
	void *what;
};

struct replay_agenda {
	struct replay_due *heap;
	uint32_t n, room;
	uint64_t serial;
};

void replay_agenda_add(struct replay_agenda *a, uint64_t at_ns, void *what);
/* UINT64_MAX: nothing is due. */
uint64_t replay_agenda_next_ns(const struct replay_agenda *a);
/* The first one, or NULL. */
void *replay_agenda_take(struct replay_agenda *a);
#endif
