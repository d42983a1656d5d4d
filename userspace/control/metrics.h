/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The metrics page: which families there are and where their figures come from. */
#ifndef KVSTEER_CONTROL_METRICS_H
#define KVSTEER_CONTROL_METRICS_H
#include <stdio.h>

struct view;

/* Every family, also those without samples yet. */
void metrics_write(FILE *out, const struct view *v);
#endif
