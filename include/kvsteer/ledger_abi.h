/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The request ledger: one slot per live request, in memory that outlives the
 * router process. The one truth for "in flight".
 *
 * A slot's `state` and `generation` form one 64-bit word that changes only by
 * compare-and-swap: {FREE, g} -> {ACTIVE, g + 1} takes it, {live, g} -> {FREE, g}
 * releases it. A release that names an older generation loses the exchange,
 * so that a slot cannot be released twice, by anybody. A program of the
 * kernel may take and release slots by the same exchange.
 *
 * Order of writes that makes an adoption exact: the in_flight counter of the
 * backend row is raised before the slot becomes live and lowered after it
 * became FREE; `state` is KERNEL before a flow is armed. After a crash the
 * live slots are what is alive, and a counter that a dying process left
 * between the two writes is put right from them (ledger_recover()). */
#ifndef KVSTEER_LEDGER_ABI_H
#define KVSTEER_LEDGER_ABI_H
#include <linux/types.h>

#define LEDGER_MAGIC 0x6b766c64u /* "kvld" */
#define LEDGER_SCHEMA 1
#define LEDGER_MAX_WORKERS 64
#define LEDGER_NO_ROW 0xffffffffu
#define LEDGER_NO_SLOT 0xffffffffu

enum ledger_state {
	LEDGER_FREE = 0,
	LEDGER_ACTIVE = 1, /* the router process moves the bytes; lost with it */
	LEDGER_KERNEL = 2, /* the kernel moves the bytes; survives the router process */
	LEDGER_QUEUED = 3, /* waits for a backend: has no row, counts nowhere */
};

struct ledger_slot {
	union {
		__u64 word; /* state and generation as one word, for compare-and-swap */
		struct {
			__u32 state; /* enum ledger_state. Writer: whoever wins the exchange */
			__u32 generation; /* raised by each take. Writer: whoever wins the exchange */
		};
	};
	__u32 row; /* backend row, or LEDGER_NO_ROW. Writer: the owner */
	__u32 owner; /* worker id. Writer: the owner, at take */
	__s32 client_fd; /* descriptor number, -1 none. Writer: the owner */
	__s32 upstream_fd; /* descriptor number, -1 none. Writer: the owner */
	__u64 started_ns; /* CLOCK_MONOTONIC of the take. Writer: the owner */
	__u64 cookie; /* for the owner's own reference; zero in this version. Writer: the owner, at take */
	__u32 next_free; /* free list link. Writer: the list's exchange */
	__u32 listed; /* 1 while on a free list. Writer: whoever wins its exchange */
	__u64 reserved[2]; /* zero */
};

struct ledger_header {
	__u32 magic; /* LEDGER_MAGIC. Writer: creator */
	__u32 schema; /* LEDGER_SCHEMA. Writer: creator */
	__u32 slots; /* number of slots. Writer: creator */
	__u32 workers; /* number of free lists. Writer: creator */
	__u64 refused_releases; /* releases that lost: of a free slot or an older generation. Atomic */
	__u64 exhausted; /* takes that found no slot. Atomic */
	__u64 repaired; /* counters put right by a recovery. Atomic */
	__u64 reserved[3]; /* zero */
	/* Heads of the free lists: slot index low, a tag against ABA high. Atomic. */
	__u64 free_head[LEDGER_MAX_WORKERS];
};

#ifndef __bpf__
_Static_assert(sizeof(struct ledger_slot) == 64, "ledger_slot: one cache line");
_Static_assert(sizeof(struct ledger_header) == 64 + 8 * LEDGER_MAX_WORKERS, "ledger_header layout");
#endif
#endif
