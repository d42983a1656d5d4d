/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Paths, checks and answers of the API, vLLM 0.32's as far as a router sees it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "gpusim/sim.h"

#define JSON "application/json"

static const char busy_text[] =
	"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.";

static const char *status_text(int status)
{
	switch (status) {
	case 200: return "OK";
	case 400: return "Bad Request";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 413: return "Content Too Large";
	case 500: return "Internal Server Error";
	case 503: return "Service Unavailable";
	}
	return "Unknown";
}

static const char *http_date(struct sim *s)
{
	uint64_t now_s = clock_wall_ns() / NSEC_PER_SEC;

	if (now_s != s->date_s) {
		time_t t = (time_t)now_s;
		struct tm tm;

		gmtime_r(&t, &tm);
		strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		s->date_s = now_s;
	}
	return s->date;
}

void sim_api_head(struct sim_conn *c, int status, const char *type, const char *extra, long long content_length)
{
	struct sim_buf *out = &c->out;

	sim_buf_fmt(out, "HTTP/1.1 %d %s\r\ndate: %s\r\nserver: uvicorn\r\n%s", status, status_text(status),
		    http_date(c->node->sim), extra);
	if (content_length >= 0)
		sim_buf_fmt(out, "content-length: %lld\r\n", content_length);
	if (type)
		sim_buf_fmt(out, "content-type: %s\r\n", type);
	sim_buf_str(out, "vary: Origin\r\n");
	if (c->request_id[0])
		sim_buf_fmt(out, "x-request-id: %s\r\n", c->request_id);
	if (!c->keep_alive)
		sim_buf_str(out, "connection: close\r\n");
	if (content_length < 0)
		sim_buf_str(out, "transfer-encoding: chunked\r\n");
	sim_buf_str(out, "\r\n");
}

void sim_api_reply(struct sim_conn *c, int status, const char *type, const char *extra, const char *body, size_t len)
{
	sim_api_head(c, status, len ? type : NULL, extra, (long long)len);
	if (llhttp_get_method(&c->parser) != HTTP_HEAD)
		sim_buf_add(&c->out, body, len);
	sim_conn_finish(c);
}

static void reply_text(struct sim_conn *c, int status, const char *extra, const char *json)
{
	sim_api_reply(c, status, JSON, extra, json, strlen(json));
}

static void reply_buf(struct sim_conn *c, int status, struct sim_buf *body)
{
	sim_api_reply(c, status, JSON, "", body->data, body->len);
	sim_buf_free(body);
}

static void reply_error(struct sim_conn *c, int status, const char *message, const char *type, const char *param)
{
	struct sim_buf b = { 0 };

	sim_error_json(&b, message, type, param, status);
	reply_buf(c, status, &b);
}

static void get_empty(struct sim_conn *c)
{
	sim_api_reply(c, 200, NULL, "", "", 0);
}

static void get_version(struct sim_conn *c)
{
	reply_text(c, 200, "", "{\"version\":\"0.32.0\"}");
}

static void get_load(struct sim_conn *c)
{
	struct node_stats st;
	char body[64];

	node_read_stats(c->node->model, &st);
	snprintf(body, sizeof(body), "{\"server_load\":%u}", st.running + st.waiting);
	reply_text(c, 200, "", body);
}

static void add_model(struct sim_buf *b, const struct sim_node *n, const char *id, const char *parent)
{
	unsigned long long now = clock_wall_ns() / NSEC_PER_SEC;

	sim_buf_str(b, "{\"id\":\"");
	sim_buf_json(b, id, strlen(id));
	sim_buf_fmt(b, "\",\"object\":\"model\",\"created\":%llu,\"owned_by\":\"vllm\",\"root\":\"", now);
	sim_buf_json(b, id, strlen(id));
	sim_buf_str(b, "\",\"parent\":");
	if (parent) {
		sim_buf_str(b, "\"");
		sim_buf_json(b, parent, strlen(parent));
		sim_buf_str(b, "\",\"max_model_len\":null");
	} else {
		sim_buf_fmt(b, "null,\"max_model_len\":%u", n->max_model_tokens);
	}
	sim_buf_fmt(b, ",\"permission\":[{\"id\":\"modelperm-%d\",\"object\":\"model_permission\",\"created\":%llu,"
		    "\"allow_create_engine\":false,\"allow_sampling\":true,\"allow_logprobs\":true,\"allow_search_indices\":false,"
		    "\"allow_view\":true,\"allow_fine_tuning\":false,\"organization\":\"*\",\"group\":null,\"is_blocking\":false}]}",
		    n->index, now);
}

