/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The datapath: the bytes of an answer's body on their way from a backend to
 * a client. A flow is one such body. The relay is complete on its own; what the
 * kernel carries meanwhile is splice.h's. */
#ifndef KVSTEER_DATAPATH_DATAPATH_H
#define KVSTEER_DATAPATH_DATAPATH_H
#include <stdbool.h>
#include <stdint.h>

#include "base/iobuf.h"
#include "datapath/conn.h"
#include "kvsteer/http_framing.h"

/* How the body is framed to the client. */
enum flow_form {
	FLOW_AS_FRAMED, /* the backend's framing is checked and passed on as it is */
	FLOW_PAYLOAD,   /* chunked from the backend, bare to an HTTP/1.0 client, ended by close */
	FLOW_CHUNK,     /* ended by the backend's close, chunked to the client: a cut stays visible */
	FLOW_DISCARD,   /* read to its end for nobody (the client left, on_abort: drain) */
};

enum flow_result {
	FLOW_MORE,        /* all that came was passed on or kept; more may come */
	FLOW_BLOCKED,     /* the client takes no more now and the buffer is full: stop reading */
	FLOW_END,         /* the body is complete (bytes may still wait in `out`) */
	FLOW_CUT,         /* the backend ended or reset inside the body */
	FLOW_MALFORMED,   /* its framing is broken: as good as cut */
	FLOW_CLIENT_GONE, /* writing to the client failed */
	FLOW_NO_MEMORY,
};

struct flow;
/* Sees each run of payload before it goes out. p is valid during the call. */
typedef void (*flow_observer)(struct flow *f, const uint8_t *p, uint32_t n);

struct flow {
	struct conn *from, *to;
	struct http_framing framing;
	enum flow_form form;
	bool hold;           /* keep everything in `out` for now (a stream's head waits for its first event) */
	struct iobuf out;    /* bytes that the client's socket has not taken: the head first */
	uint32_t out_limit;  /* of `out`, bytes */
	uint32_t surplus;    /* bytes of the last feed behind the body's end */
	uint64_t sent_bytes; /* written to the client, head included */
	flow_observer observe; /* NULL: nobody needs the bytes */
};

/* Starts a flow. `left` is what the body's framing starts with (see http_framing_init). */
void flow_init(struct flow *f, struct conn *from, struct conn *to, uint8_t body_kind, uint64_t length,
	       enum flow_form form, uint32_t out_limit);
/* Passes on n bytes that were read from the backend. Everything given is taken
 * (kept in `out`, beyond out_limit if need be: the caller stops reading at FLOW_BLOCKED)
 * up to the body's end; what lies behind it is counted in `surplus`. After
 * FLOW_CLIENT_GONE the framing stands behind these bytes all the same, so that the
 * rest can be read with FLOW_DISCARD; if it is at its end, nothing more will come. */
enum flow_result flow_feed(struct flow *f, const uint8_t *p, uint32_t n);
/* The backend sent FIN or reset (`reset`): FLOW_END if the body may end so, else FLOW_CUT. */
enum flow_result flow_eof(struct flow *f, bool reset);
/* Writes what waits in `out` (unless held). FLOW_MORE: all gone or held;
 * FLOW_BLOCKED: some is left; FLOW_CLIENT_GONE. */
enum flow_result flow_flush(struct flow *f);
void flow_free(struct flow *f);
#endif
