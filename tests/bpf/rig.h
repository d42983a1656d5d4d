/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Both ends of the tests of the kernel path: an engine that writes answers in chosen
 * pieces, and clients that compare every byte. */
#ifndef KVSTEER_TESTS_BPF_RIG_H
#define KVSTEER_TESTS_BPF_RIG_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum form {
	FORM_LENGTH,        /* Content-Length, random payload */
	FORM_EVENTS,        /* chunked, one SSE event of about 250 bytes a chunk */
	FORM_ODD_CHUNKS,    /* chunk sizes from 1 to 5,000 */
	FORM_EXTENSIONS,    /* chunk extensions, upper case, leading zeros */
	FORM_TRAILERS,      /* trailers, one of which looks like an end */
	FORM_FALSE_ENDS,    /* payload full of "0\r\n\r\n" */
	FORM_TINY_CHUNKS,   /* many 1-byte chunks: more steps than one verdict takes */
	FORMS
};
enum split {
	SPLIT_WHOLE,        /* one write */
	SPLIT_BYTES,        /* 1 byte a write (the first 2,000, then the rest) */
	SPLIT_SMALL,        /* 1 to 60 bytes */
	SPLIT_LARGE,        /* 1 to 3,000 bytes */
	SPLIT_HEAD,         /* the head, a pause, the rest */
	SPLIT_BURST,        /* head and first event and half of the second, a pause, the rest as a burst */
	SPLIT_PACED,        /* 260 bytes, with pauses between some: the daemon can catch up */
	SPLITS
};

/* An answer on the wire: head line and body. */
struct answer {
	uint8_t *wire;
	size_t len, head_len;
};
struct answer answer_make(enum form form, uint32_t payload, uint64_t seed);
const char *form_name(enum form f);
const char *split_name(enum split s);
uint64_t rig_random(uint64_t *state);

/* Engines: one thread a connection, answers by request "S<form>,<split>,<payload>,<seed>\n". */
struct engine;
struct engine *engine_start(void);
uint16_t engine_port(const struct engine *e);
void engine_stop(struct engine *e);

/* A connection to a port of 127.0.0.1; receives time out after 20 s. rcvbuf 0: the default. */
int rig_connect(uint16_t port, int rcvbuf);
/* A listener, and the next connection of it. */
int rig_listen(uint16_t *port);
int rig_accept(int listener);
bool rig_write(int fd, const void *p, size_t n);
/* Exactly n bytes; false at an end, error or timeout before. */
bool rig_read(int fd, void *p, size_t n);
/* One request by `first` ('S', 'R', 'X') and its answer, compared. */
enum verdict { RIG_OK, RIG_WRONG, RIG_CUT };
enum verdict rig_request(int fd, char first, enum form form, enum split split, uint32_t payload, uint64_t seed);

/* Many clients at a time, each with requests one after the other on one connection. */
struct load {
	uint16_t port;
	unsigned clients, requests;
	uint32_t payload_max;
	const char *kinds;  /* first bytes to draw from, e.g. "SSR" */
	int form, split;    /* -1: any */
	uint64_t seed;
	/* result */
	unsigned ok, wrong, cut;
};
void load_run(struct load *l);
#endif
