/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the process uses of the host, as the kernel counts it. */
#ifndef KVSTEER_CONTROL_PROCESS_H
#define KVSTEER_CONTROL_PROCESS_H
#include <stdint.h>

struct process_figures {
	double cpu_s;   /* user and system */
	double start_s; /* Unix time */
	uint64_t resident_bytes, virtual_bytes;
	uint64_t open_fds, max_fds;
};

/* Fills what can be read; the rest is 0. */
void process_read(struct process_figures *p);
#endif
