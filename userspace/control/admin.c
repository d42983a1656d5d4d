/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/admin.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "control/admin_socket.h"
#include "control/daemon.h"
#include "control/json.h"
#include "control/metrics.h"
#include "control/status.h"
#include "control/view.h"

#define ADMIN_CONNECTIONS 64
#define ADMIN_IDLE_S 15

struct admin {
	struct daemon *d;
	struct MHD_Daemon *tcp, *local;
	char *socket_path; /* NULL: none is ours to remove */
};

/* A request while it arrives. */
struct admin_request {
	char *body;
	size_t len, cap;
	bool too_large, no_memory;
};

struct admin_answer {
	unsigned status;
	const char *type;
	char *body; /* malloc()ed, given away */
	size_t len;
};

#define TYPE_JSON "application/json"
#define TYPE_TEXT "text/plain; charset=utf-8"

/* --- answers --- */

static void answer_error(struct admin_answer *a, unsigned status, const char *code, const char *message)
{
	struct json j;

	json_start(&j);
	json_object(&j, "error");
	json_str(&j, "code", code);
	json_str(&j, "message", message);
	json_end(&j);
	a->status = status;
	a->type = TYPE_JSON;
	a->body = json_finish(&j, &a->len);
}

static void answer_ok(struct admin_answer *a)
{
	struct json j;

	json_start(&j);
	json_bool(&j, "ok", true);
	a->status = MHD_HTTP_OK;
	a->type = TYPE_JSON;
	a->body = json_finish(&j, &a->len);
}

static void answer_text(struct admin_answer *a, unsigned status, const char *text)
{
	a->status = status;
	a->type = TYPE_TEXT;
	a->body = strdup(text);
	a->len = strlen(text);
}

typedef void admin_fn(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		      struct admin_answer *out);

static void get_health(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		       struct admin_answer *out)
{
	answer_text(out, MHD_HTTP_OK, "ok\n");
}

static void get_ready(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		      struct admin_answer *out)
{
	if (gateway_draining(a->d->gw))
		answer_text(out, MHD_HTTP_SERVICE_UNAVAILABLE, "draining\n");
	else if (!gateway_ready(a->d->gw))
		answer_text(out, MHD_HTTP_SERVICE_UNAVAILABLE, "no backend can take requests\n");
	else
		answer_text(out, MHD_HTTP_OK, "ready\n");
}

/* Answers made from one view. */
static void answer_view(struct admin *a, struct admin_answer *out, const char *type,
			char *(*make)(const struct view *v, size_t *len))
{
	struct view v;

	if (view_open(&v, a->d->gw))
		return;
	out->status = MHD_HTTP_OK;
	out->type = type;
	out->body = make(&v, &out->len);
	view_close(&v);
}

static char *metrics_text(const struct view *v, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	if (!f)
		return NULL;
	metrics_write(f, v);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

static void get_metrics(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
			struct admin_answer *out)
{
	answer_view(a, out, "text/plain; version=0.0.4; charset=utf-8", metrics_text);
}

static void get_page(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		     struct admin_answer *out)
{
	answer_view(a, out, "text/html; charset=utf-8", status_page_html);
}

static void get_status(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		       struct admin_answer *out)
{
	answer_view(a, out, TYPE_JSON, status_json);
}

static void get_pools(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		      struct admin_answer *out)
{
	answer_view(a, out, TYPE_JSON, status_pools_json);
}

static void get_backends(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
			 struct admin_answer *out)
{
	answer_view(a, out, TYPE_JSON, status_backends_json);
}

static void get_flows(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		      struct admin_answer *out)
{
	answer_view(a, out, TYPE_JSON, status_flows_json);
}

static void get_prefixes(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
			 struct admin_answer *out)
{
	answer_view(a, out, TYPE_JSON, status_prefixes_json);
}

static void get_doctor(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		       struct admin_answer *out)
{
	struct view v;

	if (view_open(&v, a->d->gw))
		return;
	out->status = MHD_HTTP_OK;
	out->type = TYPE_JSON;
	out->body = status_doctor_json(&v, a->d, &out->len);
	view_close(&v);
}

static void set_drain(struct admin *a, struct MHD_Connection *c, struct admin_answer *out, bool drain)
{
	const char *name = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "name");

	if (!name || !*name) {
		answer_error(out, MHD_HTTP_BAD_REQUEST, "bad_request", "name is missing");
	} else if (gateway_backend_drain(a->d->gw, name, drain)) {
		char text[300];

		snprintf(text, sizeof(text), "no backend is named \"%.200s\"; see backend list", name);
		answer_error(out, MHD_HTTP_NOT_FOUND, "not_found", text);
	} else {
		log_info("backend_drain", "backend=%s drain=%d", name, drain);
		answer_ok(out);
	}
}

static void post_drain(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
		       struct admin_answer *out)
{
	set_drain(a, c, out, true);
}

static void post_undrain(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
			 struct admin_answer *out)
{
	set_drain(a, c, out, false);
}

static void answer_reloaded(struct admin *a, struct admin_answer *out)
{
	out->status = MHD_HTTP_OK;
	out->type = TYPE_JSON;
	out->body = status_reload_json(a->d, &out->len);
}

