/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Server-sent events seen on payload spans: when the first token has come, and
 * whether a 200 stream is really an error. Runs only until the first data event
 * has gone out; after that sse_activity() is enough. */
#ifndef KVSTEER_HTTP_SSE_H
#define KVSTEER_HTTP_SSE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SSE_KEEP 512     /* data bytes of one event kept for classification */
#define SSE_TYPE_MAX 64  /* bytes of an event type kept */

enum sse_kind {
	SSE_COMMENT, /* a comment line (": keep-alive"): not a token */
	SSE_PING,    /* `event: ping`: not a token */
	SSE_DATA,    /* a data event; see first_token */
	SSE_ERROR,   /* an error object instead of tokens */
	SSE_DONE,    /* data: [DONE] */
	SSE_EMPTY,   /* fields but no data: ignored by clients */
};

enum sse_token_rule {
	SSE_TOKEN_ANY,   /* first data event = first token (chat, completions, messages) */
	SSE_TOKEN_DELTA, /* /v1/responses: the first event whose type ends in ".delta" */
};

struct sse_event {
	uint8_t kind;     /* enum sse_kind */
	bool first_token; /* this event carries a token by the rule given */
	int error_code;   /* SSE_ERROR: the error object's numeric "code", 0 if none */
	const char *type; /* event type, NUL-terminated, "" if none; valid until the next feed */
	const char *data; /* first bytes of the data; valid until the next feed. Never log it. */
	size_t data_len;
};

struct sse_watch {
	uint8_t rule;
	uint8_t state;
	uint8_t field_len;
	uint8_t type_len;
	bool skip_lf;   /* the last byte was a CR: an LF belongs to it */
	bool has_field; /* the block has a field */
	bool has_data;
	uint8_t bom;
	uint16_t kept;
	char field[8];
	char type[SSE_TYPE_MAX + 1];
	char keep[SSE_KEEP + 1];
};

void sse_init(struct sse_watch *w, enum sse_token_rule rule);

/* Looks at payload p[0..n) up to the end of the next event (or comment line).
 * Returns 1 with `ev` filled and *used = offset right behind that event; 0 if
 * none ended here (*used = n). Feed the rest again. */
int sse_feed(struct sse_watch *w, const char *p, size_t n, size_t *used, struct sse_event *ev);

/* Cheap watch for later payload: does it hold (part of) a line that is neither
 * empty nor a comment? Byte-split safe through `a`, zero at the start. */
struct sse_activity {
	uint8_t state;
};
bool sse_activity(struct sse_activity *a, const char *p, size_t n);
#endif
