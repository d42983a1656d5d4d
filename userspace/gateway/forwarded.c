/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/forwarded.h"

#include <arpa/inet.h>
#include <string.h>

/* An element of the list: an address, also with a port (`192.0.2.1:80`, `[2001:db8::1]:80`). */
static bool parse_address(const char *s, size_t len, struct sockaddr_storage *ss, char out[INET6_ADDRSTRLEN])
{
	struct sockaddr_in *v4 = (void *)ss;
	struct sockaddr_in6 *v6 = (void *)ss;
	const char *end;
	char text[INET6_ADDRSTRLEN];

	if (len && *s == '[') {
		end = memchr(s, ']', len);
		if (!end)
			return false;
		s++;
		len = (size_t)(end - s);
	} else if ((end = memchr(s, ':', len)) && !memchr(end + 1, ':', len - (size_t)(end + 1 - s))) {
		len = (size_t)(end - s);
	}
	if (!len || len >= sizeof(text))
		return false;
	memcpy(text, s, len);
	text[len] = 0;
	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		ss->ss_family = AF_INET6;
		if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
			return inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN) != NULL;
		return inet_ntop(AF_INET6, &v6->sin6_addr, out, INET6_ADDRSTRLEN) != NULL;
	}
	if (inet_pton(AF_INET, text, &v4->sin_addr) != 1)
		return false;
	ss->ss_family = AF_INET;
	return inet_ntop(AF_INET, &v4->sin_addr, out, INET6_ADDRSTRLEN) != NULL;
}

bool forwarded_client(const struct config *cfg, const struct http_req *r, const char *buf, char out[INET6_ADDRSTRLEN])
{
	bool found = false;

	/* Several fields are one list (RFC 9110 5.3). What a trusted proxy has written is true; what stands
	 * to the left of the first stranger, that stranger may have made up. */
	for (unsigned i = r->nfields; i--;) {
		const struct http_field *f = &r->fields[i];
		const char *s = buf + f->value_off;
		size_t end = f->value_len;

		if (f->id != HTTP_F_X_FORWARDED_FOR)
			continue;
		for (;;) {
			size_t begin = end, a, z = end;
			struct sockaddr_storage ss;

			while (begin && s[begin - 1] != ',')
				begin--;
			for (a = begin; a < z && (s[a] == ' ' || s[a] == '\t'); a++)
				;
			while (z > a && (s[z - 1] == ' ' || s[z - 1] == '\t'))
				z--;
			if (a < z) { /* an empty element says nothing */
				if (!parse_address(s + a, z - a, &ss, out))
					return found; /* "unknown" and the like: whoever wrote that stands for it */
				found = true;
				if (!config_trusted(cfg, (struct sockaddr *)&ss))
					return true;
			}
			if (!begin)
				break;
			end = begin - 1;
		}
	}
	return found;
}
