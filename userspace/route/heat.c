/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "route/heat.h"

#include <math.h>

static double decayed(double count, uint64_t when_ns, uint64_t now_ns)
{
	if (now_ns <= when_ns)
		return count;
	return count * exp(-(double)(now_ns - when_ns) / (HEAT_TAU_S * 1e9));
}

static void count_one(struct heat_entry *ways, uint64_t hash, uint64_t now_ns)
{
	struct heat_entry *coldest = &ways[0];
	double least = INFINITY, c;
	int i;

	for (i = 0; i < HEAT_WAYS; i++) {
		c = decayed(ways[i].count, ways[i].when_ns, now_ns);
		if (ways[i].hash == hash && ways[i].count > 0) {
			ways[i].count = c + 1;
			ways[i].when_ns = now_ns;
			return;
		}
		if (c < least) {
			least = c;
			coldest = &ways[i];
		}
	}
	coldest->hash = hash;
	coldest->count = 1;
	coldest->when_ns = now_ns;
}

void heat_add(struct heat *h, const uint64_t *hash, uint32_t n, uint64_t now_ns)
{
	uint32_t i;

	for (i = 0; i < n && i < HEAT_BLOCKS; i++)
		count_one(h->set[hash[i] % HEAT_SETS], hash[i], now_ns);
	h->total = decayed(h->total, h->when_ns, now_ns) + 1;
	h->when_ns = now_ns;
}

double heat_share(const struct heat *h, uint64_t hash, uint64_t now_ns)
{
	const struct heat_entry *ways = h->set[hash % HEAT_SETS];
	double total = decayed(h->total, h->when_ns, now_ns);
	int i;

	if (total < HEAT_MIN_TOTAL)
		return 0;
	for (i = 0; i < HEAT_WAYS; i++)
		if (ways[i].hash == hash)
			return decayed(ways[i].count, ways[i].when_ns, now_ns) / total;
	return 0;
}
