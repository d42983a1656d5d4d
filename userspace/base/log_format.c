/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/log_format.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define VALUE_MAX 512 /* bytes of one value, before it is quoted */
#define SPEC_MAX 16   /* of one conversion: "%-08.3llx" */

struct out {
	char *p;
	size_t len, cap; /* cap: without the NUL */
};

static void put(struct out *o, char c)
{
	if (o->len < o->cap)
		o->p[o->len++] = (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
}

static void put_text(struct out *o, const char *s)
{
	while (*s)
		put(o, *s++);
}

/* The arguments as they are taken one by one: a va_list may not be passed on and used again by
 * itself, inside a struct by pointer it may. */
struct args {
	va_list ap;
};

/* Copies one conversion into spec; returns the character behind it. `*length`: how many `l`, or 2 for z, j and t. */
static const char *read_spec(const char *fmt, struct args *a, char *spec, int *length)
{
	size_t n = 0;
	char part[16];

	*length = 0;
	spec[n++] = *fmt++;
	for (; *fmt && strchr("-+ #0123456789.*lhzjt", *fmt); fmt++) {
		if (*fmt == 'h')
			continue; /* promoted to int anyway */
		if (strchr("lzjt", *fmt)) {
			*length += *fmt == 'l' ? 1 : 2;
			continue; /* put back as one of ours */
		}
		if (*fmt == '*')
			snprintf(part, sizeof(part), "%d", va_arg(a->ap, int));
		else
			snprintf(part, sizeof(part), "%c", *fmt);
		for (const char *s = part; *s && n < SPEC_MAX - 4; s++)
			spec[n++] = *s;
	}
	spec[n] = 0;
	return fmt;
}

static void finish_spec(char *spec, const char *end)
{
	strncat(spec, end, SPEC_MAX - 1 - strlen(spec));
}

/* The next argument: int, long or long long, as `length` says. */
static intmax_t next_signed(struct args *a, int length)
{
	if (length == 0)
		return va_arg(a->ap, int);
	return length == 1 ? va_arg(a->ap, long) : va_arg(a->ap, intmax_t); /* NOLINT(bugprone-branch-clone): equal on LP64 */
}

static uintmax_t next_unsigned(struct args *a, int length)
{
	if (length == 0)
		return va_arg(a->ap, unsigned int);
	return length == 1 ? va_arg(a->ap, unsigned long) : va_arg(a->ap, uintmax_t); /* NOLINT(bugprone-branch-clone) */
}

/* One conversion, at `fmt` which points to its `%`. Returns the character behind it. */
static const char *convert(struct out *o, const char *fmt, struct args *a)
{
	char spec[SPEC_MAX + 1], text[VALUE_MAX];
	int length;
	const char *at = read_spec(fmt, a, spec, &length);
	char kind[] = { 'j', *at, 0 };

	text[0] = 0;
	switch (*at) {
	case '%':
		put(o, '%');
		return at + 1;
	case 'd': /* NOLINT(bugprone-branch-clone): the same text, arguments of other types */
	case 'i':
		finish_spec(spec, kind);
		snprintf(text, sizeof(text), spec, next_signed(a, length));
		break;
	case 'u':
	case 'x':
	case 'X':
		finish_spec(spec, kind);
		snprintf(text, sizeof(text), spec, next_unsigned(a, length));
		break;
	case 'f':
	case 'g':
	case 'e':
		finish_spec(spec, kind + 1);
		snprintf(text, sizeof(text), spec, va_arg(a->ap, double));
		break;
	case 'c':
		text[0] = (char)va_arg(a->ap, int);
		text[1] = 0;
		break;
	case 'p':
		finish_spec(spec, kind + 1);
		snprintf(text, sizeof(text), spec, va_arg(a->ap, void *));
		break;
	case 's': {
		const char *s = va_arg(a->ap, const char *);

		finish_spec(spec, kind + 1);
		snprintf(text, sizeof(text), spec, s ? s : "(null)");
		break;
	}
	default:
		/* Not known here, and its argument's size with it: the rest stays as it is written. */
		put_text(o, fmt);
		return fmt + strlen(fmt);
	}
	put_text(o, text);
	return at + 1;
}

static bool needs_quotes(const char *s)
{
	return !*s || strpbrk(s, " \"\\?") != NULL;
}

/* The value at `fmt`, behind the `=`. Returns the character behind it. */
static const char *put_value(struct out *o, const char *fmt, struct args *a)
{
	char text[VALUE_MAX];
	struct out v = { text, 0, sizeof(text) - 1 };
	bool quoted = *fmt == '"';

	if (quoted)
		fmt++;
	while (*fmt && *fmt != (quoted ? '"' : ' ')) {
		if (*fmt == '%')
			fmt = convert(&v, fmt, a);
		else
			put(&v, *fmt++);
	}
	if (quoted && *fmt)
		fmt++;
	text[v.len] = 0;
	if (!quoted && !needs_quotes(text)) {
		put_text(o, text);
		return fmt;
	}
	if (o->len + 2 > o->cap)
		return fmt;
	put(o, '"');
	for (const char *s = text; *s; s++) {
		bool escape = *s == '"' || *s == '\\';

		/* the closing quote has its room always */
		if (o->len + 2 + escape > o->cap)
			break;
		if (escape)
			put(o, '\\');
		put(o, *s);
	}
	put(o, '"');
	return fmt;
}

size_t log_format(char *out, size_t cap, const char *fmt, va_list ap)
{
	struct out o = { out, 0, cap - 1 };
	struct args a;

	va_copy(a.ap, ap);
	while (*fmt) {
		if (*fmt == '%') {
			fmt = convert(&o, fmt, &a);
			continue;
		}
		put(&o, *fmt);
		if (*fmt++ == '=')
			fmt = put_value(&o, fmt, &a);
	}
	va_end(a.ap);
	out[o.len] = 0;
	return o.len;
}
