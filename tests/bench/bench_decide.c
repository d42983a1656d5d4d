/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How long a decision takes, from key ready to backend chosen and committed: route_assign() alone, on
 * warm pools whose indexes are full, for prompts of 1k, 8k and 100k tokens and 8 and 64 backends. `hit`
 * asks prompts that some node holds, `cold` prompts that nobody has, each of which evicts as much.
 * The last two blocks of each prompt are new. Blocks have 256 bytes.
 *
 * Build: cc -O2 -Iinclude -Iuserspace tests/bench/bench_decide.c build/libkvsteer.a -lm -pthread
 * Prints one row a case: microseconds p50, p90, p99, mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "route/pool.h"

#define BLOCK_BYTES 256u
#define LIVE 64u

static uint64_t rng_state = 88172645463325252ull;

static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;

	x ^= x >> 29;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 32;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void run_case(uint32_t tokens, uint32_t nodes, bool cold, uint32_t samples)
{
	uint32_t nblocks = tokens * 4 / BLOCK_BYTES, i, k, n_prefixes, warm, evicted;
	struct route_backend_config *b = calloc(nodes, sizeof(*b));
	struct route_ticket *t = calloc(LIVE, sizeof(*t));
	uint64_t *hash = calloc((size_t)LIVE * nblocks, sizeof(*hash)), *took = calloc(samples, sizeof(*took));
	uint16_t *bytes = calloc(nblocks, sizeof(*bytes));
	char (*name)[16] = calloc(nodes, sizeof(*name));
	struct route_pool_config cfg = { .name = "bench", .backends = b, .n_backends = nodes, .cap = 1024 };
	struct route_pool_status ps;
	struct route_pool *pool;
	struct ledger ledger;
	struct route_plan plan;
	uint64_t now = 1000000000ull, start, sum = 0;

	/* hit: all prefixes together fill half of what the nodes hold. */
	n_prefixes = cold ? 1u << 30 : nodes * 320000 / tokens;
	for (i = 0; i < nodes; i++) {
		snprintf(name[i], sizeof(name[i]), "node-%u", i);
		b[i] = (struct route_backend_config){ .name = name[i], .address = name[i] };
	}
	for (i = 0; i < nblocks; i++)
		bytes[i] = BLOCK_BYTES;
	if (ledger_create(&ledger, 65536, 1) || route_pool_create(&pool, &cfg, &ledger))
		exit(1);
	/* Until the indexes are full (cold), or all prefixes are somewhere (hit). */
	warm = cold ? (uint32_t)(nodes * 1.2 * 640000 / tokens) : n_prefixes * 2;
	for (i = 0; i < warm + samples; i++) {
		struct route_ticket *tk = &t[i % LIVE];
		uint64_t *h = &hash[(size_t)(i % LIVE) * nblocks], prev = mix(rng() % n_prefixes, 1);
		struct route_request req = { .first_token_visible = true };

		if (tk->state == ROUTE_TICKET_PREFILL || tk->state == ROUTE_TICKET_DECODE) {
			route_first_token(pool, tk, now, ROUTE_TOKENS_UNKNOWN);
			route_end(pool, tk, now, ROUTE_END_OK, 150);
		}
		for (k = 0; k < nblocks; k++)
			h[k] = prev = mix(prev, k + 2 < nblocks ? k : rng());
		req.chain = (struct route_chain){ h, bytes, NULL, nblocks, (uint64_t)nblocks * BLOCK_BYTES };
		now += 5000000;
		start = clock_now_ns();
		if (route_assign(pool, &req, now, tk, &plan))
			exit(1);
		if (i >= warm) {
			took[i - warm] = clock_now_ns() - start;
			sum += took[i - warm];
		}
	}
	route_pool_status(pool, now, &ps, NULL, 0);
	evicted = (uint32_t)(ps.index_evictions / (warm + samples));
	qsort(took, samples, sizeof(*took), by_value);
	printf("%8u %9u %5s %9.1f %9.1f %9.1f %9.1f %12u\n", tokens, nodes, cold ? "cold" : "hit",
	       took[samples / 2] / 1e3, took[samples * 9 / 10] / 1e3, took[samples * 99 / 100] / 1e3,
	       (double)sum / samples / 1e3, evicted);
	for (i = 0; i < LIVE; i++)
		if (t[i].state == ROUTE_TICKET_PREFILL || t[i].state == ROUTE_TICKET_DECODE)
			route_end(pool, &t[i], now, ROUTE_END_OK, 150);
	route_pool_free(pool);
	ledger_destroy(&ledger);
	free(b);
	free(t);
	free(hash);
	free(took);
	free(bytes);
	free(name);
}

int main(void)
{
	static const uint32_t tokens[] = { 1000, 8000, 100000 }, nodes[] = { 8, 64 };
	uint32_t i, k;

	printf("%8s %9s %5s %9s %9s %9s %9s %12s\n", "tokens", "backends", "", "p50_us", "p90_us", "p99_us", "mean_us",
	       "evicted/req");
	for (i = 0; i < 3; i++) {
		for (k = 0; k < 2; k++) {
			run_case(tokens[i], nodes[k], false, 4000);
			run_case(tokens[i], nodes[k], true, tokens[i] > 50000 ? 1000 : 4000);
		}
	}
	return 0;
}
