/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Inside of a pool. Everything here is guarded by pool->lock. */
#ifndef KVSTEER_ROUTE_POOL_INTERNAL_H
#define KVSTEER_ROUTE_POOL_INTERNAL_H
#include <pthread.h>

#include "route/adapters.h"
#include "route/cost.h"
#include "route/health.h"
#include "route/heat.h"
#include "route/index.h"
#include "route/pool.h"

#define ROUTE_MEAN_WEIGHT 0.02
#define ROUTE_R_DECAY 0.99
#define ROUTE_BPT_START 4.0       /* bytes per token until learned */
#define ROUTE_BPT_MIN 1.0
#define ROUTE_BPT_MAX 16.0
#define ROUTE_KEY_MIN_TOKENS 64.0 /* a placement key lies deeper than this */
#define ROUTE_PI_MIN_TOKENS 128.0 /* of unknown prompt, below which pi learns nothing */
#define ROUTE_PI_UP 0.02
#define ROUTE_PI_DOWN 0.005
#define ROUTE_SWEEP_BUDGET 32     /* void index entries that a decision clears away */
#define ROUTE_SWEEP_TICK 4096

enum node_presence {
	NODE_UNUSED,
	NODE_PRESENT,
	NODE_LEAVING, /* out of the configuration; its requests are still running */
};

struct node_snapshot {
	bool seen;               /* ever, since the node is present */
	bool load_known;         /* waiting and running are figures of the engine */
	uint64_t when_ns;
	uint32_t waiting, running;
	double kv_used;          /* negative unknown */
	uint32_t own_in_flight, own_unp;
};

struct route_node {
	enum node_presence presence;
	bool drain;              /* by the operator */
	bool unresolved;         /* no address */
	uint32_t row, cap, epoch;
	uint64_t name_hash;
	double extra_s;
	uint64_t kv_tokens;      /* reported; 0 unknown */
	uint32_t tickets;        /* live ones of this process and of peers */
	uint32_t peer_in_flight; /* of them, those of peers: the ledger does not count them */
	/* Own requests without first token, oldest first, and their sums. */
	struct route_ticket *unp_head, *unp_tail;
	uint32_t n_unp;
	double work_s, work_tokens;
	uint64_t next_due_ns;    /* earliest predicted first token of an unseen one; UINT64_MAX none */
	uint32_t own_decoding;
	uint64_t last_first_ns;
	double r_num, r_den, r;
	struct health health;
	struct node_snapshot snap;
	struct adapter_lru adapters;
	char name[BACKEND_NAME_BYTES];
	char address[BACKEND_ADDRESS_BYTES];
};

struct route_pool {
	pthread_mutex_t lock;
	struct ledger *ledger;
	/* Configuration, defaults filled in. Its pointers are not kept. */
	struct route_pool_config cfg;
	char name[BACKEND_POOL_BYTES];
	struct route_node node[ROUTE_MAX_NODES];
	uint32_t n_nodes;        /* numbers in use are below this */
	struct prefix_index index;
	void *index_mem;         /* own mapping, or NULL */
	size_t index_mem_bytes;
	bool index_lent;         /* the memory is the caller's */
	struct heat heat;
	struct cost_means means;
	double pi[2];
	double bpt_num, bpt_den; /* bytes over tokens, decayed */
	uint64_t cursor;         /* round robin: node number of the last pick; key of keyless requests */
	uint64_t picks;
	struct adapter_names adapter_names;
	void (*event_fn)(void *ctx, const struct route_event *ev);
	void *event_ctx;
	uint64_t event_seq;
	uint64_t assigned, refused_at_cap, refused_no_node, retries;
};

/* One node as a decision sees it. */
enum node_fit {
	FIT_ABSENT,
	FIT_OK,
	FIT_DRAINING,
	FIT_AVOIDED,
	FIT_EXCLUDED,
	FIT_BUSY,
	FIT_AT_CAP,
	FIT_UNRESOLVED,
};

