/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

void json_start(struct json *j)
{
	memset(j, 0, sizeof(*j));
	j->doc = yyjson_mut_doc_new(NULL);
	j->stack[0] = yyjson_mut_obj(j->doc);
	j->failed = !j->stack[0];
	if (!j->failed)
		yyjson_mut_doc_set_root(j->doc, j->stack[0]);
}

static void json_add(struct json *j, const char *key, yyjson_mut_val *v)
{
	yyjson_mut_val *in = j->stack[j->depth];

	if (j->failed)
		return;
	if (!v || (yyjson_mut_is_obj(in) ? !key || !yyjson_mut_obj_add(in, yyjson_mut_str(j->doc, key), v)
					 : key || !yyjson_mut_arr_append(in, v)))
		j->failed = true;
}

static void json_open(struct json *j, const char *key, yyjson_mut_val *v)
{
	json_add(j, key, v);
	if (j->depth + 1 == JSON_DEPTH)
		j->failed = true;
	if (!j->failed)
		j->stack[++j->depth] = v;
}

void json_object(struct json *j, const char *key)
{
	json_open(j, key, yyjson_mut_obj(j->doc));
}

void json_array(struct json *j, const char *key)
{
	json_open(j, key, yyjson_mut_arr(j->doc));
}

void json_end(struct json *j)
{
	if (!j->depth)
		j->failed = true;
	else if (!j->failed)
		j->depth--;
}

/* Length of the UTF-8 character at s (RFC 3629 section 4), 0 if it is none. */
static unsigned json_utf8_len(const unsigned char *s)
{
	unsigned n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	for (unsigned i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

void json_str(struct json *j, const char *key, const char *value)
{
	char *clean;

	if (!value) {
		json_null(j, key);
		return;
	}
	clean = strdup(value);
	if (!clean) {
		j->failed = true;
		return;
	}
	for (char *p = clean; *p;) {
		unsigned n = json_utf8_len((const unsigned char *)p);

		if (!n)
			*p = '?';
		p += n ? n : 1;
	}
	json_add(j, key, yyjson_mut_strcpy(j->doc, clean));
	free(clean);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	json_add(j, key, yyjson_mut_uint(j->doc, value));
}

void json_bool(struct json *j, const char *key, bool value)
{
	json_add(j, key, yyjson_mut_bool(j->doc, value));
}

void json_null(struct json *j, const char *key)
{
	json_add(j, key, yyjson_mut_null(j->doc));
}

void json_real(struct json *j, const char *key, double value, int decimals)
{
	double scale = pow(10, decimals);

	if (!isfinite(value))
		json_null(j, key);
	else
		json_add(j, key, yyjson_mut_real(j->doc, fabs(value) < 1e12 ? round(value * scale) / scale : value));
}

char *json_finish(struct json *j, size_t *len)
{
	char *text = NULL;
	size_t n = 0;

	if (!j->failed)
		text = yyjson_mut_write(j->doc, YYJSON_WRITE_PRETTY | YYJSON_WRITE_NEWLINE_AT_END, &n);
	yyjson_mut_doc_free(j->doc);
	j->doc = NULL;
	if (len)
		*len = text ? n : 0;
	return text;
}
