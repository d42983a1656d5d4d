/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Scalars: the text of a value into the field of its row. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "config/address.h"
#include "config/config.h"
#include "config/schema.h"

struct unit {
	const char *name;
	uint64_t factor;
};
static const struct unit size_units[] = {
	{ "", 1 }, { "B", 1 }, { "KiB", 1u << 10 }, { "MiB", 1u << 20 }, { "GiB", 1u << 30 }, { NULL, 0 },
};
static const struct unit duration_units[] = {
	{ "us", NSEC_PER_USEC },    { "ms", NSEC_PER_MSEC },	  { "s", NSEC_PER_SEC },
	{ "m", 60 * NSEC_PER_SEC }, { "h", 3600 * NSEC_PER_SEC }, { NULL, 0 },
};

static int value_fail(const struct schema_key *k, const char *what, char *why, size_t len)
{
	char allowed[288];

	snprintf(why, len, "%s; allowed: %s", what, schema_allowed(k, allowed, sizeof(allowed)));
	return -EINVAL;
}

/* Decimal digits up to UINT64_MAX. *end behind them. */
static int value_digits(const char *s, uint64_t *v, const char **end)
{
	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	for (*v = 0; isdigit((unsigned char)*s); s++)
		if (__builtin_mul_overflow(*v, (uint64_t)10, v) || __builtin_add_overflow(*v, (uint64_t)(*s - '0'), v))
			return -ERANGE;
	*end = s;
	return 0;
}

/* A number below 0: not what is allowed, but a number. */
static bool value_negative(const char *s)
{
	return *s == '-' && isdigit((unsigned char)s[1]);
}

/* [0-9]+(.[0-9]+)? without sign, exponent, hex or nan: what a person would write. */
static int value_decimal(const char *s, double *v, const char **end)
{
	const char *p = s;
	char *e;

	while (isdigit((unsigned char)*p))
		p++;
	if (p == s || p - s > 18)
		return -EINVAL;
	if (*p == '.') {
		const char *f = ++p;

		while (isdigit((unsigned char)*p))
			p++;
		if (p == f || p - f > 18)
			return -EINVAL;
	}
	if (*p == 'e' || *p == 'E')
		return -EINVAL;
	*v = strtod(s, &e);
	*end = p;
	return 0;
}

static int value_with_unit(const struct schema_key *k, const char *s, const struct unit *units, uint64_t *out,
			   char *why, size_t len)
{
	bool is_size = units == size_units;
	const char *end;
	uint64_t whole;
	double d;

	if (value_negative(s))
		return value_fail(k, "out of range", why, len);
	if (value_decimal(s, &d, &end))
		return value_fail(k, is_size ? "not a size" : "not a duration", why, len);
	if (!strcmp(s, "0")) { /* the one duration that needs no unit */
		if (!(k->flags & SCHEMA_ZERO))
			return value_fail(k, "out of range", why, len);
		*out = 0;
		return 0;
	}
	for (; units->name; units++)
		if (!strcmp(end, units->name))
			break;
	if (!units->name) {
		if (!*end)
			return value_fail(k, "a duration without a unit (us, ms, s, m, h)", why, len);
		return value_fail(k, is_size ? "unknown unit (B, KiB, MiB, GiB)" : "unknown unit (us, ms, s, m, h)",
				  why, len);
	}
	if (is_size && units->factor == 1 && d != floor(d))
		return value_fail(k, "not a whole number of bytes", why, len);
	d *= (double)units->factor;
	if (d > 9e18)
		return value_fail(k, "out of range", why, len);
	whole = (uint64_t)(d + 0.5);
	if ((whole < k->min || whole > k->max) && !(whole == 0 && (k->flags & SCHEMA_ZERO)))
		return value_fail(k, "out of range", why, len);
	*out = whole;
	return 0;
}

static int value_uint(const struct schema_key *k, const char *s, void *field, char *why, size_t len)
{
	const char *end;
	uint64_t v = 0;
	int r;

	if (!((k->flags & SCHEMA_AUTO) && !strcmp(s, "auto"))) {
		if (value_negative(s))
			return value_fail(k, "out of range", why, len);
		r = value_digits(s, &v, &end);
		if (r == -EINVAL || (!r && *end))
			return value_fail(k, "not a whole number", why, len);
		if (r || ((v < k->min || v > k->max) && !(v == 0 && (k->flags & SCHEMA_ZERO))))
			return value_fail(k, "out of range", why, len);
	}
	if (k->size == 2)
		*(uint16_t *)field = (uint16_t)v;
	else if (k->size == 4)
		*(uint32_t *)field = (uint32_t)v;
	else
		*(uint64_t *)field = v;
	return 0;
}

static int value_number(const struct schema_key *k, const char *s, double *field, char *why, size_t len)
{
	bool percent = k->type == SCHEMA_PERCENT;
	const char *end;
	double v;

	if (value_negative(s))
		return value_fail(k, "out of range", why, len);
	if (value_decimal(s, &v, &end) || strcmp(end, percent ? "%" : ""))
		return value_fail(k, percent ? "not a percentage such as 5%" : "not a number", why, len);
	if (v < (double)k->min || v > (double)k->max || (v == 0 && (k->flags & SCHEMA_ABOVE)))
		return value_fail(k, "out of range", why, len);
	*field = percent ? v / 100 : v;
	return 0;
}

