/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scraper's own view of its targets; nobody else includes this. */
#ifndef KVSTEER_SIGNALS_SCRAPE_TARGET_H
#define KVSTEER_SIGNALS_SCRAPE_TARGET_H
#include <curl/curl.h>

#include "signals/scraper.h"

enum read_kind { READ_NONE, READ_METRICS, READ_PROPS };

/* Written by the scraper's thread alone once it is in the thread's list. */
struct scrape_target {
	char *url;
	char *props_url;
	uint64_t cookie;
	uint64_t interval_ns;
	uint64_t timeout_ns;
	enum engine_kind hint;

	CURL *easy;
	enum read_kind reading;
	struct engine_reader *reader; /* while READ_METRICS */
	char *props;                  /* while READ_PROPS */
	size_t body_bytes;
	bool body_too_big;
	uint64_t started_ns;
	uint64_t slot_ns; /* the middle of the present turn */
	uint64_t due_ns;  /* slot plus jitter */
	uint64_t props_retry_ns;
	bool restarted;   /* seen, not yet told */
	struct engine_memory memory;
};

/* Sorted by cookie, then URL. */
struct scrape_list {
	size_t n;
	struct scrape_target *at[];
};

/* Copies `from`. Returns NULL without memory. Nothing is scheduled yet. */
struct scrape_target *scrape_target_create(const struct scraper_target *from);
/* Frees it; it must not be reading. NULL is allowed. */
void scrape_target_free(struct scrape_target *t);
/* The order of lists: < 0, 0, > 0. */
int scrape_target_compare(const struct scrape_target *a, const struct scrape_target *b);

/* A sorted list of copies, or NULL without memory. */
struct scrape_list *scrape_list_create(const struct scraper_target *targets, size_t n);
/* Frees the list and its targets. NULL is allowed. */
void scrape_list_free(struct scrape_list *list);
#endif
