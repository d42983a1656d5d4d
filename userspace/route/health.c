/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "route/health.h"

enum route_result route_result_of_status(int status, bool busy)
{
	/* A client's fault (4xx) must never exclude a node: routers whose breakers counted
	 * it took whole fleets down. 501 is the client's choice of a feature; an engine
	 * that is busy says "another instance", not "broken". */
	if (status == 503 && busy)
		return ROUTE_RESULT_BUSY;
	if (status == 501)
		return ROUTE_RESULT_NEUTRAL;
	return status >= 500 ? ROUTE_RESULT_HTTP_5XX : ROUTE_RESULT_OK;
}

const char *route_result_name(enum route_result result)
{
	static const char *const names[] = {
		[ROUTE_RESULT_OK] = "ok",
		[ROUTE_RESULT_CONNECT_FAILED] = "connect_failed",
		[ROUTE_RESULT_TIMEOUT] = "timeout",
		[ROUTE_RESULT_HTTP_5XX] = "http_5xx",
		[ROUTE_RESULT_RESET] = "reset",
		[ROUTE_RESULT_BUSY] = "busy",
		[ROUTE_RESULT_NEUTRAL] = "neutral",
	};

	return (unsigned)result < sizeof(names) / sizeof(names[0]) ? names[result] : "unknown";
}

enum health_verdict health_check(const struct health *h, uint64_t now_ns)
{
	if (!h->until_ns)
		return HEALTH_OK;
	if (now_ns < h->until_ns)
		return HEALTH_EXCLUDED;
	return h->probe_until_ns && now_ns < h->probe_until_ns ? HEALTH_EXCLUDED : HEALTH_PROBE;
}

bool health_busy(const struct health *h, uint64_t now_ns)
{
	return now_ns < h->busy_until_ns;
}

/* A refusal takes no time: to every policy a full engine looks like the least loaded one and
 * would be asked first by each request. */
static void note_busy(struct health *h, uint64_t now_ns)
{
	if (health_busy(h, now_ns))
		return;
	h->busy_ns = h->busy_ns ? h->busy_ns * 2 : HEALTH_BUSY_MIN_NS;
	if (h->busy_ns > HEALTH_BUSY_MAX_NS)
		h->busy_ns = HEALTH_BUSY_MAX_NS;
	h->busy_until_ns = now_ns + h->busy_ns;
}

void health_probe_begin(struct health *h, uint64_t now_ns)
{
	h->probe_until_ns = now_ns + HEALTH_PROBE_MAX_NS;
}

void health_probe_end(struct health *h)
{
	h->probe_until_ns = 0;
}

static void exclude(struct health *h, enum route_result why, uint64_t now_ns)
{
	/* Failures of requests that were under way when the exclusion began are the same event. */
	if (h->until_ns && now_ns < h->until_ns)
		return;
	h->backoff_ns = h->backoff_ns ? h->backoff_ns * 2 : HEALTH_BACKOFF_MIN_NS;
	if (h->backoff_ns > HEALTH_BACKOFF_MAX_NS)
		h->backoff_ns = HEALTH_BACKOFF_MAX_NS;
	h->until_ns = now_ns + h->backoff_ns;
	h->excluded_ns = h->backoff_ns;
	h->why = why;
	h->probe_until_ns = 0;
}

void health_result(struct health *h, enum route_result result, uint64_t now_ns)
{
	bool failed = result != ROUTE_RESULT_OK;
	uint32_t bad;

	if (result == ROUTE_RESULT_BUSY)
		note_busy(h, now_ns);
	if (result == ROUTE_RESULT_NEUTRAL || result == ROUTE_RESULT_BUSY)
		return;
	/* The answer of a request that it took earlier does not make room. */
	if (!failed && !health_busy(h, now_ns))
		h->busy_ns = 0;
	h->window = (h->window << 1 | failed) & ((1u << HEALTH_WINDOW) - 1);
	if (h->n < HEALTH_WINDOW)
		h->n++;
	if (!failed) {
		h->in_a_row = 0;
		/* The answer of an older request does not end an exclusion that is running. */
		if (h->until_ns && now_ns >= h->until_ns) {
			h->until_ns = h->probe_until_ns = 0;
			h->window = 0;
			h->n = 0;
		}
		/* A clean record of a whole window forgets the back-off, a single answer halves it. */
		if (!h->until_ns)
			h->backoff_ns = h->n >= HEALTH_WINDOW_MIN && !h->window ? 0 : h->backoff_ns / 2;
		if (h->backoff_ns < HEALTH_BACKOFF_MIN_NS)
			h->backoff_ns = 0;
		return;
	}
	h->in_a_row++;
	bad = (uint32_t)__builtin_popcount(h->window);
	if (result == ROUTE_RESULT_CONNECT_FAILED || h->in_a_row >= HEALTH_IN_A_ROW ||
	    (h->n >= HEALTH_WINDOW_MIN && bad * 2 > h->n) || h->until_ns)
		exclude(h, result, now_ns);
}
