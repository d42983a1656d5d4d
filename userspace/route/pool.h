/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A pool of backends that serve the same model, and which of them a request
 * goes to. Pure: no I/O, no clock (`now_ns` is CLOCK_MONOTONIC, handed in), no
 * globals.
 *
 * Every public function takes the pool's one lock for its whole duration:
 * decision, admission and commit are one step, so that two simultaneous equal
 * prompts see each other. Any thread may call anything; nothing blocks on I/O.
 *
 * Life of a request:
 *
 *     route_assign() -> 0
 *        route_first_token()          once, when the first token was seen
 *        route_usage()                once, if the answer's usage was read
 *        route_retry()                abnormal end here, and on to another node
 *     route_end()                     exactly once
 *
 * The ticket is the caller's memory and must stay where it is from
 * route_assign() or route_retry() = 0 until route_end(). The arrays of the chain must
 * stay valid and unchanged as long. */
#ifndef KVSTEER_ROUTE_POOL_H
#define KVSTEER_ROUTE_POOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "route/ledger.h"

#define ROUTE_MAX_NODES 256
#define ROUTE_MAX_ALTERNATES 3
#define ROUTE_MAX_ADAPTERS 256  /* distinct adapter names a pool keeps apart */
#define ROUTE_ADAPTER_BYTES 128 /* longest adapter name, with NUL */
#define ROUTE_NO_NODE 0xffffffffu
#define ROUTE_TOKENS_UNKNOWN 0xffffffffu

enum route_policy {
	ROUTE_POLICY_COST,
	ROUTE_POLICY_PREFIX_AWARE,
	ROUTE_POLICY_SESSION,
	ROUTE_POLICY_LEAST_REQUEST,
	ROUTE_POLICY_ROUND_ROBIN,
	ROUTE_POLICY_WEIGHTED,
};
/* "cost", "prefix_aware", ... ; never NULL. */
const char *route_policy_name(enum route_policy policy);

/* The node model that predictions are made with (docs: architecture). */
struct route_profile {
	double a_s;             /* fixed time of one engine step */
	double b_s;             /* per prefill token */
	double c_s;             /* per decoding sequence and step */
	double d_s;             /* per decoding context token and step */
	double e_s;             /* per prefill token x context token */
	uint32_t batch_tokens;  /* token budget of a step */
	uint32_t max_seqs;      /* sequences that run at once */
};

struct route_weights {
	double queue, kv_cache, prefix, running_requests, lora_affinity, predicted_latency;
};

struct route_backend_config {
	const char *name;       /* stable id within the pool: identity over reloads */
	const char *address;    /* text for the backend table and logs */
	uint32_t cap;           /* concurrency_threshold; 0: the pool's */
	double extra_ms;        /* priced into the cost: far clusters */
	bool unresolved;        /* it has no address: never picked, not even where all others fail */
};

/* What a pool is made from. Copied; nothing is kept of the caller's memory.
 * Zero means the default where one is given. */
struct route_pool_config {
	const char *name;
	enum route_policy policy;
	struct route_profile profile;   /* all zero: Llama-3.1-70B on 8xH100 */
	uint64_t kv_tokens;             /* of a node, until its own figure is known; 0: 640000 */
	double adapter_load_s;          /* 0: 0.150 */
	uint32_t adapter_slots;         /* adapters a node keeps loaded until its figure is known; 0: 8 */
	struct route_weights weights;   /* weighted only; all zero: 2 2 3 0 1 0 */
	uint32_t cap;                   /* concurrency_threshold of the pool, 1..; 0: 256 */
	double pi_start;                /* 0 with one gateway, .5 with gossip, .9 with several without */
	uint64_t stale_ns;              /* a snapshot older than this is unknown; 0: 5 s */
	double wait_target_s;           /* saturation = predicted wait / this; 0: 1 s */
	uint64_t index_max_bytes;       /* ceiling of the prefix index's memory; 0: 512 MiB */
	const struct route_backend_config *backends;
	uint32_t n_backends;            /* 0..ROUTE_MAX_NODES */
};

struct route_pool;

/* Makes a pool. Its rows are claimed in `ledger` (which must outlive it): a
 * row of the same pool and backend name keeps its in-flight and learned speed.
 * Returns 0, -EINVAL (names empty, too long or doubled, too many), -ENOSPC (no
 * row), -ENOMEM. */
