/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/status.h"

#include <unistd.h>

#include "base/clock.h"
#include "control/json.h"
#include "control/view.h"
#include "gateway/splice_view.h"
#include "kvsteer/version.h"

static void status_figure(struct json *j, const char *key, uint32_t v)
{
	if (v == BACKEND_UNKNOWN)
		json_null(j, key);
	else
		json_uint(j, key, v);
}

/* Share of prompt tokens, null while there are none to be a share of. */
static void status_share(struct json *j, const char *key, uint64_t part, uint64_t whole)
{
	if (whole)
		json_real(j, key, (double)part / (double)whole, 4);
	else
		json_null(j, key);
}

static void status_backend(struct json *j, const struct view *v, const struct route_backend_status *b, const char *pool)
{
	json_object(j, NULL);
	json_str(j, "name", b->name);
	if (pool)
		json_str(j, "pool", pool);
	json_str(j, "address", b->address);
	json_str(j, "state", view_state_name(b->state));
	json_uint(j, "cap", b->cap);
	json_uint(j, "in_flight", b->in_flight);
	status_figure(j, "waiting", b->waiting);
	status_figure(j, "running", b->running);
	json_real(j, "kv_used", b->kv_used < 0 ? __builtin_nan("") : b->kv_used, 4);
	json_bool(j, "stale", b->stale);
	json_bool(j, "unreachable", gateway_unreachable(v->gw, b->row));
	status_share(j, "hit_predicted", b->hit_predicted_tokens, b->prompt_tokens);
	status_share(j, "hit_reported", b->hit_reported_tokens, b->sampled_prompt_tokens);
	json_real(j, "speed", b->speed, 3);
	json_real(j, "wait_s", b->wait_s, 4);
	json_uint(j, "requests", b->requests);
	json_uint(j, "prompt_tokens", b->prompt_tokens);
	json_uint(j, "hit_predicted_tokens", b->hit_predicted_tokens);
	json_uint(j, "hit_reported_tokens", b->hit_reported_tokens);
	json_uint(j, "sampled_prompt_tokens", b->sampled_prompt_tokens);
	json_uint(j, "index_blocks", b->index_blocks);
	if (b->state == BACKEND_EXCLUDED)
		json_real(j, "excluded_for_s", (double)b->excluded_for_ns / (double)NSEC_PER_SEC, 1);
	json_end(j);
}

static void status_pool_head(struct json *j, const struct view_pool *p)
{
	json_str(j, "name", p->cfg->name);
	json_str(j, "policy", config_policy_name(p->cfg->policy));
	json_uint(j, "queued", p->queued);
	json_real(j, "saturation", p->status.saturation, 4);
	json_uint(j, "eligible", p->status.n_eligible);
	json_bool(j, "last_resort", p->status.last_resort);
}

char *status_json(const struct view *v, size_t *len)
{
	struct gateway_splice_view splice;
	uint64_t queued = 0;
	struct json j;

	gateway_splice_view(v->gw, &splice);

	for (unsigned i = 0; i < v->n_pools; i++)
		queued += v->pools[i].queued;
	json_start(&j);
	json_str(&j, "version", KVSTEER_VERSION);
	json_uint(&j, "router_pid", (uint64_t)getpid());
	json_null(&j, "supervisor_pid");
	json_real(&j, "uptime_s", (double)(v->now_ns - gateway_start_ns(v->gw)) / (double)NSEC_PER_SEC, 3);
	json_bool(&j, "draining", gateway_draining(v->gw));
	json_object(&j, "datapath");
	json_str(&j, "mode", splice.on ? "splice" : "relay");
	json_str(&j, "reason", splice.on ? "the self-test passed" : splice.why);
	if (splice.pin)
		json_str(&j, "pin", splice.pin);
	json_end(&j);
	json_object(&j, "flows");
	json_uint(&j, "splice", v->sum.flows_splice);
	json_uint(&j, "relay", v->sum.flows_relay);
	json_end(&j);
	json_object(&j, "connections");
	json_uint(&j, "client", v->sum.clients);
	json_uint(&j, "upstream", v->sum.upstreams);
	json_end(&j);
	json_uint(&j, "queued", queued);
	json_object(&j, "ledger");
	json_uint(&j, "live_slots", v->ledger.live_slots);
	json_uint(&j, "in_flight", v->ledger.in_flight);
	json_uint(&j, "refused_releases", v->ledger.refused_releases);
	json_end(&j);
	json_array(&j, "pools");
	for (unsigned i = 0; i < v->n_pools; i++) {
		json_object(&j, NULL);
		status_pool_head(&j, &v->pools[i]);
		json_array(&j, "backends");
		for (unsigned k = 0; k < v->pools[i].n_backends; k++)
			status_backend(&j, v, &v->pools[i].backends[k], NULL);
		json_end(&j);
		json_end(&j);
	}
	json_end(&j);
	return json_finish(&j, len);
}