static void get_models(struct sim_conn *c)
{
	const struct sim_options *o = &c->node->sim->o;
	struct sim_buf b = { 0 };

	sim_buf_str(&b, "{\"object\":\"list\",\"data\":[");
	add_model(&b, c->node, o->model, NULL);
	for (int i = 0; i < o->adapters; i++) {
		sim_buf_str(&b, ",");
		add_model(&b, c->node, o->adapter[i], o->model);
	}
	sim_buf_str(&b, "]}");
	reply_buf(c, 200, &b);
}

void sim_api_metrics(struct sim_conn *c)
{
	struct sim_buf b = { 0 };

	sim_metrics_write(c->node, &b);
	sim_api_reply(c, 200, "text/plain; version=1.0.0; charset=utf-8", "", b.data, b.len);
	sim_buf_free(&b);
}

static void get_metrics(struct sim_conn *c)
{
	if (c->node->faults & 1u << SIM_FAULT_SLOW_METRICS) {
		c->state = SIM_CONN_HOLD;
		sim_conn_wait(c, SIM_WAIT_METRICS);
		return;
	}
	sim_api_metrics(c);
}

/* -- generation -- */

static void reply_busy(struct sim_conn *c, bool after_head)
{
	c->node->rejected++;
	if (!after_head) {
		reply_error(c, 503, busy_text, "Service Unavailable", "");
		return;
	}
	sim_api_head(c, 200, "text/event-stream; charset=utf-8", "", -1);
	sim_answer_fail(busy_text, "Service Unavailable", 503, &c->out);
	sim_conn_finish(c);
}

/* Index of the adapter, -1 for the base model, -2 for a name that is not served. */
static int find_model(const struct sim_options *o, const char *name)
{
	if (!name || !strcmp(name, o->model))
		return -1;
	for (int i = 0; i < o->adapters; i++)
		if (!strcmp(name, o->adapter[i]))
			return i;
	return -2;
}

static void reply_no_model(struct sim_conn *c, const char *name)
{
	const struct sim_options *o = &c->node->sim->o;
	struct sim_buf b = { 0 };

	sim_buf_fmt(&b, "The model `%.200s` does not exist. Valid aliases: %s", name, o->model);
	for (int i = 0; i < o->adapters; i++)
		sim_buf_fmt(&b, ", %s", o->adapter[i]);
	sim_buf_add(&b, ".", 2);
	reply_error(c, 404, b.failed ? "no such model" : b.data, "NotFoundError", "model");
	sim_buf_free(&b);
}

static void start(struct sim_conn *c, struct sim_prompt *p, int adapter)
{
	struct sim *s = c->node->sim;
	const char *served = adapter >= 0 ? s->o.adapter[adapter] : s->o.model;
	struct sim_limits limits = { .max_model_tokens = c->node->max_model_tokens, .seed = s->o.seed };
	int ret = sim_prompt_complete(p, served, &limits);
	/* Odd multiples of the golden ratio are a permutation: ids never repeat in a run. */
	uint64_t serial = (++s->serial + (s->o.seed << 40)) * 0x9e3779b97f4a7c15ull;

	c->model = strdup(p->model ? p->model : served);
	if (ret || !c->model || sim_answer_init(&c->answer, p, c->model, serial, clock_wall_ns() / NSEC_PER_SEC)) {
		reply_error(c, 500, "out of memory", "InternalServerError", "");
		return;
	}
	c->stream = p->stream;
	c->arrived_ns = clock_now_ns();
	c->generated = 0;
	ret = sim_engine_submit(c, p, adapter);
	if (ret == -EBUSY) {
		reply_busy(c, false);
		return;
	}
	if (ret) {
		reply_error(c, 500, "the request can't be scheduled", "InternalServerError", "");
		return;
	}
	c->state = SIM_CONN_ANSWER;
	/* The head of a stream goes out before the prefill, as uvicorn sends it. */
	if (c->stream)
		sim_api_head(c, 200, "text/event-stream; charset=utf-8", "", -1);
	sim_conn_flush(c);
}