int route_pool_create(struct route_pool **out, const struct route_pool_config *cfg, struct ledger *ledger);
/* As above, with the prefix index in `index_mem` (page aligned, shared as the
 * caller likes, its own). If it holds an index that a former process left
 * intact for the same pool, that is adopted; else a new one is laid into it.
 * route_pool_index_bytes() says how much is wanted; less means fewer blocks.
 * For adoption, as ledger_attach(): kvsteerd does not call it in this version. */
int route_pool_create_in(struct route_pool **out, const struct route_pool_config *cfg, struct ledger *ledger,
			 void *index_mem, size_t index_bytes);
size_t route_pool_index_bytes(const struct route_pool_config *cfg);

/* New configuration or membership. Backends are matched by name: those that
 * stay keep node index, row, index, learned speed, in-flight and drain mark; those that left get no
 * new request, are forgotten by the index bit by bit and give their row back when their
 * last request ended; new ones start with nothing. All or nothing: on error
 * (as route_pool_create) the pool is as before. */
int route_pool_update(struct route_pool *pool, const struct route_pool_config *cfg);

/* Frees the pool; all tickets must have ended (asserted). Rows without
 * requests are given back. */
void route_pool_free(struct route_pool *pool);

/* Flags of a block of the chain; the values of prompt/prompt.h. */
#define ROUTE_BLOCK_MESSAGE_START 0x01u
#define ROUTE_BLOCK_ASSISTANT 0x02u
#define ROUTE_BLOCK_TRAILER 0x04u /* behind the prompt: not in the chain of the next turn */

/* A prompt's key: hash[i] stands for blocks 0..i. nblocks 0: no key, the
 * request is placed by load. `flags` may be NULL (all 0). */
struct route_chain {
	const uint64_t *hash;
	const uint16_t *bytes;
	const uint8_t *flags;
	uint32_t nblocks;
	uint64_t total_bytes;
};

struct route_nodeset {
	uint64_t w[ROUTE_MAX_NODES / 64];
};
static inline void route_nodeset_add(struct route_nodeset *s, uint32_t node)
{
	s->w[node / 64] |= 1ull << (node % 64);
}
static inline bool route_nodeset_has(const struct route_nodeset *s, uint32_t node)
{
	return s->w[node / 64] >> (node % 64) & 1;
}

struct route_request {
	struct route_chain chain;
	uint8_t class_id;        /* 1: the prompt has assistant turns, else 0 */
	bool first_token_visible; /* a stream: route_first_token() will be called */
	const char *adapter;     /* LoRA name, NULL: base model. Read during calls that take the request only */
	uint64_t placement_key;  /* session id or prompt_cache_key; replaces the placement key of `cost` and
				  * is the key of `session`; 0: none */
	uint64_t prefix_key;     /* prompt_prefix_hash(): the key of `prefix_aware`; 0: none */
	uint32_t worker;         /* ledger free list, 0..workers-1 */
	struct route_nodeset avoid; /* nodes not to be picked (tried already by the caller's account) */
};

enum route_ticket_state {
	ROUTE_TICKET_NONE = 0,
	ROUTE_TICKET_PREFILL,   /* sent, no first token yet: counts in the node's unp */
	ROUTE_TICKET_DECODE,    /* first token seen (or, unseen, predicted to have passed) */
	ROUTE_TICKET_ENDED,
};

/* Book-keeping of one request between assign and end. Zero it before the first
 * use; the fields are for reading only. `state` may change under the pool's lock at any time
 * before the end (an unseen first token that is inferred), the other public fields only in calls with this ticket. */
struct route_ticket {
	struct ledger_ref slot;
	uint32_t node;                  /* present node, ROUTE_NO_NODE after the end */
	uint32_t row;
	uint32_t state;                 /* enum route_ticket_state */
	uint32_t match_tokens;          /* predicted hit */
	uint32_t prompt_tokens;         /* estimate, or the engine's after route_usage() */
	struct route_nodeset tried;     /* nodes of this request so far */
	uint32_t retries;

	/* private to route/ */
	struct route_request req;
	struct route_ticket *prev, *next; /* unp of the node, oldest first */
	uint64_t sent_ns, due_ns;
	double est_s, est_tokens;       /* what it adds to W and Wt */
	double predicted_s, speed;      /* ttft and r at the decision */
	uint32_t stamp;                 /* in the index */
	uint32_t first_pending, kept;   /* blocks [first_pending, kept) wait for this request's success */
	uint32_t last_block;            /* last block that the next turn's chain repeats */
	double tokens, match0_tokens;   /* L and m0 at the decision */
	uint64_t last_hash;             /* of last_block */
	uint32_t reported_cached_tokens;
	uint16_t adapter;
	bool picked_top, probe, confirmed, pi_learned, usage_seen, answer_known;
};

