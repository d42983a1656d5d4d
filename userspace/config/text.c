/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The schema in words: what a key allows, the names of types and values. Error
 * messages and the reference page say the same because both ask here. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "config/config.h"
#include "config/schema.h"

static void text_size(uint64_t v, char *buf, size_t len)
{
	static const char *const unit[] = { "", "KiB", "MiB", "GiB" };
	unsigned u = 0;

	for (; u < 3 && v && v % 1024 == 0; u++)
		v /= 1024;
	snprintf(buf, len, "%" PRIu64 "%s", v, unit[u]);
}

static void text_duration(uint64_t ns, char *buf, size_t len)
{
	if (ns % (3600 * NSEC_PER_SEC) == 0)
		snprintf(buf, len, "%lluh", ns / (3600 * NSEC_PER_SEC));
	else if (ns % NSEC_PER_SEC == 0)
		snprintf(buf, len, "%llus", ns / NSEC_PER_SEC);
	else
		snprintf(buf, len, "%llums", ns / NSEC_PER_MSEC);
}

static void text_values(const struct schema_key *k, char *buf, size_t len)
{
	size_t n = 0;

	*buf = 0;
	for (const struct schema_value *v = k->values; v->name && n < len; v++)
		if (!(v->flags & SCHEMA_LATER))
			n += (size_t)snprintf(buf + n, len - n, "%s%s", n ? ", " : "", v->name);
}

const char *schema_allowed(const struct schema_key *k, char *buf, size_t len)
{
	char lo[32], hi[32], what[256] = "";

	switch (k->type) {
	case SCHEMA_MAP:
		snprintf(what, sizeof(what), k->shorthand ? "a map, or its %s alone" : "a map", k->shorthand);
		break;
	case SCHEMA_LIST:
		snprintf(what, sizeof(what), "a list of %" PRIu64 "..%" PRIu64, k->min, k->max);
		break;
	case SCHEMA_ALIASES:
		snprintf(what, sizeof(what), "a map of names to models, at most %" PRIu64, k->max);
		break;
	case SCHEMA_BOOL:
		snprintf(what, sizeof(what), "true, false");
		break;
	case SCHEMA_UINT:
	case SCHEMA_NUMBER:
		snprintf(what, sizeof(what), k->flags & SCHEMA_ABOVE ? "above %" PRIu64 ", at most %" PRIu64 : "%" PRIu64 "..%" PRIu64,
			 k->min, k->max);
		break;
	case SCHEMA_PERCENT:
		snprintf(what, sizeof(what), "%" PRIu64 "%%..%" PRIu64 "%%", k->min, k->max);
		break;
	case SCHEMA_SIZE:
		text_size(k->min, lo, sizeof(lo));
		text_size(k->max, hi, sizeof(hi));
		snprintf(what, sizeof(what), "%s..%s", lo, hi);
		break;
	case SCHEMA_DURATION:
		text_duration(k->min, lo, sizeof(lo));
		text_duration(k->max, hi, sizeof(hi));
		snprintf(what, sizeof(what), "%s..%s", lo, hi);
		break;
	case SCHEMA_ENUM:
		text_values(k, what, sizeof(what));
		break;
	case SCHEMA_LABEL:
		snprintf(what, sizeof(what), "%" PRIu64 "..%" PRIu64 " of letters, digits and . _ - : / [ ]", k->min, k->max);
		break;
	case SCHEMA_MODEL:
		snprintf(what, sizeof(what), "%" PRIu64 "..%" PRIu64 " printable bytes", k->min, k->max);
		break;
	case SCHEMA_PATTERN:
		snprintf(what, sizeof(what), "%" PRIu64 "..%" PRIu64 " bytes of a line of text, not of * alone", k->min, k->max);
		break;
	case SCHEMA_HEADER:
		snprintf(what, sizeof(what), "a header's name of %" PRIu64 "..%" PRIu64 " characters", k->min, k->max);
		break;
	case SCHEMA_URLPATH:
		snprintf(what, sizeof(what), "a path that begins with /, without ?, # or dot segments, at most %" PRIu64 " bytes", k->max);
		break;
	case SCHEMA_FILE:
		snprintf(what, sizeof(what), "an absolute file name of at most %" PRIu64 " bytes", k->max);
		break;
	case SCHEMA_ACCESS:
		snprintf(what, sizeof(what), "stdout, off, an absolute file name");
		break;
	case SCHEMA_ADDRESS:
		snprintf(what, sizeof(what), "ADDRESS:PORT, such as 127.0.0.1:8080 or [::]:8080");
		break;
	case SCHEMA_CIDR:
		snprintf(what, sizeof(what), "an address or a network, such as 10.0.0.0/8 or fd00::/8");
		break;
	case SCHEMA_URL:
		snprintf(what, sizeof(what), "http://HOST[:PORT][/PREFIX]");
		break;
	}
	snprintf(buf, len, "%s%s%s%s", what, k->flags & SCHEMA_ZERO ? ", or 0" : "", k->flags & SCHEMA_AUTO ? ", or auto" : "",
		 k->flags & SCHEMA_OFF ? ", or off" : "");
	return buf;
}

const char *schema_type_name(const struct schema_key *k)
{
	switch (k->type) {
	case SCHEMA_MAP: return "map";
	case SCHEMA_LIST: return "list";
	case SCHEMA_ALIASES: return "map";
	case SCHEMA_BOOL: return "boolean";
	case SCHEMA_UINT: return "whole number";
	case SCHEMA_NUMBER: return "number";
	case SCHEMA_SIZE: return "size";
	case SCHEMA_DURATION: return "duration";
	case SCHEMA_PERCENT: return "percentage";
	case SCHEMA_ENUM: return "word";
	case SCHEMA_LABEL:
	case SCHEMA_MODEL: return "name";
	case SCHEMA_PATTERN: return "pattern";
	case SCHEMA_HEADER: return "header";
	case SCHEMA_URLPATH: return "URL path";
	case SCHEMA_FILE: return "file name";
	case SCHEMA_ACCESS: return "word or file name";
	case SCHEMA_ADDRESS: return "address";
	case SCHEMA_CIDR: return "network";
	case SCHEMA_URL: return "URL";
	}
	return "?";
}

const char *schema_value_name(const struct schema_value *values, int value)
{
	for (; values->name; values++)
		if (values->value == value)
			return values->name;
	return "?";
}

const char *config_policy_name(enum config_policy policy)
{
	return schema_value_name(schema_policies, (int)policy);
}

const char *config_engine_name(enum config_engine engine)
{
	return schema_value_name(schema_engines, (int)engine);
}

const char *config_datapath_name(enum config_datapath datapath)
{
	return schema_value_name(schema_datapaths, (int)datapath);
}
