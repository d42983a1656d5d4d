/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

int load_trace_open(struct load_trace *t, const char *path, bool poisson, uint64_t seed)
{
	*t = (struct load_trace){ .name = path, .poisson = poisson, .first_ms = -1 };
	load_rng_seed(&t->rng, seed, 0x7472);
	t->file = fopen(path, "re");
	return t->file ? 0 : -errno;
}

static void drop_group(struct load_trace *t)
{
	for (uint32_t i = 0; i < t->group_len; i++)
		free(t->group[i].ids);
	t->group_len = t->group_next = 0;
}

void load_trace_close(struct load_trace *t)
{
	drop_group(t);
	free(t->group);
	if (t->has_ahead)
		free(t->ahead.ids);
	free(t->text);
	if (t->file)
		fclose(t->file);
	memset(t, 0, sizeof(*t));
}

static int malformed(struct load_trace *t, const char *what)
{
	snprintf(t->error, sizeof(t->error), "%s:%llu: %s", t->name, (unsigned long long)t->line, what);
	return -EINVAL;
}

static bool tokens_of(yyjson_val *root, const char *key, uint32_t *out)
{
	yyjson_val *v = yyjson_obj_get(root, key);

	if (!yyjson_is_uint(v) || yyjson_get_uint(v) < 1 || yyjson_get_uint(v) > LOAD_TOKENS_MAX)
		return false;
	*out = (uint32_t)yyjson_get_uint(v);
	return true;
}

static int read_object(struct load_trace *t, yyjson_val *root, struct load_trace_record *r)
{
	yyjson_val *stamp = yyjson_obj_get(root, "timestamp"), *ids = yyjson_obj_get(root, "hash_ids"), *id;
	size_t i, n, blocks;

	if (!yyjson_is_obj(root))
		return malformed(t, "not a JSON object");
	if (!yyjson_is_num(stamp) || !(yyjson_get_num(stamp) >= 0))
		return malformed(t, "timestamp must be a number of milliseconds, 0 or more");
	if (!tokens_of(root, "input_length", &r->input_tokens))
		return malformed(t, "input_length must be a whole number 1..1048576");
	if (!tokens_of(root, "output_length", &r->output_tokens))
		return malformed(t, "output_length must be a whole number 1..1048576");
	if (!yyjson_is_arr(ids))
		return malformed(t, "hash_ids must be an array");
	n = yyjson_arr_size(ids);
	blocks = (r->input_tokens + LOAD_TRACE_BLOCK_TOKENS - 1) / LOAD_TRACE_BLOCK_TOKENS;
	if (n != blocks)
		return malformed(t, "hash_ids must hold one id for each 512 tokens of input_length");
	r->at_ms = yyjson_get_num(stamp);
	r->ids = malloc(n * sizeof(*r->ids));
	if (!r->ids)
		return -ENOMEM;
	r->n_ids = (uint32_t)n;
	for (i = 0; i < n; i++) {
		id = yyjson_arr_get(ids, i);
		if (!yyjson_is_uint(id)) {
			free(r->ids);
			return malformed(t, "hash_ids must hold whole numbers, 0 or more");
		}
		r->ids[i] = yyjson_get_uint(id);
	}
	return 0;
}

/* Returns 1, 0 at the end, or an error. */
static int read_record(struct load_trace *t, struct load_trace_record *r)
{
	yyjson_doc *doc;
	ssize_t n;
	int rc;

	do {
		n = getline(&t->text, &t->text_cap, t->file);
		if (n < 0)
			return ferror(t->file) ? malformed(t, "read error") : 0;
		t->line++;
		if ((size_t)n > LOAD_TRACE_LINE_MAX)
			return malformed(t, "the line is longer than 8 MiB");
	} while (strspn(t->text, " \t\r\n") == (size_t)n);
	doc = yyjson_read(t->text, (size_t)n, 0);
	if (!doc)
		return malformed(t, "not JSON");
	rc = read_object(t, yyjson_doc_get_root(doc), r);
	yyjson_doc_free(doc);
	return rc ? rc : 1;
}

static int by_time(const void *a, const void *b)
{
	double x = ((const struct load_trace_record *)a)->at_ms, y = ((const struct load_trace_record *)b)->at_ms;

	return (x > y) - (x < y);
}

/* Records that share a stamp came somewhere in the interval that was rounded to it. */
static void spread_group(struct load_trace *t, double stamp_ms)
{
	double width = LOAD_TRACE_SPREAD_MS;

	if (t->has_ahead && t->ahead.at_ms - stamp_ms < width)
		width = t->ahead.at_ms - stamp_ms;
	for (uint32_t i = 0; i < t->group_len; i++) {
		double place = t->poisson ? load_rng_unit(&t->rng) : (double)i / t->group_len;

		t->group[i].at_ms = stamp_ms - t->first_ms + width * place;
	}
	if (t->poisson)
		qsort(t->group, t->group_len, sizeof(*t->group), by_time);
}

static int read_group(struct load_trace *t)
{
	double stamp_ms = 0;
	int rc = 1;

	drop_group(t);
	for (;;) {
		if (!t->has_ahead) {
			rc = read_record(t, &t->ahead);
			if (rc < 0)
				return rc;
			if (!rc)
				break;
			t->has_ahead = true;
			if (t->first_ms < 0)
				t->first_ms = t->ahead.at_ms;
		}
		if (!t->group_len)
			stamp_ms = t->ahead.at_ms;
		else if (t->ahead.at_ms < stamp_ms)
			return malformed(t, "timestamp goes back");
		else if (t->ahead.at_ms > stamp_ms)
			break;
		if (t->group_len == LOAD_TRACE_GROUP_MAX)
			return malformed(t, "more than 65536 records with one timestamp");
		if (t->group_len == t->group_cap) {
			uint32_t cap = t->group_cap ? t->group_cap * 2 : 32;
			void *group = realloc(t->group, cap * sizeof(*t->group));

			if (!group)
				return -ENOMEM;
			t->group = group;
			t->group_cap = cap;
		}
		t->group[t->group_len++] = t->ahead;
		t->has_ahead = false;
	}
	spread_group(t, stamp_ms);
	return 0;
}

int load_trace_next(struct load_trace *t, const struct load_trace_record **record)
{
	if (t->group_next == t->group_len) {
		int rc = read_group(t);

		if (rc)
			return rc;
		if (!t->group_len)
			return 0;
	}
	*record = &t->group[t->group_next++];
	return 1;
}
