/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Command line of kvsteer-gpusim, faults included. */
#ifndef KVSTEER_TOOLS_GPUSIM_OPTIONS_H
#define KVSTEER_TOOLS_GPUSIM_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_MAX_NODES 256
#define SIM_MAX_ADAPTERS 64	/* sets of adapters are 64-bit masks */
#define SIM_MAX_FAULTS 64

enum sim_fault_kind {
	SIM_FAULT_REFUSE,	/* the listener is closed */
	SIM_FAULT_HANG,		/* accepts, never answers */
	SIM_FAULT_RESET,	/* RST in the middle of an answer */
	SIM_FAULT_5XX,		/* inference requests fail with 500 at once */
	SIM_FAULT_SLOW_METRICS,	/* /metrics takes SIM_SLOW_METRICS_NS */
	SIM_FAULT_BYTE,		/* answers are written byte by byte */
	SIM_FAULT_BUSY,		/* 503, engine busy */
	SIM_FAULT_BUSY_STREAM,	/* the same, for streams after a 200 */
	SIM_FAULT_LOADING,	/* 503 on every path */
	SIM_FAULT_STALL,	/* no tokens; streams get comment lines */
	SIM_FAULT_RESTART,	/* the engine dies; back at once or after SECONDS, cache empty */
	SIM_FAULT_KINDS,
};

struct sim_fault {
	int node;
	enum sim_fault_kind kind;
	uint64_t start_ns;	/* after the ready line */
	uint64_t end_ns;	/* UINT64_MAX: for ever */
};

struct sim_options {
	int nodes;
	int port;
	const char *model;
	char *adapter[SIM_MAX_ADAPTERS];	/* owned */
	int adapters;
	double speed[SIM_MAX_NODES];
	uint32_t kv_tokens;
	double time_scale;
	uint64_t seed;
	uint32_t max_seqs;
	uint32_t max_queued;	/* running + waiting; 0: no limit of the engine's own */
	struct sim_fault fault[SIM_MAX_FAULTS];
	int faults;
	bool help, version;
};

/* Fills *o. Returns 0, or -EINVAL with a message in err that names the flag, the value and what is allowed.
 * model points into argv. Free with sim_options_free() in both cases. */
int sim_options_parse(struct sim_options *o, int argc, char **argv, char *err, size_t err_size);
void sim_options_free(struct sim_options *o);
void sim_options_help(FILE *to);

/* NODE:KIND[@START[+SECONDS]]. Returns 0 or -EINVAL with a message in err. */
int sim_fault_parse(struct sim_fault *f, const char *spec, char *err, size_t err_size);
/* Bit mask (1 << kind) of the faults of a node at a time since ready. */
uint32_t sim_faults_at(const struct sim_options *o, int node, uint64_t t_ns);
/* The next time after t_ns at which any mask changes, or UINT64_MAX. */
uint64_t sim_faults_next(const struct sim_options *o, uint64_t t_ns);
#endif
