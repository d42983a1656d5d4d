/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Prometheus text format 0.0.4: rendering only. */
#ifndef KVSTEER_CONTROL_PROM_H
#define KVSTEER_CONTROL_PROM_H
#include <stdint.h>
#include <stdio.h>

#include "base/hist.h"

struct prom_label {
	const char *name, *value; /* ended by a NULL name */
};
#define PROM_LABELS(...) ((const struct prom_label[]){ __VA_ARGS__, { NULL, NULL } })
#define PROM_NONE ((const struct prom_label[]){ { NULL, NULL } })

/* HELP and TYPE; type: "counter", "gauge", "histogram", "summary". All samples of a family follow its head. */
void prom_family(FILE *out, const char *name, const char *type, const char *help);
void prom_uint(FILE *out, const char *name, const struct prom_label *labels, uint64_t value);
void prom_real(FILE *out, const char *name, const struct prom_label *labels, double value);
/* Cumulative buckets, +Inf, sum in seconds and count. count is the buckets' sum, so
 * that a histogram that is read while it is written agrees with itself. */
void prom_histogram(FILE *out, const char *name, const struct prom_label *labels, const struct hist *h,
		    const struct hist_bounds *bounds);
#endif
