/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The backend table: one row per inference server of the fleet, all pools
 * together. Fixed layout, so that it can lie in an mmapable BPF array, outlive
 * the router process and be read by bpftool and kvsteerctl.
 *
 * `in_flight` is written by the request ledger's atomics alone and is never
 * reset: it equals the number of live ledger slots that name the row. Every
 * other field has the one writer that its comment names; "route" means the
 * holder of the lock of the row's pool. */
#ifndef KVSTEER_BACKENDS_ABI_H
#define KVSTEER_BACKENDS_ABI_H
#include <linux/types.h>

#define BACKENDS_SCHEMA 1
#define BACKENDS_MAX_ROWS 1024
#define BACKEND_NAME_BYTES 128
#define BACKEND_ADDRESS_BYTES 128
#define BACKEND_POOL_BYTES 128
#define BACKEND_UNKNOWN 0xffffffffu /* an engine figure that nobody has reported, or a stale one */

enum backend_state {
	BACKEND_FREE = 0, /* the row is unused */
	BACKEND_READY = 1,
	BACKEND_DRAINING = 2, /* by the operator; reversible */
	BACKEND_EXCLUDED = 3, /* failed lately; always with an expiry */
	BACKEND_GONE = 4, /* left the configuration, requests still running */
	BACKEND_PROBING = 5, /* its exclusion is over, one request at a time shows whether it works again */
	BACKEND_UNRESOLVED = 6, /* its host name has no address: it gets no request */
};

struct backend_row {
	char name[BACKEND_NAME_BYTES]; /* stable id, NUL padded. Writer: route, at configuration */
	char address[BACKEND_ADDRESS_BYTES]; /* host:port as text. Writer: route, at configuration */
	char pool[BACKEND_POOL_BYTES]; /* pool's name. Writer: route, at configuration */
	__u32 state; /* enum backend_state. Writer: route */
	__u32 epoch; /* raised when what is known of the node's cache became void. Writer: route */
	__u32 cap; /* hard limit of in_flight, requests. Writer: route, at configuration */
	__u32 in_flight; /* live ledger slots of this row, requests. Writer: the ledger's atomics */
	__u32 waiting; /* engine's queue, requests, or BACKEND_UNKNOWN. Writer: route (snapshot) */
	__u32 running; /* engine's running batch, requests, or BACKEND_UNKNOWN. Writer: route (snapshot) */
	__u32 kv_permille; /* KV cache in use, 1/1000, or BACKEND_UNKNOWN. Writer: route (snapshot) */
	__u32 speed_permille; /* learned r, observed over predicted time, 1/1000. Writer: route (first token) */
	__u32 stale; /* 1: the engine's figures are older than allowed. Writer: route (snapshot, tick) */
	__u32 index_blocks; /* prefix blocks that the node is believed to hold. Writer: route */
	__u64 snapshot_ns; /* CLOCK_MONOTONIC of the last snapshot, 0 never. Writer: route (snapshot) */
	__u64 excluded_until_ns; /* CLOCK_MONOTONIC, 0 not excluded. Writer: route (node result) */
	__u64 requests; /* assigned since the row was claimed. Writer: route (commit) */
	__u64 hit_predicted_tokens; /* sum over answered requests. Writer: route (end) */
	__u64 hit_reported_tokens; /* sum as engines reported it. Writer: route (usage) */
	__u64 prompt_tokens; /* sum over answered requests. Writer: route (end) */
	__u64 sampled_prompt_tokens; /* of it, of answers whose usage was read. Writer: route (usage) */
	__u64 reserved[5]; /* zero; for reports of later schemas */
};

#ifndef __bpf__
_Static_assert(sizeof(struct backend_row) == 3 * 128 + 10 * 4 + 12 * 8, "backend_row layout");
_Static_assert(sizeof(struct backend_row) % 8 == 0, "backend_row alignment");
#endif
#endif
