/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Names asked for all at once. The resolver is this file's own: it answers when the test says so.
 *
 * Story: names were asked for one after the other, so that a resolver that did not answer cost its time-out
 * once for each name, at the start and at every reload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>

#include "base/clock.h"
#include "config/config.h"
#include "config/names.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned inside, together, asked; /* callers in getaddrinfo() now; how many it takes; calls in all */
static bool open_gate;			 /* "gate" answers */

/* In place of libc's. "together*": answers once `together` callers are inside at the same time, "gate*":
 * when open_gate is set, "no*": has no address, others: at once. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
	struct sockaddr_in *sin;
	int r = 0;

	pthread_mutex_lock(&lock);
	asked++;
	inside++;
	pthread_cond_broadcast(&changed);
	while (!strncmp(node, "together", 8) && inside < together)
		pthread_cond_wait(&changed, &lock);
	while (!strncmp(node, "gate", 4) && !open_gate)
		pthread_cond_wait(&changed, &lock);
	if (strncmp(node, "together", 8)) {
		inside--;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	if (!strncmp(node, "no", 2))
		return EAI_NONAME;
	*res = calloc(1, sizeof(**res) + sizeof(*sin));
	sin = (struct sockaddr_in *)(*res + 1);
	sin->sin_family = AF_INET;
	sin->sin_port = htons((uint16_t)atoi(service));
	(*res)->ai_addr = (struct sockaddr *)sin;
	(*res)->ai_addrlen = sizeof(*sin);
	return r;
}

void freeaddrinfo(struct addrinfo *ai)
{
	free(ai);
}

static int begin(void **state)
{
	inside = together = asked = 0;
	open_gate = false;
	return 0;
}

static struct config *load(unsigned n, const char *kind)
{
	struct config_error err;
	struct config *cfg;
	char text[16384];
	int at = snprintf(text, sizeof(text), "pools:\n  - name: p\n    backends:\n");

	for (unsigned i = 0; i < n; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "      - url: http://%s%u:%u\n", kind, i, 9000 + i);
	assert_int_equal(config_load_buffer(text, (size_t)at, "t", &cfg, &err), 0);
	return cfg;
}

/* None of these answers before all are asked for: one after the other would wait for ever. */
static void test_all_at_once(void **state)
{
	struct config *cfg = load(NAME_LOOKUP_THREADS, "together");
	struct config_error err;

	together = NAME_LOOKUP_THREADS;
	assert_int_equal(config_resolve(cfg, &err), 0);
	for (unsigned i = 0; i < NAME_LOOKUP_THREADS; i++)
		assert_int_equal(ntohs(((const struct sockaddr_in *)&cfg->pools[0].backends[i].sa)->sin_port), 9000 + i);
	config_unref(cfg);
}

static void test_more_names_than_threads(void **state)
{
	struct config *cfg = load(100, "ok");
	struct config_error err;

	assert_int_equal(config_resolve(cfg, &err), 0);
	assert_int_equal(asked, 100);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(ntohs(((const struct sockaddr_in *)&cfg->pools[0].backends[i].sa)->sin_port), 9000 + i);
	config_unref(cfg);
}

/* What has an answer has it, whatever the others do; and nobody waits for those beyond the given time. */
static void test_patience(void **state)
{
	struct name_lookup *l = name_lookup_new(4);
	struct sockaddr_storage sa;
	socklen_t len = 0;
	const char *why;

	name_lookup_add(l, "ok", 1);
	name_lookup_add(l, "gate", 2);
	name_lookup_add(l, "none", 3);
	name_lookup_add(l, "ok", 1);
	assert_int_equal(name_lookup_count(l), 3);
	name_lookup_start(l);
	while (name_lookup_result(l, "none", 3, &sa, &len, &why) || strcmp(why, gai_strerror(EAI_NONAME)))
		assert_false(name_lookup_wait(l, 1000000));
	while (!name_lookup_result(l, "ok", 1, &sa, &len, &why))
		assert_false(name_lookup_wait(l, 1000000));
	assert_int_equal(len, sizeof(struct sockaddr_in));
	assert_false(name_lookup_result(l, "gate", 2, &sa, &len, &why));
	assert_string_equal(why, "the resolver has not answered in time");
	assert_false(name_lookup_done(l));
	pthread_mutex_lock(&lock);
	open_gate = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	assert_true(name_lookup_wait(l, 10 * NSEC_PER_SEC));
	assert_true(name_lookup_result(l, "gate", 2, &sa, &len, &why));
	name_lookup_put(l);
}

/* Given up while the resolver still owes an answer: the last thread frees it, and no further name is asked for. */
static void test_abandoned(void **state)
{
	struct name_lookup *l = name_lookup_new(2 * NAME_LOOKUP_THREADS);

	for (unsigned i = 0; i < 2 * NAME_LOOKUP_THREADS; i++)
		name_lookup_add(l, "gate", (uint16_t)i);
	name_lookup_start(l);
	pthread_mutex_lock(&lock);
	while (inside < NAME_LOOKUP_THREADS)
		pthread_cond_wait(&changed, &lock);
	name_lookup_put(l);
	open_gate = true;
	pthread_cond_broadcast(&changed);
	while (inside)
		pthread_cond_wait(&changed, &lock);
	assert_int_equal(asked, NAME_LOOKUP_THREADS);
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all_at_once, begin),
		cmocka_unit_test_setup(test_more_names_than_threads, begin),
		cmocka_unit_test_setup(test_patience, begin),
		cmocka_unit_test_setup(test_abandoned, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
