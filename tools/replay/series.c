/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/series.h"

#include <math.h>

#include "replay/must.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void replay_series_add(struct replay_series *s, double v)
{
	if (s->n == s->room)
		s->v = must_grow(s->v, &s->room, sizeof(*s->v));
	s->v[s->n++] = v;
}

double replay_series_quantile(struct replay_series *s, double q)
{
	if (!s->n)
		return NAN;
	qsort(s->v, s->n, sizeof(*s->v), by_value);
	return s->v[(uint32_t)(q * (s->n - 1) + 0.5)];
}

double replay_median(double *v, uint32_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