static void post_reload(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
			struct admin_answer *out)
{
	char err[1024];

	if (daemon_reload(a->d, err, sizeof(err)))
		answer_error(out, MHD_HTTP_CONFLICT, "reload_failed", err);
	else
		answer_reloaded(a, out);
}

/* Of the request to be explained: its headers are those of the question. */
static const char *header_of(const void *ctx, const char *name, size_t *len)
{
	const char *v = MHD_lookup_connection_value((struct MHD_Connection *)ctx, MHD_HEADER_KIND, name);

	*len = v ? strlen(v) : 0;
	return v;
}

static void post_explain(struct admin *a, struct MHD_Connection *c, const struct admin_request *rq,
			 struct admin_answer *out)
{
	const char *path = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "path");
	struct gateway_explain e;
	char err[256] = "";
	int r;

	r = gateway_explain(a->d->gw, path ? path : "/v1/chat/completions", (const uint8_t *)(rq->body ? rq->body : ""),
			    rq->len, header_of, c, &e, err, sizeof(err));
	if (r) {
		answer_error(out,
			     r == -ENOENT   ? MHD_HTTP_NOT_FOUND
			     : r == -ENOMEM ? MHD_HTTP_INTERNAL_SERVER_ERROR
					    : MHD_HTTP_BAD_REQUEST,
			     r == -ENOENT ? "model_not_found" : "bad_request", *err ? err : strerror(-r));
		return;
	}
	out->status = MHD_HTTP_OK;
	out->type = TYPE_JSON;
	out->body = status_explain_json(&e, &out->len);
	gateway_explain_free(&e);
}

static const struct admin_route {
	const char *method, *path;
	bool tcp; /* also on the TCP server: reads that tell nothing of prompts */
	admin_fn *fn;
} admin_routes[] = {
	{ "GET", "/", true, get_page },
	{ "GET", "/metrics", true, get_metrics },
	{ "GET", "/healthz", true, get_health },
	{ "GET", "/readyz", true, get_ready },
	{ "GET", "/status", false, get_status },
	{ "GET", "/pool/list", false, get_pools },
	{ "GET", "/backend/list", false, get_backends },
	{ "GET", "/flow/list", false, get_flows },
	{ "GET", "/prefix/top", false, get_prefixes },
	{ "GET", "/doctor", false, get_doctor },
	{ "POST", "/backend/drain", false, post_drain },
	{ "POST", "/backend/undrain", false, post_undrain },
	{ "POST", "/reload", false, post_reload },
	{ "POST", "/route/explain", false, post_explain },
};

/* --- libmicrohttpd --- */

static enum MHD_Result admin_send(struct MHD_Connection *c, struct admin_answer *a)
{
	struct MHD_Response *rs;
	enum MHD_Result r;

