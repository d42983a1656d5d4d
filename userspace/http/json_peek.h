/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reads the members of a JSON object that may be cut anywhere. No tree, no
 * allocation, linear; what is malformed simply ends. Private to this room (it
 * looks at engines' answers; request bodies have a scanner of their own). */
#ifndef KVSTEER_HTTP_JSON_PEEK_H
#define KVSTEER_HTTP_JSON_PEEK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_member {
	const char *key; /* raw, without quotes */
	size_t key_len;
	const char *value; /* raw; a string begins with its quote */
	size_t value_len;
	bool complete; /* the value's end was seen */
};

struct json_peek {
	const char *p, *end;
};

/* Positions before the first member of the object that begins at s (whitespace
 * allowed). False if no object begins there. */
bool json_peek_object(struct json_peek *j, const char *s, const char *end);
/* Next member; false at the end of the object or of the bytes. */
bool json_peek_next(struct json_peek *j, struct json_member *m);

bool json_key_is(const struct json_member *m, const char *key);
/* The value is the string `s` (which needs no escapes). */
bool json_string_is(const struct json_member *m, const char *s);
/* A complete non-negative integer, also inside quotes. */
bool json_u64(const struct json_member *m, uint64_t *out);
#endif
