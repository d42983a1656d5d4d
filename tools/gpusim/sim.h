/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The running simulator: nodes, connections, one epoll loop in one thread. */
#ifndef KVSTEER_TOOLS_GPUSIM_SIM_H
#define KVSTEER_TOOLS_GPUSIM_SIM_H
#include <llhttp.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpusim/answer.h"
#include "gpusim/buf.h"
#include "gpusim/options.h"
#include "node/node.h"

#define SIM_KEEPALIVE_NS 5000000000ull		/* uvicorn's: idle after an answer */
#define SIM_LINGER_NS 1000000000ull		/* after an answer that left request bytes unread */
#define SIM_SLOW_METRICS_NS 3000000000ull
#define SIM_PING_NS 1000000000ull		/* between comment lines of a stalled stream */
#define SIM_MODEL_TOKENS 131072			/* longest prompt + answer */
#define SIM_BODY_BYTES (64u << 20)
#define SIM_HEAD_BYTES (256u << 10)
#define SIM_BACKLOG_BYTES (64u << 20)		/* unsent answer of a client that does not read */
#define SIM_LORA_SERIES 512
#define SIM_TTFT_BUCKETS 16

/* What an epoll event points at; the first member of whatever is registered. */
enum sim_source { SIM_SOURCE_SIGNAL, SIM_SOURCE_LISTENER, SIM_SOURCE_CONN };

/* A connection stands in at most one of these lists; each has one delay, so that its head is always next due. */
enum sim_wait { SIM_WAIT_NONE, SIM_WAIT_IDLE, SIM_WAIT_LINGER, SIM_WAIT_METRICS, SIM_WAITS };

enum sim_conn_state {
	SIM_CONN_READ,		/* a request is awaited or arrives */
	SIM_CONN_ANSWER,	/* a generation is under way */
	SIM_CONN_HOLD,		/* complete request, no answer yet or ever: slow metrics, hang */
	SIM_CONN_FLUSH,		/* the answer is complete but not all sent */
	SIM_CONN_LINGER,	/* write side shut, waiting for the peer */
};

struct sim_conn {
	enum sim_source source;
	int fd;
	struct sim_node *node;
	struct sim_conn *prev, *next;		/* of the node */
	enum sim_wait wait;
	uint64_t wait_due_ns;
	struct sim_conn *wait_prev, *wait_next;
	enum sim_conn_state state;
	uint32_t interest;			/* epoll events registered */
	bool dead;				/* closed; freed at the end of the loop's pass */

	llhttp_t parser;
	struct sim_buf in;			/* received, not yet parsed */
	struct sim_buf url, field, value, body;	/* of the request that arrives */
	char request_id[128];			/* the client's x-request-id, if well formed */
	bool json;				/* content type */
	bool expect_continue, keep_alive, too_big, complete;

	struct sim_buf out;
	bool byte_mode;
	bool close_after;

	/* generation */
	struct sim_answer answer;
	char *model;				/* owned: as the client named it */
	uint64_t node_id;
	uint64_t arrived_ns;
	uint32_t generated;
	bool stream;
};

struct sim_lora_series {
	uint64_t running, waiting;		/* masks of adapters */
	double stamp;				/* seconds since the epoch */
};

struct sim_node {
	enum sim_source source;
	int index, fd;				/* fd -1: port closed */
	struct sim *sim;
	struct node *model;
	uint64_t step_end_ns;			/* model clock; valid while the model is stepping */
	uint32_t faults;			/* mask, now */
	bool stalled;
	uint64_t ping_due_ns;
	struct sim_conn *conns;
	uint32_t max_model_tokens;
	/* counters of /metrics beside the model's */
	uint64_t prompt_tokens, cached_tokens, finished_length, finished_stop, finished_abort, rejected;
	uint64_t ttft_count[SIM_TTFT_BUCKETS + 1];
	double ttft_sum;
	double late_max_s;
	struct sim_lora_series lora[SIM_LORA_SERIES];
	int lora_series;
};

struct sim {
	struct sim_options o;
	int epoll_fd, signal_fd, spare_fd;
	uint64_t ready_ns;			/* origin of the model's clock and of the faults' times */
	uint64_t fault_next_ns;			/* since ready */
	uint64_t serial;			/* of answers' ids */
	struct sim_node *node;
	struct sim_conn *wait_head[SIM_WAITS], *wait_tail[SIM_WAITS];
	struct sim_conn *dead;			/* by next */
	char date[40];
	uint64_t date_s;
	bool stop;
};

/* -- conn.c -- */
void sim_accept(struct sim_node *node);
void sim_conn_event(struct sim_conn *c, uint32_t events);
/* Sends what it can. The connection may be dead afterwards. */
void sim_conn_flush(struct sim_conn *c);
/* The answer in c->out is complete: on to the next request once it is sent. */
void sim_conn_finish(struct sim_conn *c);
/* Aborts a generation, closes; `reset` by RST. */
void sim_conn_close(struct sim_conn *c, bool reset);
void sim_conn_free_dead(struct sim *s);
void sim_conn_wait(struct sim_conn *c, enum sim_wait wait);
/* Idle, linger and delayed connections whose time has come. */
void sim_conn_expire(struct sim *s, uint64_t now_ns);

/* -- api.c -- */
/* The request in c->url, c->body is complete. */
void sim_api_request(struct sim_conn *c);
/* A whole answer with a body, unless the method is HEAD. `extra` is header lines or "". */
void sim_api_reply(struct sim_conn *c, int status, const char *type, const char *extra, const char *body, size_t len);
void sim_api_metrics(struct sim_conn *c);
void sim_api_head(struct sim_conn *c, int status, const char *type, const char *extra, long long content_length);
/* The engine died under this generation: vLLM's last words. */
void sim_api_engine_dead(struct sim_conn *c);

/* -- engine.c -- */
uint64_t sim_model_ns(const struct sim *s, uint64_t now_ns);
uint64_t sim_real_ns(const struct sim *s, uint64_t model_ns);
/* Submits the generation of c. Returns node_submit()'s errno. */
int sim_engine_submit(struct sim_conn *c, const struct sim_prompt *p, int adapter);
/* Starts, ends and restarts faults, steps the models, pings stalled streams. */
void sim_engine_run(struct sim *s, uint64_t now_ns);
/* When sim_engine_run() has to be called next. */
uint64_t sim_engine_due(const struct sim *s);
int sim_node_listen(struct sim_node *n);

/* -- metrics.c -- */
void sim_metrics_write(struct sim_node *n, struct sim_buf *out);
void sim_metrics_ttft(struct sim_node *n, double seconds);
void sim_metrics_lora(struct sim_node *n);
#endif
