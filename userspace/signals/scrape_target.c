/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "signals/scrape_target.h"

#include <stdlib.h>
#include <string.h>

/* http://host/a/metrics?x -> http://host/a/props */
static char *props_url_of(const char *url)
{
	size_t len = strcspn(url, "?#");
	const char *authority = strstr(url, "://");
	const char *name;
	size_t host = authority ? (size_t)(authority - url) + 3 : 0;
	char *out;

	while (len > host && url[len - 1] != '/')
		len--;
	if (len == host) /* no path at all */
		len = strcspn(url, "?#");
	name = len && url[len - 1] == '/' ? "props" : "/props";
	out = malloc(len + sizeof("/props"));
	if (!out)
		return NULL;
	memcpy(out, url, len);
	memcpy(out + len, name, strlen(name) + 1);
	return out;
}

void scrape_target_free(struct scrape_target *t)
{
	if (!t)
		return;
	if (t->easy)
		curl_easy_cleanup(t->easy);
	free(t->reader);
	free(t->props);
	free(t->props_url);
	free(t->url);
	free(t);
}

struct scrape_target *scrape_target_create(const struct scraper_target *from)
{
	struct scrape_target *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->url = strdup(from->url);
	t->props_url = t->url ? props_url_of(t->url) : NULL;
	if (!t->props_url) {
		scrape_target_free(t);
		return NULL;
	}
	t->cookie = from->cookie;
	t->hint = from->engine;
	t->interval_ns = from->interval_ns < SCRAPE_INTERVAL_MIN_NS ? SCRAPE_INTERVAL_MIN_NS : from->interval_ns;
	t->timeout_ns = from->timeout_ns;
	if (!t->timeout_ns)
		t->timeout_ns = t->interval_ns < SCRAPE_TIMEOUT_MAX_NS / 4 ? 4 * t->interval_ns : SCRAPE_TIMEOUT_MAX_NS;
	return t;
}

int scrape_target_compare(const struct scrape_target *a, const struct scrape_target *b)
{
	if (a->cookie != b->cookie)
		return a->cookie < b->cookie ? -1 : 1;
	return strcmp(a->url, b->url);
}

static int compare_for_qsort(const void *a, const void *b)
{
	return scrape_target_compare(*(struct scrape_target *const *)a, *(struct scrape_target *const *)b);
}

void scrape_list_free(struct scrape_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->n; i++)
		scrape_target_free(list->at[i]);
	free(list);
}

struct scrape_list *scrape_list_create(const struct scraper_target *targets, size_t n)
{
	struct scrape_list *list = calloc(1, sizeof(*list) + n * sizeof(list->at[0]));

	if (!list)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		list->at[i] = scrape_target_create(&targets[i]);
		if (!list->at[i]) {
			scrape_list_free(list);
			return NULL;
		}
		list->n++;
	}
	qsort(list->at, n, sizeof(list->at[0]), compare_for_qsort);
	return list;
}
