/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* x-kvsteer-reason: why the backend was chosen, in one line. Part of every answer,
 * hence no printf: its floating point alone costs as much as parsing a head. */
#include <stdio.h>
#include <string.h>

#include "gateway/exchange.h"

struct line {
	char *p;
	size_t len, cap;
};

static void put(struct line *l, const char *s, size_t n)
{
	if (n > l->cap - l->len)
		n = l->cap - l->len;
	memcpy(l->p + l->len, s, n);
	l->len += n;
}

/* The name comes with its blank before and '=' behind it. */
static void put_number(struct line *l, const char *name, uint64_t v)
{
	char text[20];
	size_t i = sizeof(text);

	do
		text[--i] = (char)('0' + v % 10);
	while (v /= 10);
	put(l, name, strlen(name));
	put(l, text + i, sizeof(text) - i);
}

static void put_tenths(struct line *l, const char *name, double v)
{
	if (v >= 0 && v < 1e15) {
		uint64_t tenths = (uint64_t)(v * 10 + .5);
		char digit[2] = { '.', (char)('0' + tenths % 10) };

		put_number(l, name, tenths / 10);
		put(l, digit, 2);
	} else { /* no plan says so; but not a number is a double too */
		char text[32];

		put(l, name, strlen(name));
		put(l, text, (size_t)snprintf(text, sizeof(text), "%.1g", v));
	}
}

size_t exchange_explain(const struct exchange *x, char *buf, size_t cap)
{
	const struct route_plan *p = &x->plan;
	const char *policy = config_policy_name(x->pool->cfg->policy);
	struct line l = { buf, 0, cap };

	put(&l, "policy=", 7);
	put(&l, policy, strlen(policy));
	put_number(&l, " match=", p->match_tokens);
	put_number(&l, " of=", p->prompt_tokens);
	put_tenths(&l, " wait_ms=", p->wait_ms);
	put_tenths(&l, " ttft_ms=", p->ttft_ms);
	if (x->queued_ns)
		put_tenths(&l, " queued_ms=", (double)x->queued_ns * 1e-6);
	if (p->overflow)
		put_number(&l, " overflow=", 1);
	if (x->tries > 1)
		put_number(&l, " retry=", 1);
	return l.len;
}
