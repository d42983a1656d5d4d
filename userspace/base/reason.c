/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/reason.h"

#include <string.h>

static const struct {
	const char *name;
	int status;
} reasons[REASON_COUNT] = {
#define X(id, text, code) [REASON_##id] = { text, code },
	REASON_TABLE(X)
#undef X
};

const char *reason_name(enum reason r)
{
	return (unsigned)r < REASON_COUNT ? reasons[r].name : "-";
}

int reason_status(enum reason r)
{
	return (unsigned)r < REASON_COUNT ? reasons[r].status : 0;
}

enum reason reason_from_name(const char *name)
{
	for (unsigned i = 1; i < REASON_COUNT; i++)
		if (!strcmp(reasons[i].name, name))
			return (enum reason)i;
	return REASON_BAD_REQUEST;
}
