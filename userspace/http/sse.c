/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Line parser of the event stream format (HTML standard 9.2.6): lines end in LF,
 * CRLF or CR; a blank line ends an event. */
#include "http/sse.h"

#include <string.h>

#include "http/json_peek.h"

enum sse_state {
	S_LINE,    /* at the start of a line */
	S_NAME,    /* in a field name */
	S_SPACE,   /* behind the colon: one space is dropped */
	S_VALUE,
	S_COMMENT,
};

enum sse_field { F_NONE, F_DATA, F_EVENT };

static const unsigned char bom[3] = { 0xef, 0xbb, 0xbf };

void sse_init(struct sse_watch *w, enum sse_token_rule rule)
{
	memset(w, 0, sizeof(*w));
	w->rule = (uint8_t)rule;
	w->state = S_LINE;
}

static void block_reset(struct sse_watch *w)
{
	w->has_field = w->has_data = false;
	w->kept = 0;
	w->type_len = 0;
}

static enum sse_field field_of(const struct sse_watch *w)
{
	if (w->field_len == 4 && !memcmp(w->field, "data", 4))
		return F_DATA;
	if (w->field_len == 5 && !memcmp(w->field, "event", 5))
		return F_EVENT;
	return F_NONE;
}

static void value_begin(struct sse_watch *w)
{
	w->has_field = true;
	switch (field_of(w)) {
	case F_DATA:
		/* several data lines are joined by LF */
		if (w->has_data && w->kept < SSE_KEEP)
			w->keep[w->kept++] = '\n';
		w->has_data = true;
		break;
	case F_EVENT:
		w->type_len = 0;
		break;
	default:
		break;
	}
}

static void value_add(struct sse_watch *w, const char *p, size_t n)
{
	size_t room;

	switch (field_of(w)) {
	case F_DATA:
		room = SSE_KEEP - (size_t)w->kept;
		n = n < room ? n : room;
		memcpy(w->keep + w->kept, p, n);
		w->kept = (uint16_t)(w->kept + n);
		break;
	case F_EVENT:
		room = SSE_TYPE_MAX - (size_t)w->type_len;
		n = n < room ? n : room;
		memcpy(w->type + w->type_len, p, n);
		w->type_len = (uint8_t)(w->type_len + n);
		break;
	default:
		break;
	}
}

/* What a JSON object says about itself at its top level. */
struct about {
	bool error;
	int code;
	const char *type;
	size_t type_len;
};

static int code_of(const struct json_member *m)
{
	uint64_t v;

	return json_u64(m, &v) && v < 1000 ? (int)v : 0;
}

static void look_at(struct about *a, const char *p, size_t n)
{
	struct json_peek top, inner;
	struct json_member m, e;

	memset(a, 0, sizeof(*a));
	if (!json_peek_object(&top, p, p + n))
		return;
	while (json_peek_next(&top, &m)) {
		if (json_key_is(&m, "error")) {
			/* "error": null stands in good chunks of some engines */
			if (m.value[0] == '"')
				a->error = true;
			if (!json_peek_object(&inner, m.value, m.value + m.value_len))
				continue;
			a->error = true;
			while (json_peek_next(&inner, &e))
				if (json_key_is(&e, "code"))
					a->code = code_of(&e);
		} else if (json_key_is(&m, "object")) {
			a->error |= json_string_is(&m, "error");
		} else if (json_key_is(&m, "type") && m.complete && m.value_len >= 2 && m.value[0] == '"') {
			a->type = m.value + 1;
			a->type_len = m.value_len - 2;
			a->error |= json_string_is(&m, "error") || json_string_is(&m, "response.failed");
		} else if (json_key_is(&m, "code") && !a->code) {
			a->code = code_of(&m);
		}
	}
	if (!a->error)
		a->code = 0;
}

static bool ends_with(const char *s, size_t n, const char *suffix)
{
	size_t k = strlen(suffix);

	return n >= k && !memcmp(s + n - k, suffix, k);
}

static bool is(const char *s, size_t n, const char *literal)
{
	return n == strlen(literal) && !memcmp(s, literal, n);
}

