/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* LoRA adapters: names to small numbers for a pool, and per node an LRU of what
 * is probably loaded. Engines report adapters in use only, so absence from a
 * report says nothing; own requests and reports both refresh. */
#ifndef KVSTEER_ROUTE_ADAPTERS_H
#define KVSTEER_ROUTE_ADAPTERS_H
#include <stdbool.h>
#include <stdint.h>

#include "route/pool.h"

#define ADAPTER_NONE 0xffffu  /* the base model */
#define ADAPTER_SLOTS_MAX 64u

struct adapter_names {
	uint32_t n;
	char (*name)[ROUTE_ADAPTER_BYTES]; /* ROUTE_MAX_ADAPTERS, or NULL until the first */
};

struct adapter_lru {
	uint32_t n, slots;
	uint16_t id[ADAPTER_SLOTS_MAX]; /* freshest first */
};

/* Number of `name`: ADAPTER_NONE for NULL, and, when the table is full or out of
 * memory, for a new name (it is then placed as the base model is). */
uint16_t adapter_id(struct adapter_names *a, const char *name);
/* The same without adding. */
uint16_t adapter_find(const struct adapter_names *a, const char *name);
void adapter_names_free(struct adapter_names *a);

void adapter_set_slots(struct adapter_lru *l, uint32_t slots);
/* True if loaded, as far as known; ADAPTER_NONE always is. */
bool adapter_resident(const struct adapter_lru *l, uint16_t id);
void adapter_touch(struct adapter_lru *l, uint16_t id);
#endif
