/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One request and its answer. Lives on one worker; ends exactly once in
 * exchange_finish(), whatever happens, which is where the slot is released, the
 * log line written and the counters raised. */
#ifndef KVSTEER_GATEWAY_EXCHANGE_H
#define KVSTEER_GATEWAY_EXCHANGE_H
#include "base/iobuf.h"
#include "base/reason.h"
#include "datapath/datapath.h"
#include "gateway/body.h"
#include "gateway/client.h"
#include "gateway/upstream.h"
#include "gateway/worker.h"
#include "http/body.h"
#include "http/http1.h"
#include "http/sse.h"
#include "prompt/prompt.h"
#include "route/pool.h"
#include "route/queue.h"

enum exchange_phase {
	EXCHANGE_REQUEST,    /* the request is being read, nothing decided */
	EXCHANGE_QUEUED,     /* waits for a slot */
	EXCHANGE_CONNECTING, /* to the backend */
	EXCHANGE_WAITING,    /* request on its way or sent, no answer's head yet */
	EXCHANGE_ANSWERING,  /* the answer's head is here */
	EXCHANGE_DRAINING,   /* nothing more to come: the client has to take what waits in flow.out */
	EXCHANGE_DONE,
};

/* A head's parser and its field slots: needed for a part of a request's life only. From
 * worker_parse_get(). */
struct request_parse {
	struct parse_block block; /* first */
	struct http_req req;
	struct http_field fields[];
};
struct response_parse {
	struct parse_block block; /* first */
	struct http_resp resp;
	struct http_field fields[];
};

struct usage_tail;

struct exchange {
	struct dead dead; /* first: see worker_bury() */
	struct worker *w;
	struct client *c;   /* NULL once the client has gone and on_abort: drain reads on */
	struct upstream *u;
	enum exchange_phase phase;
	struct timer timer;
	uint64_t deadline_ns;

	/* the request */
	struct fleet *fleet;
	struct iobuf head;             /* bytes of its head */
	struct request_parse *parse;   /* until the answer has begun */
	enum http_method method;
	enum prompt_family family;
	unsigned family_flags;
	bool http10, head_only;
	struct http_body decode;       /* its framing */
	struct body body;
	bool wants_stream;
	bool body_complete, streaming; /* streaming: decided before the body's end, no retry */
	struct prompt_scan *scan;
	uint64_t body_bytes;
	char peer[INET6_ADDRSTRLEN];
	const char *allow;             /* methods of its path, where known; static */
	char *log_path, *model;        /* for log and headers; owned */
	uint32_t log_path_len;
	char id[129];

	/* the decision */
	struct fleet_pool *pool;
	struct fleet_model names;
	struct prompt_key key;
	struct route_request route;
	struct route_ticket ticket;
	struct route_plan plan;
	bool assigned;                 /* ticket is live: route_end() is due */
	const struct fleet_backend *backend;
	struct queue_entry wait;
	struct mail wake;
	bool queued, wake_posted, zombie; /* guarded by the pool's queue_lock */
	unsigned tries;                /* backends tried */
	bool fresh_retry;              /* a reused connection died: once more on a fresh one */

	/* sending */
	struct list due;               /* of worker.due */
	struct iobuf out_head;         /* request head for the backend, then chunk headers */
	bool chunk_out;                /* the body goes out in our own chunks */
	bool chunk_open, chunk_last;
	uint64_t chunk_left;
	bool sent;                     /* the whole request has been handed to the socket */

	/* the answer */
	struct response_parse *answer;
	unsigned interims;
	bool interim_cut;              /* part of an interim answer may be out: only more of the same stream can follow */
	struct flow flow;
	bool flowing;                  /* flow is set up */
	bool begun;                    /* the answer has been let out to the client */
	bool hold_error;               /* a 503: its body is read before it is passed on */
	bool want_retry;               /* the stream's first event was an error */
	bool failed_stream;            /* an error event */
	bool busy_stream;              /* which said that the engine is busy */
	bool upstream_keep;            /* the connection may be used again after this answer */
	bool may_splice;               /* nothing speaks against the kernel's moving the rest */
	bool spliced;                  /* it has moved some of it, or is about to */
	enum splice_hand hand;
	uint64_t kernel_events;        /* of the connection, counted so far */
	struct sse_watch *sse;         /* until the first token */
	struct usage_tail *usage;      /* of a sampled answer: its first and last bytes */
	struct sse_activity activity;
	unsigned pings;                /* comments in a row */
	uint32_t events;               /* of the stream: about its tokens */
	bool first_token;
	int status;
	enum reason reason;

	/* accounting */
	uint64_t begin_ns, request_ns, queued_ns, assigned_ns, sent_ns, head_ns, first_ns;
};

/* ---- exchange.c: life ---- */
/* A new exchange of `c` at the first byte of a request; NULL without memory. */
struct exchange *exchange_new(struct client *c);
/* The head is complete: checks path and method, answers or reads on. */
void exchange_head_done(struct exchange *x);
/* The request can't be read on: answers `fault` and closes. */
void exchange_fault(struct exchange *x, const struct http_fault *fault);
/* `n` payload bytes were appended to x->body. */
void exchange_body_filled(struct exchange *x, const uint8_t *p, uint32_t n);
/* The body has grown or ended: decides, sends on. */
void exchange_body_progress(struct exchange *x);
/* Ends a begun answer visibly: reset, or close without the end of its framing. */
void exchange_cut(struct exchange *x, enum reason reason);
/* The answer is complete and its backend released: waits until flow.out is gone, then finishes. */
void exchange_drain(struct exchange *x);
/* Lets go of backend, slot and queue: nothing of this request is under way any more. */
void exchange_let_go(struct exchange *x, enum reason reason);
/* Sends an interim answer that was put into flow.out; what the client does not take now
 * goes out before all else. False: x has ended. */