static void classify(struct sse_watch *w, struct sse_event *ev)
{
	const char *type = w->type;
	size_t type_len = w->type_len;
	struct about a;

	w->type[w->type_len] = 0;
	w->keep[w->kept] = 0;
	*ev = (struct sse_event){ .type = w->type, .data = w->keep, .data_len = w->kept };
	if (!w->has_data) {
		ev->kind = SSE_EMPTY;
		return;
	}
	if (is(w->keep, w->kept, "[DONE]")) {
		ev->kind = SSE_DONE;
		return;
	}
	look_at(&a, w->keep, w->kept);
	if (!type_len) { /* some servers send the type in the data only */
		type = a.type;
		type_len = a.type_len;
	}
	if (a.error || is(type, type_len, "error") || is(type, type_len, "response.failed")) {
		ev->kind = SSE_ERROR;
		ev->error_code = a.code;
	} else if (is(type, type_len, "ping")) {
		ev->kind = SSE_PING;
	} else {
		ev->kind = SSE_DATA;
		ev->first_token = w->rule != SSE_TOKEN_DELTA || ends_with(type, type_len, ".delta");
	}
}

/* A line ended. Returns true if that reports something. */
static bool line_end(struct sse_watch *w, struct sse_event *ev)
{
	uint8_t state = w->state;

	w->state = S_LINE;
	switch (state) {
	case S_LINE:
		if (!w->has_field)
			return false;
		classify(w, ev);
		/* type and data stay readable until the next feed */
		w->has_field = w->has_data = false;
		return true;
	case S_NAME: /* a field without a colon has an empty value */
		value_begin(w);
		return false;
	case S_COMMENT:
		if (w->has_field)
			return false;
		*ev = (struct sse_event){ .kind = SSE_COMMENT, .type = "", .data = "" };
		return true;
	default:
		return false;
	}
}

int sse_feed(struct sse_watch *w, const char *p, size_t n, size_t *used, struct sse_event *ev)
{
	size_t i = 0;

	if (!w->has_field)
		block_reset(w);
	while (i < n) {
		char c = p[i];
		size_t start;

		if (w->skip_lf) {
			w->skip_lf = false;
			if (c == '\n') {
				i++;
				continue;
			}
		}
		if (w->bom < sizeof(bom)) {
			if ((unsigned char)c == bom[w->bom]) {
				w->bom++;
				i++;
				continue;
			}
			w->bom = sizeof(bom);
		}
		if (c == '\r' || c == '\n') {
			bool event = line_end(w, ev);

			i++;
			w->skip_lf = c == '\r';
			if (!event)
				continue;
			if (w->skip_lf && i < n && p[i] == '\n') {
				w->skip_lf = false;
				i++;
			}
			*used = i;
			return 1;
		}
		switch (w->state) {
		case S_LINE:
			w->field_len = 0;
			w->state = c == ':' ? S_COMMENT : S_NAME;
			if (c == ':')
				i++;
			continue;
		case S_NAME:
			if (c == ':') {
				value_begin(w);
				w->state = S_SPACE;
			} else if (w->field_len < sizeof(w->field)) {
				w->field[w->field_len++] = c;
			}
			i++;
			continue;
		case S_SPACE:
			w->state = S_VALUE;
			if (c == ' ')
				i++;
			continue;
		default:
			for (start = i; i < n && p[i] != '\r' && p[i] != '\n'; i++)
				;
			if (w->state == S_VALUE)
				value_add(w, p + start, i - start);
			continue;
		}
	}
	*used = n;
	return 0;
}

enum { A_LINE, A_COMMENT, A_OTHER };

static bool is_newline(char c)
{
	return c == '\r' || c == '\n';
}

bool sse_activity(struct sse_activity *a, const char *p, size_t n)
{
	size_t i = 0, last;

	for (; i < n; i++) {
		if (is_newline(p[i]))
			a->state = A_LINE;
		else if (a->state == A_LINE && p[i] == ':')
			a->state = A_COMMENT;
		else if (a->state != A_COMMENT)
			break;
	}
	if (i == n)
		return false;
	/* Found; only the state at the end is still wanted, and it is decided by
	 * the first byte of the last line. */
	for (last = n; last > i && !is_newline(p[last - 1]); last--)
		;
	if (last == n)
		a->state = A_LINE;
	else if (last == i)
		a->state = A_OTHER;
	else
		a->state = p[last] == ':' ? A_COMMENT : A_OTHER;
	return true;
}