/* The decision, for the connection, the headers and the log. */
struct route_plan {
	uint32_t node;                  /* index within the pool, stable while the backend is configured */
	uint32_t row;                   /* of the backend table */
	uint32_t epoch;
	const char *name;               /* valid while the ticket lives */
	uint32_t match_tokens, prompt_tokens;
	double wait_ms, prefill_ms, ttft_ms, cost_ms;
	bool overflow;                  /* not the key's own node, since that one was full */
	bool probe;                     /* the one request that tests an excluded node again */
	uint32_t n_alternates;          /* next best nodes, in order */
	uint32_t alternates[ROUTE_MAX_ALTERNATES];
	uint32_t alternate_rows[ROUTE_MAX_ALTERNATES];
};

/* Picks a backend and commits: slot, in-flight, index, predicted work. Returns
 *   0             *t and *plan are filled; route_end() is due exactly once
 *   -EAGAIN       every eligible node is at its cap: queue it, try again when
 *                 a slot frees
 *   -EHOSTUNREACH nobody is eligible: all draining, avoided, or no node
 *   -ENOSPC       no ledger slot
 * On error nothing changed and the ticket is unused. An exclusion never
 * empties a pool: if all nodes are excluded, they are used all the same, as a last resort. */
int route_assign(struct route_pool *pool, const struct route_request *req, uint64_t now_ns,
		 struct route_ticket *t, struct route_plan *plan);

/* The present node failed before the first token, or refused: undoes what
 * route_assign() committed there (nothing is learned; index entries that only
 * this request had made are removed) and picks among the nodes that it has not
 * tried. The ledger slot moves along. Returns as route_assign(); on error the
 * ticket has ENDED, its slot is released, and route_end() must not be called. */
int route_retry(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, struct route_plan *plan);

/* The first token of a 2xx answer was seen: the node works (ROUTE_RESULT_OK). `cached_tokens` if known by then,
 * else ROUTE_TOKENS_UNKNOWN. A second call changes nothing. */
void route_first_token(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, uint32_t cached_tokens);

/* What the engine reported about a 2xx answer; ROUTE_TOKENS_UNKNOWN for what it
 * did not say. Before route_end(); a second call changes nothing. */
void route_usage(struct route_pool *pool, struct route_ticket *t, uint32_t prompt_tokens, uint32_t cached_tokens);

/* The chain of prompt and answer, where the answer was read and keyed: the
 * answer's blocks join the index. `full` must begin with the request's blocks
 * up to its last that is no trailer. Before route_end(). */
void route_answer(struct route_pool *pool, struct route_ticket *t, const struct route_chain *full);

enum route_outcome {
	ROUTE_END_OK,              /* 2xx, complete */
	ROUTE_END_CLIENT_GONE,     /* the client left; the engine was told to stop */
	ROUTE_END_BACKEND_FAILED,  /* reset, cut, timeout, 5xx, error event */
	ROUTE_END_REFUSED,         /* 4xx, 501, or busy: the engine did not compute */
};

/* The request is over: releases the slot. Exactly once per successful assign;
 * asserted. `output_tokens` of the answer, counted or reported (0 unknown): the
 * pressure that an unread answer puts on the node's cache. What was computed
 * before a client left stays in the index once its first token was seen. */
void route_end(struct route_pool *pool, struct route_ticket *t, uint64_t now_ns, enum route_outcome outcome,
	       uint32_t output_tokens);

/* ---- passive health ---------------------------------------------------- */

enum route_result {
	ROUTE_RESULT_OK,             /* a whole answer's head that is no failure. For a stream route_first_token()
				      * says so itself: engines send 200 at once, also those that hang later */
	ROUTE_RESULT_CONNECT_FAILED, /* refused, unreachable, or no connection in time */
	ROUTE_RESULT_TIMEOUT,        /* no head or no first token in time */
	ROUTE_RESULT_HTTP_5XX,       /* see route_result_of_status() */
	ROUTE_RESULT_RESET,          /* on a fresh connection or within an answer; not an idle one that was stale */
	ROUTE_RESULT_BUSY,           /* the engine is full: healthy, but others first for a moment */
	ROUTE_RESULT_NEUTRAL,        /* says nothing about the node's health */
};

/* "connect_failed", "timeout", ...; never NULL. */
const char *route_result_name(enum route_result result);

