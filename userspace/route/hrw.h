/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rendezvous hashing (Thaler, Ravishankar 1998): each key has its own order of
 * the nodes; a node that comes or goes moves its own keys only. */
#ifndef KVSTEER_ROUTE_HRW_H
#define KVSTEER_ROUTE_HRW_H
#include <stdint.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* Hash of a node's stable name. */
static inline uint64_t hrw_name(const char *name)
{
	return XXH3_64bits(name, strlen(name));
}

/* Weight of the node for the key: the largest wins. */
static inline uint64_t hrw_weight(uint64_t key, uint64_t name_hash)
{
	uint64_t v = key ^ name_hash;

	return XXH3_64bits(&v, sizeof(v));
}
#endif
