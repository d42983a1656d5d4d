/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/zipf.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int load_zipf_init(struct load_zipf *z, uint32_t n, double exponent)
{
	double sum = 0;

	if (n == 0 || !(exponent >= 0))
		return -EINVAL;
	z->cumulative = malloc(n * sizeof(*z->cumulative));
	if (!z->cumulative)
		return -ENOMEM;
	z->n = n;
	for (uint32_t i = 0; i < n; i++) {
		sum += pow(i + 1.0, -exponent);
		z->cumulative[i] = sum;
	}
	for (uint32_t i = 0; i < n; i++)
		z->cumulative[i] /= sum;
	z->cumulative[n - 1] = 1;
	return 0;
}

void load_zipf_free(struct load_zipf *z)
{
	free(z->cumulative);
	z->cumulative = NULL;
	z->n = 0;
}

uint32_t load_zipf_draw(const struct load_zipf *z, struct load_rng *r)
{
	double u = load_rng_unit(r);
	uint32_t lo = 0, hi = z->n - 1;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (z->cumulative[mid] < u)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}
