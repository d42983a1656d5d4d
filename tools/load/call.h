/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One request: when, with which bytes, and what came of it. */
#ifndef KVSTEER_LOAD_CALL_H
#define KVSTEER_LOAD_CALL_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "load/http.h"

struct load_conv;

struct load_call {
	uint64_t intended_ns;   /* latencies count from here */
	uint64_t start_ns;      /* when it was in fact begun */
	uint64_t first_ns;      /* first complete data event; 0 before */
	uint64_t first_token_ns, last_token_ns;
	uint64_t gaps;          /* between tokens */
	uint64_t end_ns;
	bool measured;          /* not part of the warm-up */
	struct load_conv *conv; /* its conversation, or NULL */
	char *buf;              /* owned: all bytes but the prefix and the history */
	struct iovec iov[4];    /* the request; not changed by sending */
	int n_iov;
	uint16_t status;        /* of the answer; 0 without a head */
	const char *error;      /* reason, NULL for success */
	char error_code[4];     /* what `error` points at when it is a status */
	char backend[LOAD_HTTP_BACKEND_MAX];
};

/* A zeroed call, or NULL. */
struct load_call *load_call_new(void);
void load_call_free(struct load_call *call);
#endif
