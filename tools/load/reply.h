/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One answer from its first byte to the verdict: HTTP, the events of a stream or
 * the JSON of a whole answer. No socket, no clock. */
#ifndef KVSTEER_LOAD_REPLY_H
#define KVSTEER_LOAD_REPLY_H
#include <stdbool.h>
#include <stddef.h>

#include "load/answer.h"
#include "load/http.h"
#include "load/sse.h"

#define LOAD_JSON_MAX (4u << 20)

/* A complete event with data; `token`: it carries a piece of the text. */
typedef void (*load_reply_event_fn)(void *arg, bool token);

struct load_reply {
	struct load_http http;
	struct load_sse sse;
	struct load_answer answer;
	char *json;      /* owned: an answer that is no stream */
	size_t json_len, json_cap;
	uint64_t pieces; /* events with text */
	bool stream;     /* a stream was asked for */
	bool done_mark;  /* data: [DONE] */
	bool token;      /* the event being read has text */
	bool broken;     /* the body can't be read on */
	load_reply_event_fn event; /* during a feed */
	void *event_arg;
};

/* A zeroed reply may be reset; reset keeps memory of the last answer for the next. */
void load_reply_reset(struct load_reply *r, bool stream, bool keep_text);
void load_reply_free(struct load_reply *r);
/* As load_http_feed: how many bytes belong to the answer, or -errno. */
long load_reply_feed(struct load_reply *r, const char *data, size_t len, load_reply_event_fn event, void *arg);
/* The answer is complete. NULL for a good one, else the reason; a status is written to `code`
 * (4 bytes), which is then returned. */
const char *load_reply_judge(struct load_reply *r, char *code);
#endif
