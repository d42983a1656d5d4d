/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Names: fields, methods, reason phrases. */
#include <string.h>
#include <strings.h>

#include "http/http1.h"
#include "http/http_internal.h"
#include "http/write.h"

struct known_field {
	const char *name;
	uint8_t len;
	uint8_t id;
	uint8_t flags;
};

#define K(id_, name_, flags_) { name_, sizeof(name_) - 1, HTTP_F_##id_, flags_ }
/* Sorted by length, so that a lookup compares only names of the same length.
 * Hop-by-hop: RFC 9110 7.6.1, and what a proxy consumes itself (11.7). */
static const struct known_field known[] = {
	K(TE, "te", HTTP_FIELD_HOP),
	K(DATE, "date", 0),
	K(HOST, "host", 0),
	K(ACCEPT, "accept", 0),
	K(COOKIE, "cookie", 0),
	K(EXPECT, "expect", 0),
	K(SERVER, "server", 0),
	K(TRAILER, "trailer", HTTP_FIELD_HOP),
	K(UPGRADE, "upgrade", HTTP_FIELD_HOP),
	K(FORWARDED, "forwarded", 0),
	K(X_API_KEY, "x-api-key", 0),
	K(X_REAL_IP, "x-real-ip", 0),
	K(CONNECTION, "connection", HTTP_FIELD_HOP),
	K(KEEP_ALIVE, "keep-alive", HTTP_FIELD_HOP),
	K(SET_COOKIE, "set-cookie", 0),
	K(USER_AGENT, "user-agent", 0),
	K(RETRY_AFTER, "retry-after", 0),
	K(CONTENT_TYPE, "content-type", 0),
	K(X_REQUEST_ID, "x-request-id", 0),
	K(AUTHORIZATION, "authorization", 0),
	K(CONTENT_LENGTH, "content-length", 0),
	K(HTTP2_SETTINGS, "http2-settings", HTTP_FIELD_HOP),
	K(X_FORWARDED_FOR, "x-forwarded-for", 0),
	K(CONTENT_ENCODING, "content-encoding", 0),
	K(PROXY_CONNECTION, "proxy-connection", HTTP_FIELD_HOP),
	K(X_FORWARDED_HOST, "x-forwarded-host", 0),
	K(TRANSFER_ENCODING, "transfer-encoding", HTTP_FIELD_HOP),
	K(X_FORWARDED_PROTO, "x-forwarded-proto", 0),
	K(PROXY_AUTHENTICATE, "proxy-authenticate", HTTP_FIELD_HOP),
	K(X_KVSTEER_PRIORITY, "x-kvsteer-priority", 0),
	K(PROXY_AUTHORIZATION, "proxy-authorization", HTTP_FIELD_HOP),
	K(ENDPOINT_LOAD_METRICS, "endpoint-load-metrics", 0),
	K(X_AMZN_PREFIX_AWARE_ID, "x-amzn-sagemaker-prefix-aware-id", 0),
	K(X_AMZN_INFERENCE_COMPONENT, "x-amzn-sagemaker-inference-component", 0),
};
#undef K

/* Names of one length are neighbours; few share it, and of those few an initial. */
static const struct known_field *field_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && known[i].len <= len; i++)
		if (known[i].len == len && known[i].name[0] == (name[0] | 0x20) &&
		    !strncasecmp(known[i].name, name, len))
			return &known[i];
	return NULL;
}

enum http_field_id http_field_classify(const char *name, size_t len, uint8_t *flags)
{
	const struct known_field *k = len ? field_find(name, len) : NULL;

	*flags = k ? k->flags : 0;
	if (k)
		return k->id;
	if (len > 10 && !strncasecmp(name, "x-gateway-", 10))
		return HTTP_F_X_GATEWAY;
	if (len > 10 && !strncasecmp(name, "x-kvsteer-", 10))
		return HTTP_F_X_KVSTEER;
	return HTTP_F_OTHER;
}

enum http_field_id http_field_lookup(const char *name, size_t len)
{
	uint8_t flags;

	return http_field_classify(name, len, &flags);
}

