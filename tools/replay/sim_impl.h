/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The state of a replay, for the files of the simulation. */
#ifndef KVSTEER_REPLAY_SIM_IMPL_H
#define KVSTEER_REPLAY_SIM_IMPL_H
#include "replay/agenda.h"
#include "replay/exchange.h"
#include "replay/series.h"
#include "replay/sim.h"

/* Metrics on their way to a gateway. */
struct reading {
	uint32_t gateway, node;
	struct node_stats st;
};

struct sim {
	const struct replay_run *r;
	double rate;
	struct replay_fleet f;
	struct replay_source source;
	struct replay_gateway g[REPLAY_GATEWAYS_MAX];
	struct replay_exchange *exchange;
	struct replay_agenda turns, readings;
	struct replay_request **req;    /* by number: tickets must not move */
	uint32_t reqs, reqs_room, spare;
	uint32_t oldest, newest;        /* without first token */
	uint32_t unstarted, live;
	uint32_t *held, held_n, held_room; /* no node below its cap: in order of arrival */
	struct replay_talk *next_talk;
	uint64_t next_arrival_ns, next_scrape_ns, measure_ns, end_ns, stop_ns, change_ns;
	uint64_t busy_ns[REPLAY_NODES_MAX];
	bool busy_read;
	struct replay_series ttft, e2e, itl;
	uint64_t prompt_tokens, cached_tokens, measured, started, ended, late, done_in_window;
};

/* What was measured, at the end. */
void sim_sum_up(struct sim *s, uint64_t now, struct replay_figures *out);
#endif
