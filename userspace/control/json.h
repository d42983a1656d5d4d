/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The one JSON writer of the admin socket and of kvsteerctl: nested begin/end
 * over yyjson. Errors (no memory, too deep) are kept and told by json_finish(). */
#ifndef KVSTEER_CONTROL_JSON_H
#define KVSTEER_CONTROL_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH 16

struct yyjson_mut_doc;
struct yyjson_mut_val;

struct json {
	struct yyjson_mut_doc *doc;
	struct yyjson_mut_val *stack[JSON_DEPTH];
	unsigned depth;
	bool failed;
};

/* An open object, the root. End it with json_finish() always. */
void json_start(struct json *j);

/* key: name of the value in the object that is open; NULL in an array. Keys must be
 * string constants; values are copied. Bytes that are not UTF-8 become '?'. */
void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
void json_end(struct json *j);
void json_str(struct json *j, const char *key, const char *value); /* NULL: null */
void json_uint(struct json *j, const char *key, uint64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* Rounded to `decimals`; null if not finite, which JSON can't say. */
void json_real(struct json *j, const char *key, double value, int decimals);

/* Ends all that is open; the text (free() it), newline-terminated, or NULL. Frees the rest. */
char *json_finish(struct json *j, size_t *len);
#endif
