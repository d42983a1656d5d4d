/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The fields of an object whose order doesn't matter: each a digest under the
 * hash of its key. The last of equal keys wins, as in Python. Bounded: an
 * object with more different keys than BAG_MAX has the rest folded in document
 * order (two orders of so wide an object may then differ: a miss, never a
 * wrong match). */
#ifndef KVSTEER_PROMPT_BAG_H
#define KVSTEER_PROMPT_BAG_H
#include <stdint.h>

#define BAG_MAX 32

struct bag_entry {
	uint64_t key, parent, digest, bytes;
};

struct bag {
	uint32_t n;
	uint32_t folded;
	uint64_t fold;
	uint64_t fold_bytes;
	struct bag_entry v[BAG_MAX];
};

void bag_reset(struct bag *b);
/* Sets `key`, a field of the object `parent` (0: the bag's own); `bytes` is what it weighs in the prompt. */
void bag_set(struct bag *b, uint64_t parent, uint64_t key, uint64_t digest, uint64_t bytes);
/* Forgets `key` of `parent`, and every field of the object `key`. */
void bag_remove(struct bag *b, uint64_t parent, uint64_t key);
/* One hash of all that the bag holds, in any order of arrival; 0 if it is empty. Adds the weights to *bytes. */
uint64_t bag_hash(const struct bag *b, uint64_t *bytes);
#endif
