/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the verdict program of bpf/splice.bpf.c and the daemon share: the flow
 * table, the events and the counters. Every field names its one writer:
 *   K  the verdict program, under the backend socket's lock
 *   D  the daemon's worker that owns the connection
 *   O  whoever owns the stream: K while passed_bytes == consumed_bytes and the flow is
 *      armed and has not ended, else D
 * docs/pinned-maps.md describes the maps as a protocol. */
#ifndef KVSTEER_SPLICE_ABI_H
#define KVSTEER_SPLICE_ABI_H
#include <linux/types.h>

#include "kvsteer/http_framing.h"

/* Raised with every change of a layout below; part of the pins' path. */
#define SPLICE_SCHEMA 1

/* Rows of the tables unless the loader sets others; one backend or client connection each. */
#define SPLICE_FLOWS_DEFAULT 16384u
#define SPLICE_CLIENTS_DEFAULT 16384u
#define SPLICE_WORKERS_MAX 256u
/* One worker's ring: 1,365 events, more than a worker can have open between two turns of its loop. */
#define SPLICE_RING_BYTES (64u << 10)
/* flow.client of a flow that has no client. */
#define SPLICE_NO_CLIENT 0xffffffffu

/* One backend connection. Rows are found by the socket's cookie (map `splice_cookies`). */
struct splice_flow {
	/* what the kernel writes */
	__u64 passed_bytes;     /* K: bytes handed to the daemon since the socket was inserted */
	__u64 redirected_bytes; /* K: bytes handed to clients */
	__u64 events;           /* K: redirected packets (skbs); a stream's event is one, unless they came in a burst */
	__u64 last_ns;          /* K: CLOCK_MONOTONIC of the last redirected packet */
	__u64 payload_ns;       /* K: of the last one whose payload is no SSE comment (does not begin with ':') */
	__u32 ended;            /* K: the generation that ended last, 0 at first */
	__u32 comments;         /* K: packets with an SSE comment in a row */
	__u32 takeovers;        /* K: how often the stream went back to the daemon */
	__u32 reason;           /* K: why it did so last: enum splice_reason */
	__u64 trimmed_bytes;    /* K: cut off behind the end of an answer: the connection is of no use any more */

	/* the framing of the body under way */
	struct http_framing framing; /* O */
	struct http_framing scratch; /* K: working copy of one verdict */

	/* what the daemon writes */
	__u64 consumed_bytes; /* D: passed bytes that were read and handed to the client's socket */
	__u64 taken_bytes;    /* D: passed bytes that were read */
	__u64 w0_bytes;       /* D: what the client's socket will have been given once all before the publish is in it */
	__u64 r0_bytes;       /* D: redirected_bytes at the publish */
	__u32 armed;          /* D: generation of the answer that the kernel may move, 0: none */
	__u32 client;         /* D: row of `splice_clients` */
	__u32 limit_bytes;    /* D: how much may wait for the client before the kernel passes instead */
	__u32 worker;         /* D: row of `splice_rings` */
	__u64 cookie;         /* D: of the backend's socket, 0: the row is free */
	__u64 since_ns;       /* D: CLOCK_MONOTONIC of the insertion */
	char backend[48];     /* D: the backend's address and port as text */
	__u8 pad[16];         /* zero */
};
_Static_assert(sizeof(struct splice_flow) == 256, "a map value: raise SPLICE_SCHEMA");
_Static_assert(__builtin_offsetof(struct splice_flow, framing) == 64, "one cache line of the kernel's");
_Static_assert(__builtin_offsetof(struct splice_flow, consumed_bytes) == 128, "the daemon's lines");

enum splice_event_kind {
	SPLICE_EVENT_END = 1,      /* the body's last byte went to the client */
	SPLICE_EVENT_TAKEOVER = 2, /* bytes were passed: the daemon has to read */
};

/* Why a stream went back to the daemon. */
enum splice_reason {
	SPLICE_WHY_NONE = 0,
	SPLICE_WHY_RACE = 1,          /* bytes came while the daemon was handing over */
	SPLICE_WHY_BACKPRESSURE = 2,  /* the client does not read: limit_bytes wait already */
	SPLICE_WHY_CLIENT_GONE = 3,   /* no client socket in the map */
	SPLICE_WHY_FRAMING = 4,       /* the body's framing is broken */
	SPLICE_WHY_STEPS = 5,         /* too many chunks in one packet */
	SPLICE_WHY_MEMORY = 6,        /* the packet could not be made readable or cut */
	SPLICE_WHY_MAX = 7,
};

/* A record of a ring. */
struct splice_event {
	__u64 time_ns;         /* CLOCK_MONOTONIC */
	__u64 redirected_bytes; /* of the flow, this packet included */
	__u32 flow;            /* row */
	__u32 generation;      /* armed at that time: an event may be read late */
	__u32 kind;            /* enum splice_event_kind */
	__u32 reason;          /* enum splice_reason of a TAKEOVER */
};
_Static_assert(sizeof(struct splice_event) == 32, "a ring's record: raise SPLICE_SCHEMA");

/* The one row of `splice_counts`; K writes all of it. */
struct splice_counts {
	__u64 lost_events; /* a ring was full or missing: the daemon's sweep finds such flows */
	__u64 ends;
	__u64 takeovers[8]; /* by enum splice_reason */
	__u64 trimmed;     /* packets that held more than the end of an answer */
};
_Static_assert(sizeof(struct splice_counts) == 88, "a map value: raise SPLICE_SCHEMA");
#endif
