/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/rng.h"

#include <math.h>

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t load_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0xd6e8feb86659fd93ull + b;

	return splitmix(&x);
}

void load_rng_seed(struct load_rng *r, uint64_t seed, uint64_t stream)
{
	uint64_t x = load_mix(seed, stream);

	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix(&x);
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

/* xoshiro256++ (Blackman, Vigna: "Scrambled linear pseudorandom number generators"). */
uint64_t load_rng_next(struct load_rng *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotl(s[0] + s[3], 23) + s[0];
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

double load_rng_unit(struct load_rng *r)
{
	return ((double)(load_rng_next(r) >> 11) + 0.5) * 0x1.0p-53;
}

double load_rng_exp(struct load_rng *r, double mean)
{
	return -mean * log(load_rng_unit(r));
}

uint32_t load_rng_lognormal(struct load_rng *r, double mean, double sigma)
{
	double normal, v;

	if (mean < 1)
		mean = 1;
	if (sigma <= 0)
		return mean < LOAD_TOKENS_MAX ? (uint32_t)lround(mean) : LOAD_TOKENS_MAX;
	/* Box and Muller; E[exp(mu + sigma N)] = exp(mu + sigma^2/2). */
	normal = sqrt(-2.0 * log(load_rng_unit(r))) * cos(2.0 * M_PI * load_rng_unit(r));
	v = exp(log(mean) - sigma * sigma / 2 + sigma * normal);
	if (v < 1)
		return 1;
	return v < LOAD_TOKENS_MAX ? (uint32_t)lround(v) : LOAD_TOKENS_MAX;
}

uint32_t load_rng_geometric(struct load_rng *r, double mean, uint32_t max)
{
	double n;

	if (mean <= 1)
		return 1;
	n = 1 + floor(log(load_rng_unit(r)) / log(1 - 1 / mean));
	return n < max ? (uint32_t)n : max;
}
