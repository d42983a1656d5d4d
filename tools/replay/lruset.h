/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* (block, node) pairs with an LRU list for each node, or one for all: what index policies believe the nodes hold. */
#ifndef KVSTEER_REPLAY_LRUSET_H
#define KVSTEER_REPLAY_LRUSET_H
#include <stdbool.h>
#include <stdint.h>

struct lruset;

/* `lists`: 1, or one for each node; each holds `room` pairs. */
struct lruset *lruset_new(uint32_t lists, uint32_t room);
void lruset_free(struct lruset *s);
/* Every `stride`-th of the chained hashes counts, from number stride - 1 on. Leading ones that the
 * node has and that were touched since `since_ns`. */
uint32_t lruset_match(const struct lruset *s, uint32_t node, const uint64_t *hash, uint32_t n, uint32_t stride,
		      uint64_t since_ns);
/* Makes or refreshes them all, the first ones freshest. */
void lruset_touch(struct lruset *s, uint32_t node, const uint64_t *hash, uint32_t n, uint32_t stride, uint64_t now_ns);
uint32_t lruset_pairs(const struct lruset *s);
#endif
