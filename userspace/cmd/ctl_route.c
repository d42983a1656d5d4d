/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ctl.h"

#define CTL_BODY_MAX (256u << 20) /* the most that limits.scan can be */

static int read_body(const char *file, char **body, size_t *len)
{
	FILE *f = strcmp(file, "-") ? fopen(file, "re") : stdin;
	size_t cap = 0, n = 0, got;
	int r = 0;

	*body = NULL;
	if (!f)
		return -errno;
	do {
		if (n == cap) {
			char *p = realloc(*body, cap = cap ? 2 * cap : 1 << 16);

			if (!p) {
				r = -ENOMEM;
				break;
			}
			*body = p;
		}
		got = fread(*body + n, 1, cap - n, f);
		n += got;
	} while (got && n <= CTL_BODY_MAX);
	if (ferror(f))
		r = errno ? -errno : -EIO;
	else if (n > CTL_BODY_MAX)
		r = -EFBIG;
	if (f != stdin)
		fclose(f);
	*len = n;
	return r;
}

/* The API that a body looks like, where no path is given. */
static const char *guess_path(const char *body, size_t len)
{
	yyjson_doc *doc = yyjson_read(body, len, 0);
	yyjson_val *root = yyjson_doc_get_root(doc);
	const char *path = "/v1/chat/completions";

	if (yyjson_obj_get(root, "messages"))
		path = "/v1/chat/completions";
	else if (yyjson_obj_get(root, "prompt"))
		path = "/v1/completions";
	else if (yyjson_obj_get(root, "input"))
		path = "/v1/responses";
	yyjson_doc_free(doc);
	return path;
}

static void print_explain(yyjson_val *root)
{
	static const struct ctl_column cols[] = {
		{ "NAME", "name", CTL_TEXT },
		{ "CHOSEN", "chosen", CTL_YESNO },
		{ "WHY", "why", CTL_TEXT },
		{ "MATCH", "match_tokens", CTL_COUNT },
		{ "WAIT-MS", "wait_ms", CTL_REAL1 },
		{ "PREFILL-MS", "prefill_ms", CTL_REAL1 },
		{ "TTFT-MS", "ttft_ms", CTL_REAL1 },
		{ "CONGESTION-MS", "congestion_ms", CTL_REAL1 },
		{ "DECODE-MS", "decode_ms", CTL_REAL1 },
		{ "ADAPTER-MS", "adapter_ms", CTL_REAL1 },
		{ "COST-MS", "cost_ms", CTL_REAL1 },
		{ NULL, NULL, CTL_TEXT },
	};
	const char *pool = yyjson_get_str(yyjson_obj_get(root, "pool")),
		   *policy = yyjson_get_str(yyjson_obj_get(root, "policy"));

	printf("pool %s, policy %s, %llu tokens in %llu blocks\n\n", pool ? pool : "?", policy ? policy : "?",
	       (unsigned long long)yyjson_get_uint(yyjson_obj_get(root, "tokens")),
	       (unsigned long long)yyjson_get_uint(yyjson_obj_get(root, "blocks")));
	ctl_table(yyjson_obj_get(root, "backends"), cols, "");
	if (yyjson_get_bool(yyjson_obj_get(root, "last_resort")))
		puts("\nlast resort: all backends are excluded, and are tried all the same");
}

static int do_explain(const struct ctl *c, int argc, char **argv)
{
	struct ctl_reply r = { 0 };
	char *body, *url;
	size_t len = 0;
	int e;

	e = read_body(argv[0], &body, &len);
	if (e) {
		free(body);
		return ctl_error(c, CTL_FAILED, "bad_file", "%s: %s", argv[0], strerror(-e));
	}
	url = ctl_url("/route/explain", "path", argc > 1 ? argv[1] : guess_path(body, len));
	if (!url) {
		e = ctl_error(c, CTL_FAILED, "no_memory", "out of memory");
	} else if (ctl_request(c, "POST", url, body, len, &r)) {
		e = CTL_OK;
		if (c->json)
			fputs(r.text, stdout);
		else
			print_explain(yyjson_doc_get_root(r.doc));
	} else {
		e = CTL_FAILED;
	}
	ctl_reply_free(&r);
	free(url);
	free(body);
	return e;
}

const struct ctl_command ctl_route_commands[] = {
	{ "route", "explain", "FILE [PATH]", 1, 2,
	  "where a request body (- for stdin) would go and why; no side effects", do_explain },
	{ NULL, NULL, NULL, 0, 0, NULL, NULL },
};
