/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/workload.h"

#include <string.h>

#define PREFIXES(n, tokens, z, ask, reply) \
	.prefixes = (n), .prefix_tokens = (tokens), .zipf = (z), .question = (ask), .answer = (reply)
#define SUPPORT PREFIXES(1000, 3008, 0.4, 50, 150)
/* Shapes that the reference's end-to-end medians and its tails ask for. Conversations begin at the rate's
 * fifth part from the first second on, so that long ones come late, as in the reference. */
#define CHAT .content = REPLAY_CHAT, .question = 120, .answer = 250, .sigma = REPLAY_CHAT_SIGMA
#define ONE .gateways = 1
#define FOUR .gateways = 4
#define TIMES(warm, measured) .warmup_s = (warm), .measure_s = (measured)

const struct replay_workload replay_workloads[] = {
	{ "support", .rate = 120, SUPPORT, ONE, TIMES(100, 100) },
	{ "support-hi", .rate = 200, SUPPORT, ONE, TIMES(100, 100) },
	{ "tight", .rate = 120, PREFIXES(1350, 3008, 0.6, 50, 150), ONE, TIMES(120, 100) },
	{ "nofit", .rate = 55, PREFIXES(4000, 3008, 0.9, 50, 150), ONE, TIMES(200, 200) },
	{ "long8k", .rate = 80, PREFIXES(400, 8000, 0.4, 50, 200), ONE, TIMES(150, 100) },
	{ "chat", .rate = 120, CHAT, ONE, TIMES(200, 200) },
	{ "mc-conv", REPLAY_TRACE, .rate = 5.1, ONE, TIMES(200, 600) },
	{ "burst", .rate = 120, PREFIXES(1000, 3008, 0.8, 50, 150), .burst = true, ONE, TIMES(100, 120) },
	{ "hetero", .rate = 100, PREFIXES(700, 3008, 0.6, 50, 150), .mixed = true, ONE, TIMES(100, 100) },
	{ "het-mc", REPLAY_TRACE, .rate = 3.4, .mixed = true, ONE, TIMES(200, 600) },
	{ "hot40", .rate = 130, SUPPORT, .hot_share = 0.4, ONE, TIMES(100, 100) },
	{ "lora", .rate = 50, PREFIXES(64, 3008, 0.4, 50, 150), .adapters = 32, ONE, TIMES(60, 150) },
	{ "kv200k", .rate = 22, PREFIXES(300, 1008, 0.4, 1000, 1200),
	  .kv_tokens = 200000, ONE, TIMES(100, 150) },
	{ "kv300k", .rate = 28, PREFIXES(300, 1008, 0.4, 1000, 1200),
	  .kv_tokens = 300000, ONE, TIMES(100, 150) },
	/* Not of the table: what g4-burst-hetero is compared with. */
	{ "burst-hetero", .rate = 80, PREFIXES(700, 3008, 0.8, 50, 150), .burst = true, .mixed = true, ONE,
	  TIMES(100, 120) },
	{ "g4-support", .rate = 120, SUPPORT, FOUR, TIMES(100, 100), .base = "support" },
	{ "g4-chat", .rate = 120, CHAT, FOUR, TIMES(200, 200), .base = "chat" },
	{ "g4-hot40", .rate = 130, SUPPORT, .hot_share = 0.4, FOUR, TIMES(100, 100), .base = "hot40" },
	{ "g4-mc-conv", REPLAY_TRACE, .rate = 5.1, FOUR, TIMES(200, 600), .base = "mc-conv" },
	{ "g4-burst-hetero", .rate = 80, PREFIXES(700, 3008, 0.8, 50, 150), .burst = true, .mixed = true, FOUR,
	  TIMES(100, 120), .base = "burst-hetero" },
};
const uint32_t replay_n_workloads = sizeof(replay_workloads) / sizeof(replay_workloads[0]);

const struct replay_workload *replay_workload_find(const char *name)
{
	for (uint32_t i = 0; i < replay_n_workloads; i++)
		if (!strcmp(replay_workloads[i].name, name))
			return &replay_workloads[i];
	return NULL;
}

double replay_node_speed(const struct replay_workload *w, uint32_t node)
{
	return w->mixed && node >= 4 && node < REPLAY_NODES ? REPLAY_SLOW : 1;
}
