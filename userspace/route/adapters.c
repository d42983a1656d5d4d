/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "route/adapters.h"

#include <stdlib.h>
#include <string.h>

uint16_t adapter_find(const struct adapter_names *a, const char *name)
{
	uint32_t i;

	if (!name)
		return ADAPTER_NONE;
	for (i = 0; i < a->n; i++)
		if (!strcmp(a->name[i], name))
			return (uint16_t)i;
	return ADAPTER_NONE;
}

uint16_t adapter_id(struct adapter_names *a, const char *name)
{
	uint16_t id = adapter_find(a, name);

	if (!name || id != ADAPTER_NONE || a->n == ROUTE_MAX_ADAPTERS ||
	    strnlen(name, ROUTE_ADAPTER_BYTES) == ROUTE_ADAPTER_BYTES)
		return id;
	if (!a->name) {
		a->name = calloc(ROUTE_MAX_ADAPTERS, ROUTE_ADAPTER_BYTES);
		if (!a->name)
			return ADAPTER_NONE;
	}
	memcpy(a->name[a->n], name, strlen(name) + 1);
	return (uint16_t)a->n++;
}

void adapter_names_free(struct adapter_names *a)
{
	free(a->name);
	a->name = NULL;
	a->n = 0;
}

void adapter_set_slots(struct adapter_lru *l, uint32_t slots)
{
	l->slots = slots < ADAPTER_SLOTS_MAX ? slots : ADAPTER_SLOTS_MAX;
	if (l->n > l->slots)
		l->n = l->slots;
}

bool adapter_resident(const struct adapter_lru *l, uint16_t id)
{
	uint32_t i;

	if (id == ADAPTER_NONE)
		return true;
	for (i = 0; i < l->n; i++)
		if (l->id[i] == id)
			return true;
	return false;
}

void adapter_touch(struct adapter_lru *l, uint16_t id)
{
	uint32_t i;

	if (id == ADAPTER_NONE || !l->slots)
		return;
	for (i = 0; i < l->n && l->id[i] != id; i++)
		;
	if (i == l->n) {
		if (l->n < l->slots)
			l->n++;
		else
			i--;
	}
	memmove(&l->id[1], &l->id[0], i * sizeof(l->id[0]));
	l->id[0] = id;
}
