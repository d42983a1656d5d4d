/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "prompt/media.h"

#include <strings.h>

/* Query parameters, lower case; a '*' at the end stands for any rest. */
static const char *const volatile_params[] = {
	"_", "t", "ts", "timestamp", "time", "cb", "cachebust", "cachebuster", "cache_bust", "cache_buster",
	"nocache", "no_cache", "rand", "random", "rnd", "nonce",
	"x-amz-*", "awsaccesskeyid", "expires", "signature", "key-pair-id", "policy",
	"x-goog-*", "googleaccessid",
	"sig", "se", "st", "sp", "sv", "sr", "spr", "skoid", "sktid", "skt", "ske", "sks", "skv",
	"x-oss-*", "ossaccesskeyid", "x-cos-*", "q-sign-*",
};

static bool is_volatile(const uint8_t *name, size_t n)
{
	size_t i;

	for (i = 0; i < sizeof(volatile_params) / sizeof(volatile_params[0]); i++) {
		const char *p = volatile_params[i];
		size_t len = strlen(p);

		if (p[len - 1] == '*' ? n >= len - 1 && !strncasecmp(p, (const char *)name, len - 1) :
					n == len && !strncasecmp(p, (const char *)name, len))
			return true;
	}
	return false;
}

void media_begin(struct media *m, struct sink *out)
{
	m->out = out;
	m->n = 0;
	m->passing = false;
}

static bool is_data_uri(const struct media *m)
{
	return m->n >= 5 && !strncasecmp((const char *)m->buf, "data:", 5);
}

static bool is_url(const struct media *m)
{
	return (m->n >= 7 && !strncasecmp((const char *)m->buf, "http://", 7)) ||
	       (m->n >= 8 && !strncasecmp((const char *)m->buf, "https://", 8));
}

static void write_url(struct media *m)
{
	const uint8_t *end = memchr(m->buf, '#', m->n);
	const uint8_t *p, *query;
	char sep = '?';

	if (!end)
		end = m->buf + m->n;
	query = memchr(m->buf, '?', (size_t)(end - m->buf));
	if (!query) {
		sink_write(m->out, m->buf, (size_t)(end - m->buf));
		return;
	}
	sink_write(m->out, m->buf, (size_t)(query - m->buf));
	for (p = query + 1; p < end;) {
		const uint8_t *amp = memchr(p, '&', (size_t)(end - p));
		const uint8_t *stop = amp ? amp : end;
		const uint8_t *eq = memchr(p, '=', (size_t)(stop - p));

		if (stop > p && !is_volatile(p, (size_t)((eq ? eq : stop) - p))) {
			sink_write(m->out, &sep, 1);
			sink_write(m->out, p, (size_t)(stop - p));
			sep = '&';
		}
		p = stop + 1;
	}
}

/* Everything but a whole URL: a data: URI's content, or the bytes as they are. */
static void pass(struct media *m)
{
	const uint8_t *comma = is_data_uri(m) ? memchr(m->buf, ',', m->n) : NULL;
	size_t skip = comma ? (size_t)(comma + 1 - m->buf) : 0;

	sink_write(m->out, m->buf + skip, m->n - skip);
	m->passing = true;
}

void media_chunk(struct media *m, const uint8_t *p, size_t n)
{
	if (!m->passing) {
		size_t k = MEDIA_URL_MAX - m->n;

		if (k > n)
			k = n;
		memcpy(m->buf + m->n, p, k);
		m->n += (uint32_t)k;
		p += k;
		n -= k;
		if (!n)
			return;
		pass(m);
	}
	sink_write(m->out, p, n);
}

void media_end(struct media *m)
{
	if (m->passing)
		return;
	if (is_url(m))
		write_url(m);
	else
		pass(m);
}
