/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "route/drain_rate.h"

#include <math.h>

#define TAU_S 15.0
#define NSEC 1e9

void drain_rate_init(struct drain_rate *d)
{
	/* Before anything was seen: one a second, forgotten as soon as there are measurements. */
	*d = (struct drain_rate){ .releases = 1, .seconds = 1 };
}

void drain_rate_assume(struct drain_rate *d, double per_s)
{
	if (!d->measured)
		d->releases = per_s * d->seconds;
}

void drain_rate_saturated(struct drain_rate *d, uint64_t now_ns)
{
	if (d->saturated)
		return;
	d->saturated = true;
	d->at_ns = now_ns;
}

static struct drain_rate advanced(const struct drain_rate *d, uint64_t now_ns)
{
	struct drain_rate out = *d;

	if (d->saturated && now_ns > d->at_ns) {
		double keep = exp(-(double)(now_ns - d->at_ns) / NSEC / TAU_S);

		out.releases = d->releases * keep;
		out.seconds = d->seconds * keep + TAU_S * (1 - keep);
		out.at_ns = now_ns;
	}
	return out;
}

void drain_rate_release(struct drain_rate *d, uint32_t waiting, uint64_t now_ns)
{
	double elapsed_s, share = 1;

	if (!d->saturated)
		return;
	/* The release is spread over the time that led to it: counted whole at its
	 * end it would weigh more than that time, which has decayed by now. */
	elapsed_s = now_ns > d->at_ns ? (double)(now_ns - d->at_ns) / NSEC : 0;
	if (elapsed_s > 1e-6)
		share = TAU_S * -expm1(-elapsed_s / TAU_S) / elapsed_s;
	*d = advanced(d, now_ns);
	d->releases += share;
	d->measured = true;
	if (!waiting)
		d->saturated = false;
}

double drain_rate_per_s(const struct drain_rate *d, uint64_t now_ns)
{
	struct drain_rate now = advanced(d, now_ns);

	return now.releases / now.seconds;
}