/* What a status says about health: 2xx and 4xx OK (the node answers; a client's
 * fault never excludes a node), 501 NEUTRAL, an engine's "busy" 503 BUSY, other 5xx HTTP_5XX. */
enum route_result route_result_of_status(int status, bool busy);

/* How an attempt on `node` went. Connect failures exclude at once (1 s, doubling
 * to 30 s), the others after 3 in a row or when more than half of the last 20
 * failed. After the time is over one request is let through as a probe. A busy node
 * is passed over for 50 ms, doubling to 1 s while it stays so, unless all others are worse. */
void route_node_result(struct route_pool *pool, uint32_t node, enum route_result result, uint64_t now_ns);

/* ---- engine snapshots --------------------------------------------------- */

struct route_snapshot_in {
	uint32_t waiting, running;      /* requests; BACKEND_UNKNOWN where the engine has no such figure */
	double kv_used;                 /* 0..1, negative unknown */
	uint64_t kv_capacity_tokens;    /* 0 unknown; resizes the node's share of the index */
	bool kv_capacity_bound;         /* the most it may be: a smaller kv_tokens of the pool stays */
	uint32_t max_adapters;          /* 0 unknown */
	const char *const *adapters;    /* in use now; absence says nothing about residency */
	uint32_t n_adapters;
	bool restarted;                 /* its counters went backwards, the process is new: the cache is empty,
					 * the node's entries are forgotten, its speed and requests are kept */
};

/* A fresh reading of `node`. Ignored (-ENOENT) if the node is not configured. */
int route_snapshot(struct route_pool *pool, uint32_t node, const struct route_snapshot_in *in, uint64_t now_ns);

/* ---- operator ------------------------------------------------------------ */

/* Sets or clears the drain mark; reversible, survives updates. -ENOENT. */
int route_set_drain(struct route_pool *pool, const char *name, bool drain);

/* Timers: predicted first tokens, staleness, forgetting of gone nodes, rows.
 * To be called about once a second; decisions do their own share. */
void route_tick(struct route_pool *pool, uint64_t now_ns);

struct route_explain_row {
	char name[BACKEND_NAME_BYTES];
	uint32_t node, row;
	bool eligible;
	bool last_resort;       /* eligible only since all that might be are excluded */
	const char *why;        /* static: "ok", "draining", "excluded", "busy", "at_cap", "avoided", "unresolved" */
	uint32_t match_tokens;
	double wait_ms, prefill_ms, ttft_ms, congestion_ms, decode_ms, adapter_ms, cost_ms;
	bool chosen;
};

/* What route_assign() would do now: one row per configured backend, at most `n`.
 * No side effects. Returns the number of rows; `*tokens` (if not NULL) gets the prompt's estimate. */
uint32_t route_explain(struct route_pool *pool, const struct route_request *req, uint64_t now_ns,
		       struct route_explain_row *rows, uint32_t n, uint32_t *tokens);

struct route_backend_status {
	char name[BACKEND_NAME_BYTES];
	char address[BACKEND_ADDRESS_BYTES];
	uint32_t node, row;
	uint32_t state;         /* enum backend_state */
	uint32_t epoch;
	uint32_t cap, in_flight;
	uint32_t waiting, running; /* BACKEND_UNKNOWN if unknown or stale */
	double kv_used;         /* negative if unknown or stale */
	bool stale;
	double speed;           /* r: observed over predicted time, 1 = as the profile says */
	uint32_t unp;           /* own requests without first token */
	double work_s;          /* W: their predicted prefill */
	double wait_s;          /* predicted wait of the next request */
	uint32_t index_blocks;
	uint64_t index_bytes, index_capacity_bytes; /* of canonical prompt */
	uint64_t excluded_for_ns;
	uint64_t requests, prompt_tokens, hit_predicted_tokens, hit_reported_tokens;
	uint64_t sampled_prompt_tokens; /* of answers whose usage was read: what hit_reported_tokens is a part of */
};

struct route_pool_status {
	enum route_policy policy;
	uint32_t n_backends;
	uint32_t n_eligible;    /* below their cap, and neither draining, excluded nor without address */
	bool last_resort;       /* all that might serve are excluded: requests are tried on them all the same */
	double saturation;      /* least predicted wait of an eligible node over the target; 0 idle */
	double bytes_per_token;
	double pi[2];
	double mean_prefill_s, mean_uncached_tokens, mean_output_tokens, mean_context_tokens;
	uint64_t index_blocks, index_pairs, index_memory_bytes, index_evictions;
	uint64_t assigned, refused_at_cap, refused_no_node, retries;
};

