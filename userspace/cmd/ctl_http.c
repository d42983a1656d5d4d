/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* HTTP over the admin socket. */
#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cmd/ctl.h"
#include "control/json.h"

#define CTL_ANSWER_MAX (64u << 20)
#define CTL_TIMEOUT_S 60L /* a reload may have names to resolve */

struct ctl_buffer {
	char *data;
	size_t len;
};

int ctl_error(const struct ctl *c, int code, const char *name, const char *fmt, ...)
{
	char text[1024], *out;
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!c->json) {
		fprintf(stderr, "kvsteerctl: %s\n", text);
		return code;
	}
	json_start(&j);
	json_object(&j, "error");
	json_str(&j, "code", name);
	json_str(&j, "message", text);
	json_end(&j);
	out = json_finish(&j, NULL);
	fputs(out ? out : "{\"error\":{\"code\":\"no_memory\",\"message\":\"out of memory\"}}\n", stdout);
	free(out);
	return code;
}

static size_t ctl_receive(char *data, size_t size, size_t n, void *ctx)
{
	struct ctl_buffer *b = ctx;
	char *p;

	n *= size;
	if (n > CTL_ANSWER_MAX - b->len)
		return 0;
	p = realloc(b->data, b->len + n + 1);
	if (!p)
		return 0;
	memcpy(p + b->len, data, n);
	b->data = p;
	b->len += n;
	p[b->len] = 0;
	return n;
}

static void ctl_say_error(const struct ctl *c, const struct ctl_reply *r)
{
	yyjson_val *e = yyjson_obj_get(yyjson_doc_get_root(r->doc), "error");
	const char *code = yyjson_get_str(yyjson_obj_get(e, "code")),
		   *message = yyjson_get_str(yyjson_obj_get(e, "message"));

	ctl_error(c, 1, code ? code : "bad_answer", "%s", message ? message : "the daemon's answer can't be read");
}

/* The library says "couldn't connect" for whatever it was. True if somebody is there. */
static bool ctl_reachable(const struct ctl *c)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t len = strlen(c->socket);
	const char *hint = "";
	struct stat st;
	int fd, e = 0;

	if (len >= sizeof(un.sun_path)) {
		ctl_error(c, 1, "no_daemon", "%s: %s", c->socket, strerror(ENAMETOOLONG));
		return false;
	}
	memcpy(un.sun_path, c->socket, len + 1);
	if (!stat(c->socket, &st) && !S_ISSOCK(st.st_mode)) {
		ctl_error(c, 1, "no_daemon", "%s: %s", c->socket, strerror(ENOTSOCK));
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&un, sizeof(un)))
		e = errno;
	if (fd >= 0)
		close(fd);
	if (!e)
		return true;
	if (e == ENOENT)
		hint = "; does kvsteerd run, with this admin.socket?";
	else if (e == ECONNREFUSED)
		hint = "; kvsteerd has ended without removing it";
	else if (e == EACCES || e == EPERM)
		hint = "; its owner and group may connect";
	ctl_error(c, 1, "no_daemon", "no kvsteerd at %s: %s%s", c->socket, strerror(e), hint);
	return false;
}

bool ctl_request(const struct ctl *c, const char *method, const char *path, const void *body, size_t len,
		 struct ctl_reply *out)
{
	struct curl_slist *headers = NULL;
	struct ctl_buffer b = { 0 };
	CURL *curl;
	char url[1024];
	CURLcode r;

	memset(out, 0, sizeof(*out));
	if (!ctl_reachable(c))
		return false;
	curl = curl_easy_init();
	if (!curl) {
		ctl_error(c, 1, "no_memory", "out of memory");
		return false;
	}
	snprintf(url, sizeof(url), "http://localhost%s", path);
	/* no wait for 100 Continue before a long body */
	headers = curl_slist_append(headers, "Expect:");
	for (unsigned i = 0; c->headers[i]; i++)
		headers = curl_slist_append(headers, c->headers[i]);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, c->socket);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, CTL_TIMEOUT_S);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ctl_receive);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &b);
	if (!strcmp(method, "POST")) {
		curl_easy_setopt(curl, CURLOPT_POST, 1L);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body ? body : "");
	}
	r = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out->status);
	curl_easy_cleanup(curl);
	curl_slist_free_all(headers);
	out->text = b.data;
	if (r) {
		ctl_error(c, 1, "no_daemon", "no answer from kvsteerd at %s: %s", c->socket, curl_easy_strerror(r));
		return false;
	}
	out->doc = b.data ? yyjson_read(b.data, b.len, 0) : NULL;
	if (out->status != 200 || !out->doc) {
		ctl_say_error(c, out);
		return false;
	}
	return true;
}

void ctl_reply_free(struct ctl_reply *r)
{
	yyjson_doc_free(r->doc);
	free(r->text);
	memset(r, 0, sizeof(*r));
}

char *ctl_url(const char *path, const char *key, const char *value)
{
	char *escaped = curl_easy_escape(NULL, value, 0), *url = NULL;

	if (escaped && asprintf(&url, "%s?%s=%s", path, key, escaped) < 0)
		url = NULL;
	curl_free(escaped);
	return url;
}

int ctl_show(const struct ctl *c, const char *path, void (*print)(yyjson_val *root))
{
	struct ctl_reply r;
	bool ok = ctl_request(c, "GET", path, NULL, 0, &r);

	if (ok && c->json)
		fputs(r.text, stdout);
	else if (ok)
		print(yyjson_doc_get_root(r.doc));
	ctl_reply_free(&r);
	return ok ? CTL_OK : CTL_FAILED;
}

int ctl_change(const struct ctl *c, const char *path, const char *done)
{
	struct ctl_reply r;
	bool ok = ctl_request(c, "POST", path, NULL, 0, &r);

	if (ok)
		fputs(c->json ? r.text : done, stdout);
	ctl_reply_free(&r);
	return ok ? CTL_OK : CTL_FAILED;
}