bool exchange_flush_interim(struct exchange *x);
/* The client's connection is gone. */
void exchange_client_gone(struct exchange *x);
/* The client's socket takes bytes again. */
void exchange_client_writable(struct exchange *x);
/* All is said: log, counters, release, free; then the client's next request. */
void exchange_finish(struct exchange *x);
/* The memory of a finished exchange whose wake-up was still on its way. */
void exchange_free(struct exchange *x);
void exchange_deadline(struct exchange *x, uint64_t at_ns);
/* Gives back what only a retry would need. */
void exchange_commit_answer(struct exchange *x);
/* No body is on its way any more (a gauge). */
void exchange_flow_over(struct exchange *x);
/* Releases the routing slot with this outcome, if one is held. */
void exchange_release_slot(struct exchange *x, enum route_outcome outcome);

/* ---- reply.c: answers of the gateway's own ---- */
/* An error, where nothing has gone out yet; else the answer is cut. */
void exchange_fail(struct exchange *x, enum reason reason, const char *message);
/* A local answer with this body; `fields`: whole lines of its head, or NULL. */
void exchange_reply(struct exchange *x, int status, const char *fields, const char *body, size_t len);

/* ---- decide.c: routing ---- */
void exchange_decide(struct exchange *x);
/* Starts the scan of the body as `pool` wants it; NULL: which pool is not known yet. */
void exchange_scan_begin(struct exchange *x, const struct config_pool *pool);
/* The backend failed before anything of its answer was passed on: tries the next
 * one, or answers with `reason`. `result` is what it says about the node. */
void exchange_backend_failed(struct exchange *x, enum route_result result, enum reason reason, const char *message);
bool exchange_may_retry(const struct exchange *x);
/* Asks for a slot. `woken`: on a wake-up from the queue, else for the first time. */
void exchange_assign(struct exchange *x, bool woken);

/* ---- wait.c: the queue ---- */
void exchange_enqueue(struct exchange *x);
/* A woken request found no slot after all: back to the place that it had. `seen`
 * is the pool's count of releases from before it looked. */
void exchange_requeue(struct exchange *x, uint64_t seen);
/* Leaves the queue; true: the memory must stay until the wake-up that is on its way has come. */
bool exchange_leave_queue(struct exchange *x);
void exchange_queue_timeout(struct exchange *x);
/* A slot of the pool was released: counts that and wakes the next waiting request, if any. */
void pool_wake(struct fleet_pool_state *s);
/* The same where nothing was released: there may be room all the same. */
void pool_wake_next(struct fleet_pool_state *s);
bool pool_waiting(const struct fleet_pool_state *s);

/* ---- send.c ---- */
/* Opens or takes a connection to x->backend and sends. */
void exchange_connect(struct exchange *x, bool fresh);
void exchange_upstream_connected(struct exchange *x, int err);
/* Sends as much as the socket takes. */
void exchange_send(struct exchange *x);
/* What worker_send_soon() has put off: the request to its backend, or a whole answer to the client. */
void exchange_due(struct exchange *x);

/* ---- answer.c ---- */
void exchange_upstream_readable(struct exchange *x);
void exchange_upstream_lost(struct exchange *x);

/* ---- explain.c ---- */
/* The value of x-kvsteer-reason into buf, cut at cap; returns its length. */
size_t exchange_explain(const struct exchange *x, char *buf, size_t cap);

/* ---- answer_body.c ---- */
/* Reads what has come of the body, as far as the client keeps up. */
void exchange_pump(struct exchange *x);
/* Acts on what a step of x->flow said. */
void exchange_flowed(struct exchange *x, enum flow_result r);
/* Moves the deadline of an answer that goes on. */
void exchange_progress(struct exchange *x);
/* What to wait for from the backend besides room to send: nothing while flow.out is full. */
uint32_t exchange_upstream_events(const struct exchange *x);
/* head_hold is over: the head goes out. */
void exchange_release_hold(struct exchange *x);
/* Forgets the answer of a backend that failed: the next one starts afresh. */
void exchange_reset_answer(struct exchange *x);

/* ---- account.c ---- */
void exchange_make_id(struct exchange *x);
/* Keeps method and path of a head in `buf`, which may be incomplete. */
void exchange_keep_line(struct exchange *x, const char *buf);
/* Keeps what log and answers need of the whole head. */
void exchange_keep_for_log(struct exchange *x);
/* The counters and the line of the access log: once, at the end. */
void exchange_account(struct exchange *x);

/* ---- usage_sample.c ---- */
/* At a 2xx answer's head: is this one of the sample whose usage is read? */
void exchange_usage_begin(struct exchange *x);
/* At its end, while the slot is held: what the engine said goes to route/ and the counters. */
void exchange_usage_end(struct exchange *x);

/* ---- local.c ---- */
/* /v1/models, /health and the like; true if it was answered. */
bool exchange_local(struct exchange *x, const char *path, uint32_t len);
#endif
