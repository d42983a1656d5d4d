/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Random numbers of the generator: one seeded stream per purpose, so that a
 * run with the same seed draws the same prefixes and lengths whatever the
 * server does. */
#ifndef KVSTEER_LOAD_RNG_H
#define KVSTEER_LOAD_RNG_H
#include <stdint.h>

struct load_rng {
	uint64_t s[4];
};

/* Streams with different `stream` numbers of one seed are independent. */
void load_rng_seed(struct load_rng *r, uint64_t seed, uint64_t stream);
uint64_t load_rng_next(struct load_rng *r);
/* Uniform in the open interval (0, 1): never 0, so that log() is safe. */
double load_rng_unit(struct load_rng *r);
double load_rng_exp(struct load_rng *r, double mean);
/* Lognormal token count whose *mean* (not median) is `mean`; at least 1, at most
 * LOAD_TOKENS_MAX. sigma 0 gives the rounded mean itself. */
#define LOAD_TOKENS_MAX (1u << 20)
uint32_t load_rng_lognormal(struct load_rng *r, double mean, double sigma);
/* Geometric count 1, 2, ... with the given mean (>= 1), cut at `max`. */
uint32_t load_rng_geometric(struct load_rng *r, double mean, uint32_t max);
/* Mixes two words into one key (splitmix64's finaliser). */
uint64_t load_mix(uint64_t a, uint64_t b);
#endif
