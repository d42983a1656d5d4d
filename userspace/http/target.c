/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The request target (RFC 9112 3.2): forms, authority, and one normal form of
 * the path, so that what is matched is what is forwarded. */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "http/http_internal.h"

static bool is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* RFC 3986 2.3 */
static bool is_unreserved(unsigned char c)
{
	return is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

static bool port_ok(const char *s, size_t len)
{
	unsigned int port = 0;

	if (!len || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		port = port * 10 + (unsigned int)(s[i] - '0');
	}
	return port >= 1 && port <= 65535;
}

static bool ipv6_ok(const char *s, size_t len)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr addr;

	if (len >= sizeof(text))
		return false;
	memcpy(text, s, len);
	text[len] = 0;
	return inet_pton(AF_INET6, text, &addr) == 1;
}

bool http_authority_ok(const char *s, size_t len)
{
	const char *end = s + len;
	const char *p = s;

	if (!len || len > 255 + 6)
		return false;
	if (*s == '[') {
		p = memchr(s, ']', len);
		if (!p || !ipv6_ok(s + 1, (size_t)(p - s - 1)))
			return false;
		p++;
	} else {
		/* A host name as DNS and containers have them. RFC 3986's reg-name allows
		 * more (sub-delims, escapes); no such host exists, and ',' or '@' in
		 * Host is how parsers are made to disagree. */
		while (p < end && is_unreserved((unsigned char)*p))
			p++;
		if (p == s || p - s > 255)
			return false;
	}
	if (p == end)
		return true;
	return *p == ':' && port_ok(p + 1, (size_t)(end - p - 1));
}

static int hex_value(unsigned char c)
{
	__u32 v = http_framing_hex(c);

	return v > 15 ? -1 : (int)v;
}

/* pchar and '/' (RFC 3986 3.3), escapes apart */
static bool is_path_char(unsigned char c)
{
	return is_unreserved(c) || (c && strchr("!$&'()*+,;=:@/", c));
}

/* Decodes escapes of unreserved characters, writes the others in upper case
 * (RFC 3986 6.2.2). In place; returns the new length or -1. */
static long path_decode(char *p, size_t len)
{
	static const char upper[] = "0123456789ABCDEF";
	size_t w = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)p[i];
		int hi, lo;

		if (c != '%') {
			if (!is_path_char(c))
				return -1;
			p[w++] = (char)c;
			continue;
		}
		if (len - i < 3)
			return -1;
		hi = hex_value((unsigned char)p[i + 1]);
		lo = hex_value((unsigned char)p[i + 2]);
		if (hi < 0 || lo < 0)
			return -1;
		c = (unsigned char)(hi << 4 | lo);
		if (c < 0x20 || c == 0x7f) /* no path of an API has an encoded NUL, CR or LF */
			return -1;
		if (is_unreserved(c)) {
			p[w++] = (char)c;
		} else {
			p[w++] = '%';
			p[w++] = upper[hi];
			p[w++] = upper[lo];
		}
		i += 2;
	}
	return (long)w;
}

static bool is_dots(const char *p, size_t len)
{
	return (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.');
}

/* A dot segment beside an encoded separator ("..%2Fadmin") stays as it is here,
 * but a backend that decodes first would climb: refuse. */
static bool hidden_dots(const char *p, size_t len)
{
	size_t start = 0;
	bool encoded = false; /* the separator before `start` was an encoded one */

	for (size_t i = 0; i <= len; i++) {
		bool enc = i + 2 < len && p[i] == '%' && (!memcmp(p + i + 1, "2F", 2) || !memcmp(p + i + 1, "5C", 2));

		if (i < len && p[i] != '/' && !enc)
			continue;
		if ((enc || encoded) && is_dots(p + start, i - start))
			return true;
		encoded = enc;
		if (enc)
			i += 2;
		start = i + 1;
	}
	return false;
}

/* RFC 3986 5.2.4, in place; each byte is written once and given up at most once. */
static size_t path_remove_dots(char *p, size_t len)
{
	size_t w = 0, i = 0;

	while (i < len) { /* p[i] is '/' */
		size_t seg = i + 1, end = seg;

		while (end < len && p[end] != '/')
			end++;
		if (is_dots(p + seg, end - seg)) {
			if (end - seg == 2)
				while (w > 0 && p[--w] != '/')
					;
			if (end == len) /* "/a/." and "/a/b/.." end in a slash */
				p[w++] = '/';
		} else {
			memmove(p + w, p + i, end - i);
			w += end - i;
		}
		i = end;
	}
	if (!w)
		p[w++] = '/';
	return w;
}

struct target target_parse(char *buf, struct http_slice s, enum http_method method)
{
	struct target t = { .form = TARGET_BAD };
	char *p = buf + s.off, *end = p + s.len, *query;
	long len;

	for (char *c = p; c < end; c++)
		if (*c < 0x21 || *c > 0x7e || *c == '#') /* 3.2: no fragment, nothing but VCHAR */
			return t;
	if (s.len == 1 && *p == '*') {
		if (method != HTTP_M_OPTIONS) /* 3.2.4 */
			return t;
		t.form = TARGET_ASTERISK;
		t.path = s;
		return t;
	}
	if (*p == '/') {
		t.form = TARGET_ORIGIN;
	} else {
		size_t scheme = s.len > 7 && !strncasecmp(p, "http://", 7)  ? 7 :
				s.len > 8 && !strncasecmp(p, "https://", 8) ? 8 :
									      0;
		char *a = p + scheme;

		if (!scheme)
			return t; /* authority-form is CONNECT's alone */
		for (p = a; p < end && *p != '/' && *p != '?'; p++)
			;
		if (!http_authority_ok(a, (size_t)(p - a)))
			return t;
		t.form = TARGET_ABSOLUTE;
		t.authority = (struct http_slice){ (uint32_t)(a - buf), (uint32_t)(p - a) };
		if (p == end && method == HTTP_M_OPTIONS) { /* 3.2.4: a proxy makes it "*" */
			buf[s.off] = '*';
			t.form = TARGET_ASTERISK;
			t.path = (struct http_slice){ s.off, 1 };
			return t;
		}
	}
	query = memchr(p, '?', (size_t)(end - p));
	if (query) {
		t.has_query = true;
		t.query = (struct http_slice){ (uint32_t)(query + 1 - buf), (uint32_t)(end - query - 1) };
		end = query;
	}
	if (p == end) { /* absolute-form with an empty path: the scheme's bytes are free */
		buf[s.off] = '/';
		t.path = (struct http_slice){ s.off, 1 };
		return t;
	}
	len = path_decode(p, (size_t)(end - p));
	if (len < 0 || hidden_dots(p, (size_t)len)) {
		t.form = TARGET_BAD;
		return t;
	}
	t.path = (struct http_slice){ (uint32_t)(p - buf), (uint32_t)path_remove_dots(p, (size_t)len) };
	return t;
}