/* Status of the pool and, at most `n`, its backends (also those that left but
 * still have requests). Returns the number of rows written. `ps` may be NULL. */
uint32_t route_pool_status(struct route_pool *pool, uint64_t now_ns, struct route_pool_status *ps,
			   struct route_backend_status *rows, uint32_t n);

/* Health of the configured backends alone, for whoever watches it change: at most `n` rows,
 * returns their number. Cheap enough for ten times a second. */
struct route_health_row {
	char name[BACKEND_NAME_BYTES];
	uint32_t row;
	uint32_t state;             /* enum backend_state at now_ns */
	bool stale;                 /* its engine's figures are too old */
	uint64_t excluded_until_ns; /* of an exclusion that no success has ended yet, 0: none */
	uint64_t excluded_ns;       /* how long that was to last */
	const char *why;            /* static: the failure that began it, "connect_failed" and the like */
};
uint32_t route_pool_health(struct route_pool *pool, uint64_t now_ns, struct route_health_row *rows, uint32_t n);

/* Node of a backend's name, or ROUTE_NO_NODE. */
uint32_t route_node_by_name(struct route_pool *pool, const char *name);
/* Row of a node, or BACKEND_UNKNOWN. */
uint32_t route_node_row(struct route_pool *pool, uint32_t node);
/* Under the pool's lock: in_flight of each row equals its live slots. Returns the number
 * of rows that differ (0, always). O(slots). */
uint32_t route_check_invariants(struct route_pool *pool);

/* ---- events --------------------------------------------------------------- */

enum route_event_kind {
	ROUTE_EVENT_ASSIGN,      /* a request was committed to a node */
	ROUTE_EVENT_FIRST_TOKEN,
	ROUTE_EVENT_END,
	ROUTE_EVENT_INSERT,      /* chain blocks first..first+count became known on the node */
	ROUTE_EVENT_DROP,        /* chain blocks first..first+count were taken back */
	ROUTE_EVENT_FORGET,      /* all the node's blocks became void */
	ROUTE_EVENT_SNAPSHOT,
	ROUTE_EVENT_ANSWER,      /* the chain of a prompt and its answer became known on the node */
};

/* One effect on the pool's state, without pointers except `hash` and `bytes`: a log or a
 * peer gateway writes the struct, `count` hashes, and `count` sizes where there are any. */
struct route_event {
	uint64_t seq;            /* counts up by one per pool */
	uint64_t now_ns;
	uint32_t kind;           /* enum route_event_kind */
	uint32_t node;
	uint32_t slot, generation; /* the request */
	uint32_t first, count;   /* INSERT, DROP: range of the chain. ASSIGN, ANSWER: blocks that the node
				  * had before, blocks of the chain (those that the next turn repeats) */
	uint32_t tokens;         /* ASSIGN: prompt; END: output; FIRST_TOKEN: cached */
	uint32_t match_tokens;   /* ASSIGN */
	uint32_t outcome;        /* END: enum route_outcome */
	uint32_t waiting, running; /* SNAPSHOT */
	uint32_t reserved;
	double kv_used;          /* SNAPSHOT */
	const uint64_t *hash;    /* INSERT, DROP, ASSIGN, ANSWER: count hashes, valid during the call */
	const uint16_t *bytes;   /* ASSIGN, ANSWER: of each block; else NULL */
};

/* Called under the pool's lock: must be short and must not call the pool. */
void route_pool_set_event_fn(struct route_pool *pool,
			     void (*fn)(void *ctx, const struct route_event *ev), void *ctx);

/* ---- peers ----------------------------------------------------------------- */

/* Another gateway with a pool of the same backends: its events, as they arrive, make
 * its requests count here as own ones do (queue, work ahead, in-flight, index, heat). */
struct route_peer;

/* At most `max_requests` of its requests are known at a time; of further ones the index and the
 * heat learn, the load does not. Returns 0 or -ENOMEM. */
int route_peer_open(struct route_pool *pool, struct route_peer **out, uint32_t max_requests);
/* The peer is gone, and with it what it had in flight. Before route_pool_free(). */
void route_peer_close(struct route_peer *peer);
/* One event of the peer, in its order. `node` is the number here of the backend that the
 * event's own number stands for there. An event about a node that is not configured here is ignored. */
void route_peer_apply(struct route_peer *peer, const struct route_event *ev, uint32_t node, uint64_t now_ns);
#endif
