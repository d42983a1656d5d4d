/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/arrivals.h"

#include <math.h>

/* Walks `units` expected arrivals ahead through the alternating periods. */
static double burst_ahead(const struct load_arrivals *a, double t, double units)
{
	double low = LOAD_BURST_LOW_S / a->time_scale, high = LOAD_BURST_HIGH_S / a->time_scale;

	for (;;) {
		double phase = fmod(t, low + high);
		bool is_low = phase < low;
		double left = is_low ? low - phase : low + high - phase;
		double rate = a->rate * (is_low ? LOAD_BURST_LOW : LOAD_BURST_HIGH);

		if (units <= left * rate)
			return t + units / rate;
		units -= left * rate;
		/* Rounding must not leave t just short of the border: step over it. */
		t += left + 1e-12 * (t + 1);
	}
}

double load_arrivals_next(struct load_arrivals *a)
{
	double gap = 1;

	if (a->poisson || a->kind == LOAD_ARRIVE_BURST)
		gap = load_rng_exp(&a->rng, 1);
	switch (a->kind) {
	case LOAD_ARRIVE_STEADY:
		if (a->poisson)
			a->t_s += gap / a->rate;
		else
			a->t_s = (double)a->n / a->rate;
		break;
	case LOAD_ARRIVE_BURST:
		a->t_s = burst_ahead(a, a->t_s, gap);
		break;
	case LOAD_ARRIVE_CONVERSATIONS: {
		double filled = 1 - exp(-a->t_s * a->time_scale / a->cycle_s);

		a->t_s += gap / (a->rate * (1 - a->comeback * filled));
		break;
	}
	}
	a->n++;
	return a->t_s;
}
