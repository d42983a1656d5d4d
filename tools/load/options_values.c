/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/options_values.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const kind_names[] = {
	[LOAD_SUPPORT] = "support", [LOAD_LONG8K] = "long8k", [LOAD_CHAT] = "chat", [LOAD_HOT] = "hot",
	[LOAD_BURST] = "burst", [LOAD_SHAREGPT] = "sharegpt", [LOAD_LORA] = "lora",
};

int load_option_fail(FILE *err, const char *fmt, ...)
{
	va_list ap;

	fputs("kvsteer-load: ", err);
	va_start(ap, fmt);
	vfprintf(err, fmt, ap);
	va_end(ap);
	fputs(" (see --help)\n", err);
	return -EINVAL;
}

bool load_option_plain_name(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (s[i] < 32 || s[i] > 126 || s[i] == '"' || s[i] == '\\')
			return false;
	return n && n < LOAD_NAME_MAX;
}

int load_option_url(struct load_options *o, const char *url, FILE *err)
{
	const char *p, *end, *port = NULL;
	size_t n;

	if (!strncasecmp(url, "https://", 8))
		return load_option_fail(err, "--url %s: https is not in this version, use http", url);
	if (strncasecmp(url, "http://", 7))
		return load_option_fail(err, "--url %s: not of the form http://HOST[:PORT][/PATH]", url);
	p = url + 7;
	end = p + strcspn(p, "/?#");
	for (const char *c = url; *c; c++)
		if (*c <= 32 || *c > 126 || *c == '@' || *c == '?' || *c == '#')
			return load_option_fail(err, "--url: '%c' can't be part of it: http://HOST[:PORT][/PATH]",
				    *c > 32 && *c <= 126 ? *c : '?');
	if (*p == '[') {
		const char *close = memchr(p, ']', (size_t)(end - p));

		if (!close || (close + 1 < end && close[1] != ':'))
			return load_option_fail(err, "--url %s: no [IPv6 address]:PORT", url);
		p++;
		n = (size_t)(close - p);
		port = close + 1 < end ? close + 2 : NULL;
	} else {
		const char *colon = memchr(p, ':', (size_t)(end - p));

		n = (size_t)((colon ? colon : end) - p);
		port = colon ? colon + 1 : NULL;
	}
	if (!n || n >= sizeof(o->host))
		return load_option_fail(err, "--url %s: no host", url);
	memcpy(o->host, p, n);
	o->host[n] = 0;
	strcpy(o->port, "80");
	if (port) {
		char *stop;
		unsigned long v = strtoul(port, &stop, 10);

		if (stop != end || port == end || *port < '0' || *port > '9' || v < 1 || v > 65535)
			return load_option_fail(err, "--url %s: the port must be 1..65535", url);
		snprintf(o->port, sizeof(o->port), "%lu", v);
	}
	n = strlen(end);
	while (n && end[n - 1] == '/')
		n--;
	/* OpenAI clients are given the base with /v1; both forms work. */
	if (n >= 3 && !memcmp(end + n - 3, "/v1", 3))
		n -= 3;
	if (n >= sizeof(o->path))
		return load_option_fail(err, "--url: the path is too long");
	memcpy(o->path, end, n);
	o->path[n] = 0;
	return 0;
}

int load_option_workload(struct load_options *o, const char *name, FILE *err)
{
	o->workload = name;
	if (!strncmp(name, "trace:", 6) && name[6]) {
		o->kind = LOAD_TRACE;
		o->trace_file = name + 6;
		return 0;
	}
	for (size_t i = 0; i < sizeof(kind_names) / sizeof(*kind_names); i++) {
		if (!strcmp(name, kind_names[i])) {
			o->kind = (enum load_kind)i;
			return 0;
		}
	}
	return load_option_fail(err, "--workload %s: must be " LOAD_KIND_LIST, name);
}

int load_option_header(struct load_options *o, const char *h, FILE *err)
{
	static const char *const own[] = { "host", "content-length", "transfer-encoding", "connection",
					   "content-type" };
	size_t n = strcspn(h, ":");

	if (o->n_headers == LOAD_MAX_HEADERS)
		return load_option_fail(err, "--header: at most %d", LOAD_MAX_HEADERS);
	/* The value may be a credential: it isn't repeated. */
	if (!h[n] || !n || strcspn(h, " \t") < n || strlen(h) > 4096)
		return load_option_fail(err, "--header: must be 'Name: value' of at most 4096 bytes");
	for (const char *c = h; *c; c++)
		if ((unsigned char)*c < 32 || *c == 127)
			return load_option_fail(err, "--header: control characters are not allowed");
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		if (n == strlen(own[i]) && !strncasecmp(h, own[i], n))
			return load_option_fail(err, "--header: %s is kvsteer-load's own", own[i]);
	o->headers[o->n_headers++] = h;
	return 0;
}

int load_option_adapters(struct load_options *o, const char *list, FILE *err)
{
	char *p, *save = NULL;

	free(o->adapter_names);
	o->n_models = 0;
	o->adapter_names = strdup(list);
	if (!o->adapter_names)
		return load_option_fail(err, "--adapters: out of memory");
	for (p = strtok_r(o->adapter_names, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
		if (o->n_models == LOAD_MAX_MODELS || !load_option_plain_name(p))
			return load_option_fail(err, "--adapters %s: must be up to %d names with commas between", list,
				    LOAD_MAX_MODELS);
		o->models[o->n_models++] = p;
	}
	return o->n_models ? 0 : load_option_fail(err, "--adapters: no name given");
}
