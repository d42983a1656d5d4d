/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "config/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int address_fail(char *what, size_t len, const char *msg)
{
	snprintf(what, len, "%s", msg);
	return -EINVAL;
}

/* 1..65535 in decimal digits, no sign, no blanks. 0 if it is none. */
static unsigned address_port(const char *s, size_t n)
{
	unsigned v = 0;

	if (!n || n > 5)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i]))
			return 0;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	return v <= 65535 ? v : 0;
}

static socklen_t address_fill(int family, const void *addr, uint16_t port, struct sockaddr_storage *sa)
{
	memset(sa, 0, sizeof(*sa));
	if (family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)sa;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, addr, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)sa;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, addr, 16);
	return sizeof(*in6);
}

/* Splits HOST[:PORT] of n bytes; a host in brackets is IPv6. *port_s NULL: none given. */
static int address_split(const char *s, size_t n, char *host, size_t host_len, int *bracketed, const char **port_s,
			 size_t *port_n, char *what, size_t len)
{
	const char *end = s + n, *h = s, *h_end;

	*bracketed = n && *s == '[';
	if (*bracketed) {
		h = s + 1;
		h_end = memchr(h, ']', (size_t)(end - h));
		if (!h_end)
			return address_fail(what, len, "no ] after the address");
		*port_s = h_end + 1;
	} else {
		h_end = memchr(s, ':', n);
		if (!h_end)
			h_end = end;
		else if (memchr(h_end + 1, ':', (size_t)(end - h_end - 1)))
			return address_fail(what, len, "an IPv6 address needs brackets");
		*port_s = h_end;
	}
	if (*port_s == end) {
		*port_s = NULL;
	} else {
		if (**port_s != ':')
			return address_fail(what, len, "not HOST:PORT");
		++*port_s;
		*port_n = (size_t)(end - *port_s);
	}
	if (h_end == h || (size_t)(h_end - h) >= host_len)
		return address_fail(what, len, h_end == h ? "no host" : "host too long");
	memcpy(host, h, (size_t)(h_end - h));
	host[h_end - h] = 0;
	return 0;
}

int address_parse_listen(const char *s, struct config_address *out, struct arena *a, char *what, size_t len)
{
	unsigned char addr[16];
	const char *port_s, *h;
	unsigned port;
	char host[256];
	size_t port_n = 0;
	int bracketed;

	if (address_split(s, strlen(s), host, sizeof(host), &bracketed, &port_s, &port_n, what, len))
		return -EINVAL;
	if (!port_s)
		return address_fail(what, len, "no port");
	port = address_port(port_s, port_n);
	if (!port)
		return address_fail(what, len, "not a port (1..65535)");
	h = host;
	if (!bracketed)
		h = !strcmp(host, "*") ? "0.0.0.0" : !strcmp(host, "localhost") ? "127.0.0.1" : host;
	if (inet_pton(bracketed ? AF_INET6 : AF_INET, h, addr) != 1)
		return address_fail(what, len, "not an address (a name is not enough to listen on)");
	out->text = arena_strndup(a, s, strlen(s));
	if (!out->text)
		return -ENOMEM;
	out->sa_len = address_fill(bracketed ? AF_INET6 : AF_INET, addr, (uint16_t)port, &out->sa);
	return 0;
}

int address_parse_cidr(const char *s, struct config_cidr *out, char *what, size_t len)
{
	const char *slash = strchr(s, '/');
	size_t n = slash ? (size_t)(slash - s) : strlen(s);
	unsigned max, bits = 0;
	char host[64];

	if (n >= sizeof(host))
		return address_fail(what, len, "not an address");
	memcpy(host, s, n);
	host[n] = 0;
	memset(out, 0, sizeof(*out));
	out->family = strchr(host, ':') ? AF_INET6 : AF_INET;
	if (inet_pton(out->family, host, out->addr) != 1)
		return address_fail(what, len, "not an address");
	max = out->family == AF_INET ? 32 : 128;
	if (slash) {
		const char *p = slash + 1;

		if (!*p || strlen(p) > 3)
			return address_fail(what, len, "not a prefix length");
		for (; *p; p++) {
			if (!isdigit((unsigned char)*p))
				return address_fail(what, len, "not a prefix length");
			bits = bits * 10 + (unsigned)(*p - '0');
		}
		if (bits > max)
			return address_fail(what, len, "prefix length out of range");
	} else {
		bits = max;
	}
	out->bits = (uint8_t)bits;
	for (unsigned i = 0; i < max / 8; i++) {
		unsigned keep = bits > i * 8 ? bits - i * 8 : 0;

		if (keep < 8)
			out->addr[i] &= (uint8_t)(0xff00u >> keep);
	}
	return 0;
}