struct node_view {
	uint8_t fit;             /* enum node_fit */
	bool probe;              /* would be its probe */
	bool last_resort;        /* excluded, and FIT_OK since all are */
	uint32_t in_flight, others; /* own; beyond own, while the snapshot is fresh */
	uint32_t run, proven;    /* blocks held; of these, proven by the prompt only now */
	uint64_t hrw;
	double match0, match;    /* tokens: m0 and m */
	struct cost_node in;
	struct cost_terms cost;
};

struct decision {
	uint64_t now_ns, key;
	double tokens;           /* L */
	uint32_t top;            /* largest HRW of the serving nodes, or ROUTE_NO_NODE */
	uint32_t n_serving, n_eligible;
	bool last_resort;        /* all nodes that might serve are excluded */
	uint32_t pick;           /* ROUTE_NO_NODE: nobody */
	bool overflow;
	uint32_t n_alternates, alternates[ROUTE_MAX_ALTERNATES];
	double score[ROUTE_MAX_NODES]; /* lower is better; valid where FIT_OK */
	struct node_view v[ROUTE_MAX_NODES];
};

static inline void pool_lock(struct route_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
}

static inline void pool_unlock(struct route_pool *pool)
{
	pthread_mutex_unlock(&pool->lock);
}

static inline double pool_bytes_per_token(const struct route_pool *pool)
{
	double v = pool->bpt_num / pool->bpt_den;

	return v < ROUTE_BPT_MIN ? ROUTE_BPT_MIN : v > ROUTE_BPT_MAX ? ROUTE_BPT_MAX : v;
}

static inline struct backend_row *node_row(const struct route_pool *pool, const struct route_node *n)
{
	return &pool->ledger->rows[n->row];
}

/* node.c */
void node_init(struct route_pool *pool, struct route_node *n);
bool node_snapshot_fresh(const struct route_pool *pool, const struct route_node *n, uint64_t now_ns);
void node_unp_add(struct route_node *n, struct route_ticket *t);
/* Takes the ticket out of unp, if it is there. */
void node_unp_remove(struct route_node *n, struct route_ticket *t);
/* The ticket's prefill is over: PREFILL -> DECODE. */
void node_start_decode(struct route_node *n, struct route_ticket *t);
/* Unseen first tokens whose predicted time has come. */
void node_settle(struct route_node *n, uint64_t now_ns);
/* A first token was seen: unseen ones of older requests came before it. */
void node_settle_before(struct route_node *n, const struct route_ticket *t);
void node_learn_speed(struct route_pool *pool, struct route_node *n, double observed_s, double predicted_base_s);
/* enum backend_state at now_ns. */
uint32_t node_state(const struct route_node *n, uint64_t now_ns);
void node_set_capacity(struct route_pool *pool, uint32_t node);
void node_forget(struct route_pool *pool, uint32_t node, uint64_t now_ns);
/* Writes what others read of the node into its row. */
void node_publish(struct route_pool *pool, uint32_t node, uint64_t now_ns);
/* Gives the number and the row of a node back that has left and is idle. True if it was. */
bool node_reap(struct route_pool *pool, uint32_t node);

/* decide.c */
void decide_scan(struct route_pool *pool, const struct route_request *req, const struct route_nodeset *avoid,
		 uint64_t now_ns, uint16_t adapter, struct decision *d);
/* policy.c: fills score, pick, overflow and alternates from the views. */
void policy_choose(const struct route_pool *pool, const struct route_request *req, struct decision *d);

/* pool_index.c: `mem` NULL makes an own mapping; lent memory is adopted where it can be. */
int pool_index_open(struct route_pool *pool, void *mem, size_t bytes);
/* More than 64 node numbers are needed: moves the entries to a wider index. -ENOSPC in lent memory. */
int pool_index_widen(struct route_pool *pool);
void pool_index_close(struct route_pool *pool);

/* pool.c */
void pool_config_defaults(struct route_pool_config *c);
void pool_emit(struct route_pool *pool, struct route_event *ev);
#endif