static void generate(struct sim_conn *c, enum sim_api api)
{
	struct sim_node *n = c->node;
	struct sim_limits limits = { .max_model_tokens = n->max_model_tokens, .seed = n->sim->o.seed };
	struct sim_refusal why;
	struct sim_prompt p;
	int adapter;

	if (n->faults & 1u << SIM_FAULT_5XX) {
		reply_error(c, 500, "Internal server error", "InternalServerError", "");
		return;
	}
	if (!c->json && api != SIM_API_INVOCATIONS && c->body.len) {
		reply_error(c, 400, "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
			    "Bad Request", "");
		return;
	}
	if (sim_prompt_parse(&p, api, c->body.data, c->body.len, &limits, &why)) {
		reply_error(c, why.status, why.message, why.type, why.param);
		sim_prompt_free(&p);
		return;
	}
	adapter = find_model(&n->sim->o, p.model);
	if (adapter == -2)
		reply_no_model(c, p.model);
	else if (n->faults & 1u << SIM_FAULT_BUSY)
		reply_busy(c, false);
	else if (n->faults & 1u << SIM_FAULT_BUSY_STREAM)
		reply_busy(c, p.stream);
	else
		start(c, &p, adapter);
	sim_prompt_free(&p);
}

static void post_chat(struct sim_conn *c)
{
	generate(c, SIM_API_CHAT);
}

static void post_completions(struct sim_conn *c)
{
	generate(c, SIM_API_COMPLETIONS);
}

static void post_messages(struct sim_conn *c)
{
	generate(c, SIM_API_MESSAGES);
}

static void post_responses(struct sim_conn *c)
{
	generate(c, SIM_API_RESPONSES);
}

static void post_invocations(struct sim_conn *c)
{
	generate(c, SIM_API_INVOCATIONS);
}

void sim_api_engine_dead(struct sim_conn *c)
{
	static const char text[] = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

	c->keep_alive = false;
	if (c->stream) {
		sim_answer_fail(text, "InternalServerError", 500, &c->out);
		sim_conn_finish(c);
	} else {
		reply_error(c, 500, text, "InternalServerError", "");
	}
}

static const struct {
	const char *path;
	uint8_t method, method2;
	const char *allow;
	void (*handle)(struct sim_conn *c);
} routes[] = {
	{ "/v1/chat/completions", HTTP_POST, HTTP_POST, "POST", post_chat },
	{ "/v1/completions", HTTP_POST, HTTP_POST, "POST", post_completions },
	{ "/v1/messages", HTTP_POST, HTTP_POST, "POST", post_messages },
	{ "/v1/responses", HTTP_POST, HTTP_POST, "POST", post_responses },
	{ "/invocations", HTTP_POST, HTTP_POST, "POST", post_invocations },
	{ "/v1/models", HTTP_GET, HTTP_GET, "GET", get_models },
	{ "/metrics", HTTP_GET, HTTP_GET, "GET", get_metrics },
	{ "/health", HTTP_GET, HTTP_GET, "GET", get_empty },
	{ "/ping", HTTP_GET, HTTP_POST, "GET, POST", get_empty },
	{ "/version", HTTP_GET, HTTP_GET, "GET", get_version },
	{ "/load", HTTP_GET, HTTP_GET, "GET", get_load },
};

void sim_api_request(struct sim_conn *c)
{
	uint8_t method = llhttp_get_method(&c->parser);
	size_t len = 0;

	c->byte_mode = c->node->faults & 1u << SIM_FAULT_BYTE;
	if (c->node->faults & 1u << SIM_FAULT_HANG) {
		c->state = SIM_CONN_HOLD;
		return;
	}
	if (c->node->faults & 1u << SIM_FAULT_LOADING) {
		reply_text(c, 503, "", "{\"error\":{\"message\":\"Loading model\",\"type\":\"unavailable_error\",\"code\":503}}");
		return;
	}
	while (len < c->url.len && c->url.data[len] != '?')
		len++;
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		char allow[48];

		if (strlen(routes[i].path) != len || memcmp(routes[i].path, c->url.data, len))
			continue;
		if (method == routes[i].method || method == routes[i].method2) {
			routes[i].handle(c);
			return;
		}
		snprintf(allow, sizeof(allow), "allow: %s\r\n", routes[i].allow);
		reply_text(c, 405, allow, "{\"detail\":\"Method Not Allowed\"}");
		return;
	}
	reply_text(c, 404, "", "{\"detail\":\"Not Found\"}");
}