/* A DNS name or what looks like one; not all digits and dots, which would be a
 * mistyped address. */
static int address_is_name(const char *h)
{
	int alpha = 0;

	if (strlen(h) > 253 || *h == '-' || *h == '.')
		return 0;
	for (const char *p = h; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("-._", *p))
			return 0;
		if (*p == '.' && p[1] == '.')
			return 0;
		alpha |= !isdigit((unsigned char)*p) && *p != '.';
	}
	return alpha;
}

/* A prefix goes into request lines as it is: only what RFC 3986 section 3.3 lets
 * a path have, and no dot segments that the backend could resolve. */
static int address_path_ok(const char *p)
{
	for (; *p; p++) {
		if (*p == '%') {
			if (!isxdigit((unsigned char)p[1]) || !isxdigit((unsigned char)p[2]))
				return 0;
		} else if (!isalnum((unsigned char)*p) && !strchr("-._~!$&'()*+,;=:@/", *p)) {
			return 0;
		}
		if (*p == '/') {
			const char *q = p + 1;

			if (*q == '/' ||
			    (*q == '.' && (!q[1] || q[1] == '/' || (q[1] == '.' && (!q[2] || q[2] == '/')))))
				return 0;
		}
	}
	return 1;
}

int address_parse_url(const char *s, struct config_backend *out, struct arena *a, char *what, size_t len)
{
	const char *auth, *path, *port_s;
	unsigned char addr[16];
	size_t auth_n, path_n, port_n = 0;
	unsigned port = 80;
	char host[256];
	int bracketed, family;

	if (!strncasecmp(s, "https://", 8))
		return address_fail(what, len, "https: not in this version");
	if (strncasecmp(s, "http://", 7))
		return address_fail(what, len, "not a URL of http");
	auth = s + 7;
	auth_n = strcspn(auth, "/?#");
	path = auth + auth_n;
	if (memchr(auth, '@', auth_n))
		return address_fail(what, len, "a URL with credentials");
	if (strpbrk(path, "?#"))
		return address_fail(what, len, "a URL with a query or a fragment");
	if (address_split(auth, auth_n, host, sizeof(host), &bracketed, &port_s, &port_n, what, len))
		return -EINVAL;
	if (port_s) {
		port = address_port(port_s, port_n);
		if (!port)
			return address_fail(what, len, "not a port (1..65535)");
	}
	if (!address_path_ok(path))
		return address_fail(what, len, "not a path prefix");
	path_n = strlen(path);
	if (path_n && path[path_n - 1] == '/')
		path_n--;
	family = bracketed ? AF_INET6 : AF_INET;
	out->sa_len = 0;
	if (inet_pton(family, host, addr) == 1)
		out->sa_len = address_fill(family, addr, (uint16_t)port, &out->sa);
	else if (bracketed || !address_is_name(host))
		return address_fail(what, len, "not a host");
	out->port = (uint16_t)port;
	out->url = arena_strndup(a, s, strlen(s));
	out->host = arena_strndup(a, host, strlen(host));
	out->path_prefix = arena_strndup(a, path, path_n);
	out->host_header = port == 80 ? arena_printf(a, bracketed ? "[%s]" : "%s", host)
				      : arena_printf(a, bracketed ? "[%s]:%u" : "%s:%u", host, port);
	out->address = arena_printf(a, bracketed ? "[%s]:%u" : "%s:%u", host, port);
	return out->url && out->address && out->host && out->path_prefix && out->host_header ? 0 : -ENOMEM;
}
