/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the gateway counts. Each worker writes its own copy, readers sum them:
 * no shared cache line on the data path. Labels are bounded: pools by slot,
 * backends by row of the backend table, codes 100..599. */
#ifndef KVSTEER_GATEWAY_STATS_H
#define KVSTEER_GATEWAY_STATS_H
#include <stdint.h>

#include "base/hist.h"
#include "base/reason.h"
#include "kvsteer/backends_abi.h"

#define STATS_POOLS_MAX 512 /* pool slots a process hands out; slot 0 = "no pool was chosen" */
#define STATS_CODE_MIN 100
#define STATS_CODES 500

/* Per backend row. */
struct stats_backend {
	uint64_t requests[STATS_CODES]; /* answers to clients by status code - STATS_CODE_MIN; a cut stream counts under its 200 */
	uint64_t prompt_tokens;         /* of routed requests, by kvsteer's estimate */
	uint64_t cached_predicted;      /* tokens of them that the index expected to be cached */
	uint64_t cached_reported;       /* cached tokens read from the engine's usage */
	uint64_t usage_sampled;         /* answers whose usage was read */
	uint64_t cached_predicted_sampled; /* predicted for those same answers */
	struct hist ttft;
};

/* Per pool slot. */
struct stats_pool {
	uint64_t errors[REASON_COUNT];
	uint64_t retries[REASON_COUNT]; /* by why the first try failed */
	uint64_t local[STATS_CODES];    /* answers that no backend gave, by code */
	struct hist queue;
};


/* Why an answer that the kernel could have moved was relayed. */
enum stats_fallback {
	FALLBACK_CONFIGURED,	  /* datapath: relay */
	FALLBACK_UNAVAILABLE,	  /* the kernel, our rights or the self-test */
	FALLBACK_HTTP10,	  /* the client's version has no chunked coding */
	FALLBACK_CLOSE_DELIMITED, /* the answer ends with its connection */
	FALLBACK_TLS,		  /* bytes on the socket are not those of the message */
	FALLBACK_TABLE_FULL,
	FALLBACK_INSERT_REFUSED,  /* the kernel did not take a socket */
	FALLBACK_USAGE,		  /* one of the sample whose usage is read */
	FALLBACKS
};

/* Per worker. */
struct stats_worker {
	struct hist decision;          /* key ready to backend chosen and committed */
	struct hist added_request;     /* request complete to request sent */
	struct hist added_response;    /* head received to head sent */
	uint64_t accepted;             /* client connections */
	uint64_t accept_refused;       /* over limits.connections, or no descriptors */
	uint64_t upstream_opened;
	uint64_t upstream_reused;
	uint64_t bytes_in;             /* request body bytes */
	uint64_t bytes_out;            /* answer bytes written to clients */
	uint64_t fallback[FALLBACKS];
	uint64_t log_dropped;          /* access log lines dropped because the sink did not take them */
	/* gauges, written by the worker, may be read at any time */
	uint64_t clients;              /* open client connections */
	uint64_t upstreams;            /* open backend connections */
	uint64_t flows_relay;          /* answers being relayed now */
	uint64_t flows_splice;         /* answers that the kernel moves or moved the last part of */
	uint64_t buffer_bytes;         /* bytes held in pooled buffers */
	struct stats_backend *backend[BACKENDS_MAX_ROWS]; /* by row; NULL until first used */
	struct stats_pool *pool[STATS_POOLS_MAX];
};

/* The worker's own block for a row or pool slot, made on first use; NULL if
 * memory ran out (then that answer is not counted). */
struct stats_backend *stats_backend_get(struct stats_worker *s, uint32_t row);
struct stats_pool *stats_pool_get(struct stats_worker *s, uint32_t slot);

/* Sums over workers (any thread). The _sum_ functions add to `out`. */
void stats_backend_sum(struct stats_worker *const *workers, unsigned n, uint32_t row, struct stats_backend *out);
void stats_pool_sum(struct stats_worker *const *workers, unsigned n, uint32_t slot, struct stats_pool *out);
void stats_worker_sum(struct stats_worker *const *workers, unsigned n, struct stats_worker *out);
/* Makes the sums of `row` zero from here on, by what is written into `correction`, one
 * more block of the n that are summed: a row that another backend gets must not
 * begin with its predecessor's counts. One thread at a time. */
void stats_backend_restart(struct stats_worker *const *workers, unsigned n, struct stats_worker *correction, uint32_t row);
/* The same for a pool slot that another pool gets. */
void stats_pool_restart(struct stats_worker *const *workers, unsigned n, struct stats_worker *correction, uint32_t slot);
void stats_worker_free(struct stats_worker *s);
#endif