	if (!a->body) {
		static char none[] = "out of memory\n";

		a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
		a->type = TYPE_TEXT;
		rs = MHD_create_response_from_buffer(sizeof(none) - 1, none, MHD_RESPMEM_PERSISTENT);
	} else {
		rs = MHD_create_response_from_buffer(a->len, a->body, MHD_RESPMEM_MUST_FREE);
		if (!rs)
			free(a->body);
	}
	if (!rs)
		return MHD_NO;
	MHD_add_response_header(rs, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
	MHD_add_response_header(rs, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(rs, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(rs, "Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
	r = MHD_queue_response(c, a->status, rs);
	MHD_destroy_response(rs);
	return r;
}

static void admin_dispatch(struct admin *a, struct MHD_Connection *c, const char *url, const char *method,
			   const struct admin_request *rq, bool tcp, struct admin_answer *out)
{
	/* an answer to HEAD is one to GET without its body, which the library leaves out */
	const char *m = !strcmp(method, "HEAD") ? "GET" : method;
	bool known = false;

	for (size_t i = 0; i < sizeof(admin_routes) / sizeof(*admin_routes); i++) {
		const struct admin_route *r = &admin_routes[i];

		if (strcmp(r->path, url) || (tcp && !r->tcp))
			continue;
		known = true;
		if (strcmp(r->method, m))
			continue;
		if (rq->too_large)
			answer_error(out, 413, "body_too_large", "the body is longer than limits.scan");
		else if (!rq->no_memory)
			r->fn(a, c, rq, out);
		return;
	}
	if (known)
		answer_error(out, MHD_HTTP_METHOD_NOT_ALLOWED, "method_not_allowed", "not with this method");
	else
		answer_error(out, MHD_HTTP_NOT_FOUND, "not_found", "no such path");
}

static void admin_body(struct admin_request *rq, const char *data, size_t n, size_t limit)
{
	if (rq->too_large || rq->no_memory)
		return;
	if (rq->len + n > limit) {
		rq->too_large = true;
		return;
	}
	if (rq->len + n > rq->cap) {
		size_t cap = rq->cap ? 2 * rq->cap : 64 << 10;
		char *p;

		while (cap < rq->len + n)
			cap *= 2;
		p = realloc(rq->body, cap);
		if (!p) {
			rq->no_memory = true;
			return;
		}
		rq->body = p;
		rq->cap = cap;
	}
	memcpy(rq->body + rq->len, data, n);
	rq->len += n;
}

static enum MHD_Result admin_handle(struct admin *a, struct MHD_Connection *c, const char *url, const char *method,
				    const char *data, size_t *n, void **ctx, bool tcp)
{
	struct admin_request *rq = *ctx;
	struct admin_answer out = { 0 };

	if (!rq) {
		/* the read-only server takes no bodies: answered before one arrives */
		if (tcp && strcmp(method, "GET") && strcmp(method, "HEAD")) {
			answer_error(&out, MHD_HTTP_METHOD_NOT_ALLOWED, "method_not_allowed",
				     "this server is read only");
			return admin_send(c, &out);
		}
		rq = calloc(1, sizeof(*rq));
		*ctx = rq;
		return rq ? MHD_YES : MHD_NO;
	}
	if (*n) {
		admin_body(rq, data, *n, tcp ? 0 : a->d->cfg->limits.scan_bytes);
		*n = 0;
		return MHD_YES;
	}
	admin_dispatch(a, c, url, method, rq, tcp, &out);
	return admin_send(c, &out);
}

static enum MHD_Result admin_handle_tcp(void *cls, struct MHD_Connection *c, const char *url, const char *method,
					const char *version, const char *data, size_t *n, void **ctx)
{
	return admin_handle(cls, c, url, method, data, n, ctx, true);
}

static enum MHD_Result admin_handle_local(void *cls, struct MHD_Connection *c, const char *url, const char *method,
					  const char *version, const char *data, size_t *n, void **ctx)
{
	return admin_handle(cls, c, url, method, data, n, ctx, false);
}

static void admin_completed(void *cls, struct MHD_Connection *c, void **ctx, enum MHD_RequestTerminationCode code)
{
	struct admin_request *rq = *ctx;

	if (rq)
		free(rq->body);
	free(rq);
	*ctx = NULL;
}

/* Takes fd. */
static struct MHD_Daemon *admin_serve(struct admin *a, int fd, MHD_AccessHandlerCallback handler)
{
	struct MHD_Daemon *m;

	m = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, handler, a, MHD_OPTION_LISTEN_SOCKET, fd,
			     MHD_OPTION_CONNECTION_LIMIT, (unsigned)ADMIN_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
			     (unsigned)ADMIN_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(32 << 10),
			     MHD_OPTION_NOTIFY_COMPLETED, admin_completed, NULL, MHD_OPTION_END);
	if (!m)
		close(fd);
	return m;
}

int admin_create(struct admin **out, struct daemon *d, char *err, size_t err_len)
{
	const struct config_admin *cfg = &d->cfg->admin;
	struct admin *a = calloc(1, sizeof(*a));
	int fd;

	*out = NULL;
	if (!a) {
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	a->d = d;
	if (cfg->address.sa_len) {
		fd = admin_listen_tcp(d->cfg, err, err_len);
		if (fd >= 0) {
			a->tcp = admin_serve(a, fd, admin_handle_tcp);
			if (!a->tcp)
				snprintf(err, err_len, "cannot start the server of %s", cfg->address.text);
			fd = a->tcp ? 0 : -EIO;
		}
		if (fd < 0) {
			free(a);
			return fd;
		}
	}
	if (*cfg->socket) {
		char why[256];

		fd = admin_listen_unix(cfg->socket, why, sizeof(why));
		if (fd >= 0) {
			a->socket_path = strdup(cfg->socket);
			a->local = admin_serve(a, fd, admin_handle_local);
			snprintf(why, sizeof(why), "cannot start its server");
		}
		if (!a->local)
			log_warn("admin_socket", "path=%s error=\"%s\" kvsteerctl can't be used", cfg->socket, why);
	}
	*out = a;
	return 0;
}

unsigned admin_poll_fds(struct admin *a, struct pollfd *fds, int *timeout_ms)
{
	struct MHD_Daemon *const servers[ADMIN_FDS] = { a->tcp, a->local };
	unsigned n = 0;

	for (unsigned i = 0; i < ADMIN_FDS; i++) {
		const union MHD_DaemonInfo *info;
		MHD_UNSIGNED_LONG_LONG due;

		if (!servers[i])
			continue;
		info = MHD_get_daemon_info(servers[i], MHD_DAEMON_INFO_EPOLL_FD);
		if (info)
			fds[n++] = (struct pollfd){ .fd = info->epoll_fd, .events = POLLIN };
		if (MHD_get_timeout(servers[i], &due) == MHD_YES && (*timeout_ms < 0 || due < (unsigned)*timeout_ms))
			*timeout_ms = (int)due;
	}
	return n;
}

void admin_run(struct admin *a)
{
	if (a->tcp)
		MHD_run(a->tcp);
	if (a->local)
		MHD_run(a->local);
}

void admin_destroy(struct admin *a)
{
	if (!a)
		return;
	if (a->tcp)
		MHD_stop_daemon(a->tcp);
	if (a->local)
		MHD_stop_daemon(a->local);
	if (a->socket_path)
		unlink(a->socket_path);
	free(a->socket_path);
	free(a);
}
