/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* HTTP/1.1 client: keep-alive connections to one server on one epoll, one
 * request at a time on each. */
#ifndef KVSTEER_LOAD_CLIENT_H
#define KVSTEER_LOAD_CLIENT_H
#include <stdbool.h>
#include <stdint.h>

#include "load/answer.h"
#include "load/call.h"
#include "load/options.h"

struct load_client;

struct load_client_ops {
	/* A call has ended (call->error tells how); it belongs to the callee again. `answer` is
	 * valid during the callback. Must not start calls. */
	void (*done)(void *arg, struct load_call *call, const struct load_answer *answer);
	/* Time between two pieces of an answer's text. */
	void (*gap)(void *arg, const struct load_call *call, uint64_t ns);
	void *arg;
};

/* Resolves the server's name and connects once to see that it is there. `max` bounds the
 * connections. Returns 0, or -errno after a message on stderr. */
int load_client_new(struct load_client **client, const struct load_options *o, uint32_t max,
		    const struct load_client_ops *ops);
/* Closes everything; calls still running end as `unfinished`. */
void load_client_free(struct load_client *c);
/* Whether a further call may start. */
bool load_client_ready(const struct load_client *c);
/* Starts the call on an idle or a new connection; takes it until done() (never called from
 * within this function: failures come with the next poll). */
void load_client_start(struct load_client *c, struct load_call *call, uint64_t now_ns);
/* Waits for at most `wait_ns` and handles what came. */
void load_client_poll(struct load_client *c, uint64_t wait_ns);
/* Ends calls that are silent for too long and closes old idle connections; once a second. */
void load_client_sweep(struct load_client *c, uint64_t now_ns);
/* Ends all calls with `reason`. */
void load_client_abort(struct load_client *c, const char *reason);
uint32_t load_client_in_flight(const struct load_client *c);
/* Calls that were repeated on a new connection, as an idle one was dead. */
uint64_t load_client_reconnects(const struct load_client *c);
#endif