const struct http_field *http_field_first(const struct http_field *fields, uint16_t n, enum http_field_id id)
{
	for (uint16_t i = 0; i < n; i++)
		if (fields[i].id == id)
			return &fields[i];
	return NULL;
}

const struct http_field *http_field_named(const struct http_field *fields, uint16_t n, const char *buf,
					  const char *name, size_t name_len)
{
	for (uint16_t i = 0; i < n; i++)
		if (fields[i].name_len == name_len && !strncasecmp(buf + fields[i].name_off, name, name_len))
			return &fields[i];
	return NULL;
}

static const char *const method_names[HTTP_M_COUNT] = {
	"-", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH",
};

const char *http_method_text(enum http_method m)
{
	return (unsigned int)m < HTTP_M_COUNT ? method_names[m] : "-";
}

/* Case-sensitive (RFC 9110 9.1): "get" is another method, not GET. */
enum http_method http_method_lookup(const char *s, size_t len)
{
	for (int m = HTTP_M_GET; m < HTTP_M_COUNT; m++)
		if (strlen(method_names[m]) == len && !memcmp(method_names[m], s, len))
			return (enum http_method)m;
	return HTTP_M_NONE;
}

struct known_status {
	uint16_t status;
	const char *reason;
};

static const struct known_status statuses[] = {
	{ 100, "Continue" },
	{ 102, "Processing" },
	{ 103, "Early Hints" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 203, "Non-Authoritative Information" },
	{ 204, "No Content" },
	{ 205, "Reset Content" },
	{ 206, "Partial Content" },
	{ 207, "Multi-Status" },
	{ 300, "Multiple Choices" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 402, "Payment Required" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 407, "Proxy Authentication Required" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 422, "Unprocessable Content" },
	{ 424, "Failed Dependency" },
	{ 425, "Too Early" },
	{ 426, "Upgrade Required" },
	{ 428, "Precondition Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 499, "Client Closed Request" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
	{ 529, "Overloaded" },
};

const char *http_reason(uint16_t status)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].status == status)
			return statuses[i].reason;
	return "Unknown";
}

#define T (HTTP_CH_TOKEN | HTTP_CH_TEXT)
/* RFC 9110 5.6.2 and 5.5; the same sets as http_framing.h has as masks. */
const uint8_t http_char_class[256] = {
	['!'] = T, ['#'... '\''] = T, ['*'] = T, ['+'] = T, ['-'] = T, ['.'] = T, ['0'... '9'] = T,
	['A'... 'Z'] = T, ['^'... 'z'] = T, ['|'] = T, ['~'] = T,
	['\t'] = HTTP_CH_TEXT, [' '] = HTTP_CH_TEXT, ['"'] = HTTP_CH_TEXT, ['('] = HTTP_CH_TEXT,
	[')'] = HTTP_CH_TEXT, [','] = HTTP_CH_TEXT, ['/'] = HTTP_CH_TEXT, [':'... '@'] = HTTP_CH_TEXT,
	['['... ']'] = HTTP_CH_TEXT, ['{'] = HTTP_CH_TEXT, ['}'] = HTTP_CH_TEXT, [0x80 ... 0xff] = HTTP_CH_TEXT,
};
#undef T

bool http_token_ok(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!(http_char_class[(uint8_t)s[i]] & HTTP_CH_TOKEN))
			return false;
	return len > 0;
}

bool http_text_ok(const char *s, size_t len)
{
	size_t i = 0;

	while (i + 8 <= len && http_text8(s + i))
		i += 8;
	for (; i < len; i++)
		if (!(http_char_class[(uint8_t)s[i]] & HTTP_CH_TEXT))
			return false;
	return true;
}

bool http_token_next(const char **p, const char *end, const char **tok, size_t *len)
{
	const char *s = *p;
	const char *stop;

	if (s >= end)
		return false;
	stop = memchr(s, ',', (size_t)(end - s));
	if (!stop)
		stop = end;
	*p = stop < end ? stop + 1 : end;
	while (s < stop && (*s == ' ' || *s == '\t'))
		s++;
	while (stop > s && (stop[-1] == ' ' || stop[-1] == '\t'))
		stop--;
	*tok = s;
	*len = (size_t)(stop - s);
	return true;
}
