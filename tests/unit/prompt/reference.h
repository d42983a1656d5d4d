/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A slow canonicaliser of chat and completion bodies over yyjson's tree, to
 * check the scanner against. It shares nothing with it: it writes one long
 * string that is equal for two bodies exactly where their keys should be. */
#ifndef KVSTEER_TEST_PROMPT_REFERENCE_H
#define KVSTEER_TEST_PROMPT_REFERENCE_H
#include <yyjson.h>

#include "help.h"

struct text {
	char *p;
	size_t n, cap;
};

static inline void add(struct text *t, const void *p, size_t n)
{
	if (t->n + n > t->cap) {
		t->cap = (t->n + n) * 2;
		t->p = realloc(t->p, t->cap);
		assert_non_null(t->p);
	}
	memcpy(t->p + t->n, p, n);
	t->n += n;
}

/* Everything is written as TAG LENGTH:BYTES, so nothing can be read in two ways. */
static inline void item(struct text *t, const char *tag, const void *p, size_t n)
{
	char head[64];
	int k = snprintf(head, sizeof(head), "%s%zu:", tag, n);

	add(t, head, (size_t)k);
	add(t, p, n);
}

static inline void wrap(struct text *t, const char *tag, struct text *inner)
{
	item(t, tag, inner->p ? inner->p : "", inner->n);
	free(inner->p);
}

static inline bool str_is(yyjson_val *v, const char *s)
{
	return yyjson_is_str(v) && yyjson_get_len(v) == strlen(s) && !memcmp(yyjson_get_str(v), s, strlen(s));
}

/* The last of equal keys, as in Python; NULL where absent or null. */
static inline yyjson_val *last(yyjson_val *obj, const char *key)
{
	yyjson_val *k, *v, *found = NULL;
	size_t i, n;

	yyjson_obj_foreach(obj, i, n, k, v) {
		if (str_is(k, key))
			found = v;
	}
	return found && !yyjson_is_null(found) ? found : NULL;
}

/* A value in document order. */
static inline void value(struct text *t, yyjson_val *v)
{
	struct text in = { 0 };
	yyjson_val *k, *x;
	size_t i, n;

	if (yyjson_is_str(v)) {
		item(t, "s", yyjson_get_str(v), yyjson_get_len(v));
	} else if (yyjson_is_raw(v)) {
		item(t, "n", yyjson_get_raw(v), yyjson_get_len(v));
	} else if (yyjson_is_arr(v)) {
		yyjson_arr_foreach(v, i, n, x)
			value(&in, x);
		wrap(t, "a", &in);
	} else if (yyjson_is_obj(v)) {
		yyjson_obj_foreach(v, i, n, k, x) {
			value(&in, k);
			value(&in, x);
		}
		wrap(t, "o", &in);
	} else {
		add(t, yyjson_is_null(v) ? "z;" : yyjson_is_true(v) ? "t;" : "f;", 2);
	}
}

static inline int by_bytes(const void *a, const void *b)
{
	const struct text *x = a, *y = b;
	int c = memcmp(x->p, y->p, x->n < y->n ? x->n : y->n);

	return c ? c : (x->n > y->n) - (x->n < y->n);
}

/* All fields of an object but those in `skip`, in an order that depends on their names only. Nulls count
 * where `nulls` is set. */
static inline void fields(struct text *t, yyjson_val *obj, const char *const *skip, bool nulls)
{
	struct text *list = calloc(yyjson_obj_size(obj) + 1, sizeof(*list));
	yyjson_val *k, *v, *k2, *v2;
	size_t i, n, i2, n2, m = 0, s;

	assert_non_null(list);
	yyjson_obj_foreach(obj, i, n, k, v) {
		bool out = yyjson_is_null(v) && !nulls;

		for (s = 0; skip && skip[s]; s++)
			out |= str_is(k, skip[s]);
		yyjson_obj_foreach(obj, i2, n2, k2, v2) {
			if (i2 > i && yyjson_get_len(k) == yyjson_get_len(k2) &&
			    !memcmp(yyjson_get_str(k), yyjson_get_str(k2), yyjson_get_len(k)))
				out = true;
		}
		if (out)
			continue;
		value(&list[m], k);
		value(&list[m++], v);
	}
	qsort(list, m, sizeof(*list), by_bytes);
	for (i = 0; i < m; i++)
		wrap(t, "F", &list[i]);
	free(list);
}

static inline void content(struct text *t, yyjson_val *c)
{
	static const char *const known[] = { "text", "type", "cache_control", "annotations", "logprobs", NULL };
	struct text in = { 0 };
	yyjson_val *p;
	size_t i, n;

	if (yyjson_is_str(c)) {
		struct text part = { 0 };

		item(&part, "T", yyjson_get_str(c), yyjson_get_len(c));
		wrap(&in, "P", &part);
	} else if (!yyjson_is_arr(c)) {
		value(&in, c);
	}
	for (i = 0, n = yyjson_arr_size(c); i < n; i++) {
		struct text part = { 0 };
		yyjson_val *text, *type;

		p = yyjson_arr_get(c, i);
		if (yyjson_is_str(p)) {
			item(&part, "T", yyjson_get_str(p), yyjson_get_len(p));
		} else if (yyjson_is_obj(p)) {
			text = last(p, "text");
			type = last(p, "type");
			if (yyjson_is_str(text))
				item(&part, "T", yyjson_get_str(text), yyjson_get_len(text));
			else
				item(&part, "T", "", 0);        /* no text is the empty text */
			if (text && !yyjson_is_str(text))
				value(&part, text);
			if (type && !str_is(type, "text") && !str_is(type, "input_text") && !str_is(type, "output_text")) {
				add(&part, "Y", 1);
				value(&part, type);
			}
			fields(&part, p, known, false);
		} else {
			value(&part, p);
		}
		wrap(&in, "P", &part);
	}
	if (yyjson_is_arr(c) && !n) {           /* no part is one empty part */
		struct text part = { 0 };

		item(&part, "T", "", 0);
		wrap(&in, "P", &part);
	}
	wrap(t, "C", &in);
}