static int value_enum(const struct schema_key *k, const char *s, int *field, char *why, size_t len)
{
	for (const struct schema_value *v = k->values; v->name; v++) {
		if (strcmp(v->name, s))
			continue;
		if (v->flags & SCHEMA_LATER)
			return value_fail(k, "not in this version", why, len);
		*field = v->value;
		return 0;
	}
	return value_fail(k, "unknown value", why, len);
}

static bool value_char_ok(const struct schema_key *k, unsigned char c)
{
	switch (k->type) {
	case SCHEMA_LABEL: return isalnum(c) || strchr("._-:/[]", c);
	case SCHEMA_HEADER: /* RFC 9110 section 5.6.2, token */ return isalnum(c) || strchr("!#$%&'*+-.^_`|~", c);
	case SCHEMA_URLPATH: return c > 0x20 && c < 0x7f && !strchr("?#\"<>\\^`{|}", c);
	default: return c >= 0x20 && c != 0x7f;
	}
}

/* Requests' paths come without dot segments (RFC 3986 section 5.2.4): one here would never be met. */
static bool value_dot_segments(const char *s)
{
	for (; (s = strchr(s, '/')); s++) {
		size_t n = strcspn(s + 1, "/");

		if ((n == 1 && s[1] == '.') || (n == 2 && s[1] == '.' && s[2] == '.'))
			return true;
	}
	return false;
}

static int value_string(const struct schema_key *k, const char *s, const char **field, struct arena *a, char *why,
			size_t len)
{
	size_t n = strlen(s);
	char *copy;

	if ((k->flags & SCHEMA_OFF) && !strcmp(s, "off"))
		s = "", n = 0;
	else if (n < k->min || n > k->max)
		return value_fail(k, n ? "too long or too short" : "empty", why, len);
	else if ((k->type == SCHEMA_FILE || k->type == SCHEMA_URLPATH) && *s != '/')
		return value_fail(k, "not absolute", why, len);
	else if (k->type == SCHEMA_URLPATH && value_dot_segments(s))
		return value_fail(k, "has . or .. for a segment", why, len);
	else if (k->type == SCHEMA_PATTERN && !s[strspn(s, "*")])
		return value_fail(k, "would match everything", why, len);
	copy = arena_strndup(a, s, n);
	if (!copy)
		return -ENOMEM;
	for (char *p = copy; *p; p++) {
		if (!value_char_ok(k, (unsigned char)*p))
			return value_fail(k, "has a character that is not allowed", why, len);
		/* field names compare without case (RFC 9110 section 5.1): keep one spelling */
		if (k->type == SCHEMA_HEADER)
			*p = (char)tolower((unsigned char)*p);
	}
	*field = copy;
	return 0;
}

static int value_access(const struct schema_key *k, const char *s, struct config_log *log, struct arena *a, char *why,
			size_t len)
{
	log->access_path = "";
	if (!strcmp(s, "stdout")) {
		log->access = CONFIG_ACCESS_STDOUT;
	} else if (!strcmp(s, "off")) {
		log->access = CONFIG_ACCESS_OFF;
	} else {
		if (*s != '/' || !s[1] || strlen(s) > 4095)
			return value_fail(k, "neither a known word nor an absolute file name", why, len);
		log->access = CONFIG_ACCESS_FILE;
		log->access_path = arena_strndup(a, s, strlen(s));
		if (!log->access_path)
			return -ENOMEM;
	}
	return 0;
}

int schema_parse_scalar(const struct schema_key *k, const char *text, void *base, struct arena *a, char *why,
			size_t why_len)
{
	void *field = (char *)base + k->offset;
	char what[128] = "";
	int r;

	switch (k->type) {
	case SCHEMA_MAP:
	case SCHEMA_LIST:
	case SCHEMA_ALIASES: return value_fail(k, "not a single value", why, why_len);
	case SCHEMA_BOOL:
		if (strcmp(text, "true") && strcmp(text, "false"))
			return value_fail(k, "not a boolean", why, why_len);
		*(bool *)field = *text == 't';
		return 0;
	case SCHEMA_UINT: return value_uint(k, text, field, why, why_len);
	case SCHEMA_NUMBER:
	case SCHEMA_PERCENT: return value_number(k, text, field, why, why_len);
	case SCHEMA_SIZE: return value_with_unit(k, text, size_units, field, why, why_len);
	case SCHEMA_DURATION: return value_with_unit(k, text, duration_units, field, why, why_len);
	case SCHEMA_ENUM: return value_enum(k, text, field, why, why_len);
	case SCHEMA_LABEL:
	case SCHEMA_MODEL:
	case SCHEMA_PATTERN:
	case SCHEMA_HEADER:
	case SCHEMA_URLPATH:
	case SCHEMA_FILE: return value_string(k, text, field, a, why, why_len);
	case SCHEMA_ACCESS: return value_access(k, text, field, a, why, why_len);
	case SCHEMA_ADDRESS:
		if ((k->flags & SCHEMA_OFF) && !strcmp(text, "off"))
			r = 0, ((struct config_address *)field)->text = "off";
		else
			r = address_parse_listen(text, field, a, what, sizeof(what));
		break;
	case SCHEMA_CIDR: r = address_parse_cidr(text, field, what, sizeof(what)); break;
	case SCHEMA_URL: r = address_parse_url(text, field, a, what, sizeof(what)); break;
	default: return -EINVAL;
	}
	return r == -EINVAL ? value_fail(k, what, why, why_len) : r;
}