static void status_strings(struct json *j, const char *key, const struct config_strings *s)
{
	json_array(j, key);
	for (unsigned i = 0; i < s->n; i++)
		json_str(j, NULL, s->v[i]);
	json_end(j);
}

char *status_pools_json(const struct view *v, size_t *len)
{
	struct json j;

	json_start(&j);
	json_array(&j, "pools");
	for (unsigned i = 0; i < v->n_pools; i++) {
		const struct view_pool *p = &v->pools[i];

		json_object(&j, NULL);
		status_pool_head(&j, p);
		status_strings(&j, "models", &p->cfg->models);
		status_strings(&j, "adapters", &p->cfg->adapters);
		json_array(&j, "aliases");
		for (unsigned k = 0; k < p->cfg->n_aliases; k++) {
			json_object(&j, NULL);
			json_str(&j, "alias", p->cfg->aliases[k].alias);
			json_str(&j, "model", p->cfg->aliases[k].model);
			json_end(&j);
		}
		json_end(&j);
		json_bool(&j, "any_model", p->cfg->any_model);
		json_bool(&j, "default", p->cfg->is_default);
		json_uint(&j, "backends", p->n_backends);
		json_uint(&j, "queue_max_requests", p->cfg->queue_max_requests);
		json_uint(&j, "assigned", p->status.assigned);
		json_uint(&j, "refused_at_cap", p->status.refused_at_cap);
		json_uint(&j, "refused_no_node", p->status.refused_no_node);
		json_uint(&j, "retries", p->status.retries);
		json_real(&j, "bytes_per_token", p->status.bytes_per_token, 3);
		json_real(&j, "mean_prefill_s", p->status.mean_prefill_s, 4);
		json_real(&j, "mean_output_tokens", p->status.mean_output_tokens, 1);
		json_uint(&j, "index_blocks", p->status.index_blocks);
		json_uint(&j, "index_memory_bytes", p->status.index_memory_bytes);
		json_uint(&j, "index_evictions", p->status.index_evictions);
		json_end(&j);
	}
	json_end(&j);
	return json_finish(&j, len);
}

char *status_backends_json(const struct view *v, size_t *len)
{
	struct json j;

	json_start(&j);
	json_array(&j, "backends");
	for (unsigned i = 0; i < v->n_pools; i++)
		for (unsigned k = 0; k < v->pools[i].n_backends; k++)
			status_backend(&j, v, &v->pools[i].backends[k], v->pools[i].cfg->name);
	json_end(&j);
	return json_finish(&j, len);
}

char *status_explain_json(const struct gateway_explain *e, size_t *len)
{
	bool last_resort = false;
	struct json j;

	for (unsigned i = 0; i < e->n; i++)
		last_resort |= e->rows[i].last_resort;
	json_start(&j);
	json_str(&j, "pool", e->pool->cfg->name);
	json_str(&j, "policy", config_policy_name(e->pool->cfg->policy));
	json_uint(&j, "tokens", e->tokens);
	json_uint(&j, "blocks", e->blocks);
	json_bool(&j, "last_resort", last_resort);
	json_array(&j, "backends");
	for (unsigned i = 0; i < e->n; i++) {
		const struct route_explain_row *r = &e->rows[i];

		json_object(&j, NULL);
		json_str(&j, "name", r->name);
		json_bool(&j, "eligible", r->eligible);
		json_str(&j, "why", r->why);
		json_bool(&j, "last_resort", r->last_resort);
		json_uint(&j, "match_tokens", r->match_tokens);
		json_real(&j, "wait_ms", r->wait_ms, 3);
		json_real(&j, "prefill_ms", r->prefill_ms, 3);
		json_real(&j, "ttft_ms", r->ttft_ms, 3);
		json_real(&j, "congestion_ms", r->congestion_ms, 3);
		json_real(&j, "decode_ms", r->decode_ms, 3);
		json_real(&j, "adapter_ms", r->adapter_ms, 3);
		json_real(&j, "cost_ms", r->cost_ms, 3);
		json_bool(&j, "chosen", r->chosen);
		json_end(&j);
	}
	json_end(&j);
	return json_finish(&j, len);
}
