/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations on the waiting queue, two bytes each, beside a list. Holds: the same entries at any time; never
 * beyond the limit; highest priority first, one tenant in its order; what is put back is next; counters
 * add up; Retry-After is in its bounds. */
#include <errno.h>
#include <stdlib.h>

#include "route/queue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

#define N 48

struct model {
	struct queue q;
	struct queue_entry e[N];
	bool in[N];
	uint64_t order[N], next; /* of arrival */
	uint32_t len;
};

static void push(struct model *m, unsigned i, uint8_t arg, uint64_t now_ns)
{
	static const int priority[] = { 0, 0, 0, 1, -1, 100, -100, 1000 };
	int err;

	if (m->in[i]) {
		CHECK(queue_push(&m->q, &m->e[i], now_ns) == -EALREADY);
		return;
	}
	m->e[i] = (struct queue_entry){ .tenant = arg % 5, .priority = priority[arg / 5 % 8], .cost_tokens = (uint32_t)arg * arg };
	err = queue_push(&m->q, &m->e[i], now_ns);
	CHECK(err == (m->len >= m->q.limit ? -ENOSPC : 0));
	if (err)
		return;
	m->in[i] = true;
	m->order[i] = ++m->next;
	m->len++;
}

static int clamped(int priority)
{
	return priority > QUEUE_PRIORITY_MAX ? QUEUE_PRIORITY_MAX : priority < QUEUE_PRIORITY_MIN ? QUEUE_PRIORITY_MIN : priority;
}

static void pop(struct model *m, bool put_back)
{
	struct queue_entry *peek = queue_peek(&m->q), *e = queue_pop(&m->q);
	size_t at;

	CHECK(e == peek && !e == !m->len);
	if (!e)
		return;
	at = (size_t)(e - m->e);
	CHECK(at < N && m->in[at]);
	for (unsigned k = 0; k < N; k++) {
		if (!m->in[k] || k == at)
			continue;
		CHECK(clamped(m->e[k].priority) <= clamped(e->priority));
		if (clamped(m->e[k].priority) == clamped(e->priority) && m->e[k].tenant == e->tenant)
			CHECK(m->order[k] > m->order[at]);
	}
	if (put_back) {
		CHECK(!queue_unpop(&m->q, e) && queue_peek(&m->q) == e);
		return;
	}
	m->in[at] = false;
	m->len--;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model *m = calloc(1, sizeof(*m));
	uint64_t now = 1;

	CHECK(m && !queue_init(&m->q, size ? data[0] % N : 0));
	for (size_t at = 1; at + 1 < size && at < 4096; at += 2) {
		unsigned op = data[at] % 8, i = data[at] / 8 + (op & 1) * 16;
		uint8_t arg = data[at + 1];
		unsigned after;

		now += (uint64_t)arg << (arg % 30);
		if (op < 3) {
			push(m, i % N, arg, now);
		} else if (op < 5) {
			queue_note_release(&m->q, now);
			pop(m, arg % 4 == 0);
		} else if (op == 5) {
			CHECK(queue_remove(&m->q, &m->e[i % N]) == m->in[i % N]);
			m->len -= m->in[i % N];
			m->in[i % N] = false;
		} else if (op == 6) {
			CHECK(!queue_set_limit(&m->q, arg % N));
		} else {
			queue_set_slots(&m->q, arg);
		}
		CHECK(queue_len(&m->q) == m->len && !queue_peek(&m->q) == !m->len);
		CHECK(m->q.pushed == m->q.popped + m->q.removed + m->len);
		after = queue_retry_after_s(&m->q, now, arg);
		CHECK(after >= 1 && after <= QUEUE_RETRY_AFTER_MAX_S && (after <= arg || after == 1));
	}
	while (m->len)
		pop(m, false);
	CHECK(!queue_pop(&m->q));
	queue_destroy(&m->q);
	free(m);
	return 0;
}