static inline void message(struct text *t, yyjson_val *m)
{
	static const char *const known[] = { "content", "reasoning_content", "reasoning", "tool_calls", "arguments",
					     "output", "id", "status", "annotations", "cache_control", "type", NULL };
	static const char *const streamed[] = { "content", "arguments", "output", NULL };
	yyjson_val *v, *k, *x;
	struct text in = { 0 };
	size_t i, n;

	if (!yyjson_is_obj(m)) {
		if (yyjson_is_str(m)) {
			add(&in, "content", 7);
			content(&in, m);
		} else {
			add(&in, "?", 1);
			value(&in, m);
		}
		wrap(t, "M", &in);
		return;
	}
	fields(&in, m, known, false);
	v = last(m, "type");
	if (v && !str_is(v, "message")) {
		add(&in, "Y", 1);
		value(&in, v);
	}
	/* Two names of one field. */
	v = NULL;
	yyjson_obj_foreach(m, i, n, k, x) {
		if (str_is(k, "reasoning") || str_is(k, "reasoning_content"))
			v = x;
	}
	if (v && !yyjson_is_null(v)) {
		add(&in, "R", 1);
		content(&in, v);
	}
	v = last(m, "tool_calls");
	if (v && !(yyjson_is_arr(v) && !yyjson_arr_size(v))) {
		add(&in, "tool", 4);
		value(&in, v);
	}
	for (i = 0; streamed[i]; i++) {
		v = last(m, streamed[i]);
		if (!v)
			continue;
		add(&in, streamed[i], strlen(streamed[i]));
		content(&in, v);
	}
	wrap(t, "M", &in);
}

static inline bool template_object(const char *name)
{
	return !strcmp(name, "chat_template_kwargs") || !strcmp(name, "mm_processor_kwargs");
}

/* Fields around the messages, each under its name. */
static inline void named(struct text *t, yyjson_val *root, const char *const *names)
{
	for (; *names; names++) {
		yyjson_val *v = last(root, *names);

		if (!v)
			continue;
		if (template_object(*names) && yyjson_is_obj(v)) {
			struct text in = { 0 };

			fields(&in, v, NULL, true);
			if (in.n) {
				add(t, *names, strlen(*names));
				wrap(t, "O", &in);
			}
			continue;
		}
		if (!strcmp(*names, "add_generation_prompt") && yyjson_is_true(v))
			continue;
		if (!strcmp(*names, "continue_final_message") && yyjson_is_false(v))
			continue;
		if ((!strcmp(*names, "tools") || !strcmp(*names, "functions")) && yyjson_is_arr(v) && !yyjson_arr_size(v))
			continue;
		add(t, *names, strlen(*names));
		value(t, v);
	}
}

static const char *const ref_before[] = {
	"cache_salt", "extra_key", "lora_path", "chat_template", "chat_template_kwargs", "mm_processor_kwargs",
	"reasoning_effort", "documents", "truncate_prompt_tokens", "add_special_tokens", "prompt_embeds", "tools",
	"functions", NULL
};
static const char *const ref_after[] = {
	"response_format", "structured_outputs", "guided_json", "guided_regex", "add_generation_prompt",
	"continue_final_message", NULL
};

/* The canonical text of a chat body, or of a completion's where `chat` is not set; false where it has no
 * prompt. `starts`, if not NULL, gets the offset behind each message, up to `max`. */
static inline bool reference(const char *body, size_t len, bool chat, struct text *t, size_t *ends, size_t max)
{
	yyjson_doc *doc = yyjson_read(body, len, YYJSON_READ_NUMBER_AS_RAW);
	yyjson_val *root = yyjson_doc_get_root(doc), *v, *m;
	size_t i, n;
	bool ok = false;

	t->n = 0;
	if (!yyjson_is_obj(root))
		goto out;
	named(t, root, ref_before);
	if (chat) {
		v = last(root, "messages");
		if (!yyjson_is_arr(v))
			goto out;
		yyjson_arr_foreach(v, i, n, m) {
			message(t, m);
			if (ends && i < max)
				ends[i] = t->n;
		}
	} else {
		v = last(root, "prompt");
		if (yyjson_is_arr(v) && yyjson_arr_size(v)) {
			yyjson_val *first = yyjson_arr_get_first(v);

			if (yyjson_is_str(first) || yyjson_is_arr(first))
				v = first;
		}
		if (!yyjson_is_str(v) && !(yyjson_is_arr(v) && yyjson_arr_size(v)))
			goto out;
		value(t, v);
	}
	named(t, root, ref_after);
	ok = true;
out:
	yyjson_doc_free(doc);
	return ok;
}
#endif
