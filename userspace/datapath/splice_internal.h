/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef KVSTEER_DATAPATH_SPLICE_INTERNAL_H
#define KVSTEER_DATAPATH_SPLICE_INTERNAL_H
#include <pthread.h>

#include "datapath/splice.h"

struct bpf_object;
struct ring_buffer;

/* Free rows, oldest first: a row rests as long as possible before its next use. */
struct splice_rows {
	pthread_mutex_t lock;
	uint32_t *ring;
	uint32_t cap, head, n;
};

struct splice {
	struct bpf_object *obj;
	int prog_fd, flows_fd, upstream_fd, clients_fd, cookies_fd, rings_fd, counters_fd;
	int ring_fds[SPLICE_WORKERS_MAX];
	unsigned workers;
	struct splice_flow *flows; /* mapped */
	uint32_t max_flows, max_clients;
	struct splice_backend **backends; /* by row; each entry belongs to the flow's worker */
	struct splice_rows flow_rows, client_rows;
	char pin[256];
	int lock_fd; /* of the pins' directory */
};

struct splice_dead_row {
	struct splice_rows *rows;
	uint32_t row;
};

struct splice_worker {
	struct splice *s;
	unsigned id;
	struct ring_buffer *ring;
	const struct splice_worker_ops *ops;
	void *arg;
	struct list armed;  /* backends */
	struct list drains; /* clients */
	struct splice_dead_row *dead;
	uint32_t n_dead, cap_dead;
	uint64_t lost_seen;
	struct splice_worker_stats stats;
};

/* -ENOSPC: none left. */
int splice_row_get(struct splice_rows *r, uint32_t *row);
void splice_row_put(struct splice_rows *r, uint32_t row);
/* The row may be used again after the next splice_worker_reap(). */
void splice_row_bury(struct splice_worker *w, struct splice_rows *r, uint32_t row);
#endif
