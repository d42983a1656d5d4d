/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Lines of the access log, from strings that clients and engines choose. Holds: one line, ended, within
 * its bound, no control character; the JSON form is JSON whose numbers come back; the text form has
 * the same number of fields whatever is in them. First byte: reason and retries; then the strings, each up to a NUL. */
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "gateway/access_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

/* The next string of the input: up to a NUL. */
static char *take(const uint8_t **p, size_t *n)
{
	const uint8_t *end = memchr(*p, 0, *n);
	size_t len = end ? (size_t)(end - *p) : *n;
	char *s = malloc(len + 1);

	CHECK(s);
	memcpy(s, *p, len);
	s[len] = 0;
	*p += end ? len + 1 : len;
	*n -= end ? len + 1 : len;
	return s;
}

/* Fields of a text line: blanks outside of quotes, where a backslash takes the next byte with it. */
static unsigned count_fields(const char *s, size_t n)
{
	unsigned fields = 1;
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		if (quoted && s[i] == '\\')
			i++;
		else if (s[i] == '"')
			quoted = !quoted;
		else if (s[i] == ' ' && !quoted)
			fields++;
	}
	CHECK(!quoted);
	return fields;
}

static size_t check_line(char *buf, bool json, const struct access_entry *e)
{
	size_t n = access_log_format(buf, ACCESS_LINE_BYTES, json, 1700000000123456789ull, e);

	CHECK(n > 20 && n <= ACCESS_LINE_BYTES && buf[n - 1] == '\n');
	for (size_t i = 0; i < n - 1; i++)
		CHECK((unsigned char)buf[i] >= 0x20 && buf[i] != 0x7f);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct access_entry none;
	static char buf[ACCESS_LINE_BYTES], plain[ACCESS_LINE_BYTES];
	char *s[9];
	struct access_entry e = { .status = 200, .ttft_ms = -1, .ttft_predicted_ms = 1.5 };
	yyjson_doc *doc;
	size_t n;

	if (!size)
		return 0;
	e.reason = (enum reason)(data[0] % REASON_COUNT);
	e.retries = data[0];
	data++;
	size--;
	for (unsigned i = 0; i < 9; i++)
		s[i] = take(&data, &size);
	e.id = s[0];
	e.client = s[1];
	e.method = s[2];
	e.path = s[3];
	e.path_len = (uint32_t)strlen(s[3]);
	e.pool = s[4];
	e.model = s[5];
	e.backend = s[6];
	e.policy = s[7];
	n = check_line(buf, false, &e);
	CHECK(count_fields(buf, n - 1) == count_fields(plain, check_line(plain, false, &none) - 1));
	n = check_line(buf, true, &e);
	doc = yyjson_read(buf, n, 0);
	CHECK(doc && yyjson_is_obj(yyjson_doc_get_root(doc)));
	CHECK(yyjson_get_uint(yyjson_obj_get(yyjson_doc_get_root(doc), "status")) == 200);
	CHECK(yyjson_get_uint(yyjson_obj_get(yyjson_doc_get_root(doc), "retries")) == e.retries);
	yyjson_doc_free(doc);
	for (unsigned i = 0; i < 9; i++)
		free(s[i]);
	return 0;
}
