/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Results for people and for programs. */
#ifndef KVSTEER_LOAD_REPORT_H
#define KVSTEER_LOAD_REPORT_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "load/options.h"
#include "load/stats.h"

/* Above this the generator itself spoils the figures. */
#define LOAD_LATE_WARN_MS 10.0

struct load_report {
	const struct load_options *o;
	const struct load_stats *stats;
	uint64_t reconnects;
	bool capped;        /* all connections were in use: requests waited for one */
	uint64_t sent;      /* with the warm-up */
	uint64_t ended;
	uint32_t in_flight;
	double elapsed_s;
};

/* A table; the warning about late sending goes to `err`. */
void load_report_table(const struct load_report *r, FILE *out, FILE *err);
/* One progress line without its end. */
void load_report_progress(const struct load_report *r, FILE *out);
/* Writes the JSON to `path` ("-": stdout). Returns 0 or -errno. */
int load_report_json(const struct load_report *r, const char *path);
#endif
