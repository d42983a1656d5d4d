/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A proxy of one thread over the splice library, as small as its rules allow, so
 * that the kernel path is tested apart from the gateway.
 *
 * Its protocol: a request is one line. Its first byte says how the answer may go:
 * 'S' by the kernel, 'R' by the relay, 'X' by the kernel, and the client's connection
 * is closed behind it. An answer is one line, `C` (chunked) or `L<decimal>` (Content-Length),
 * and the body. Lines are passed on as they are. Each client has a backend connection of its own. */
#ifndef KVSTEER_TESTS_BPF_PROXY_H
#define KVSTEER_TESTS_BPF_PROXY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datapath/splice.h"

struct proxy;

struct proxy_opts {
	const char *object;   /* file of the program below build/bpf, NULL: the built-in one */
	uint16_t engine_port; /* on 127.0.0.1 */
	uint32_t limit_bytes; /* 0: the default */
	uint32_t first_bytes; /* of a body, relayed before it is offered to the kernel */
	uint32_t max_flows;
	bool keep_epollin;    /* break the rule: look for EPOLLIN while the kernel owns the stream */
};

struct proxy_stats {
	struct splice_worker_stats worker;
	struct splice_counts kernel;
	uint64_t relayed_bytes, kernel_bytes, answers, cut;
	uint64_t backend_closed; /* connections that could not be used again */
	uint64_t refused;        /* sockets that the maps did not take */
	uint64_t switches;       /* voluntary context switches of the proxy's thread */
};

/* NULL: skip, the reason is printed. */
struct proxy *proxy_start(const struct proxy_opts *o);
uint16_t proxy_port(const struct proxy *p);
/* Consistent enough while it runs, exact once all answers are over. */
void proxy_stats(struct proxy *p, struct proxy_stats *out);
void proxy_stop(struct proxy *p);
/* Reads a file below the build's bpf folder; free() it. */
void *proxy_read_object(const char *name, size_t *len);
#endif
