/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One run: the source's requests through the client into the statistics. */
#ifndef KVSTEER_LOAD_RUN_H
#define KVSTEER_LOAD_RUN_H
#include "load/options.h"

/* How long answers are waited for when sending has stopped. */
#define LOAD_DRAIN_S 60

/* Runs to the end and reports. Returns the exit code: 0 or 1. */
int load_run(const struct load_options *o);
#endif
