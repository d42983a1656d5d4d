/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* /metrics: vLLM 0.32's names and labels, of those that routers and dashboards read. */
#include <string.h>

#include "base/clock.h"
#include "gpusim/sim.h"

static const double ttft_bound[SIM_TTFT_BUCKETS] = {
	.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 10, 20,
};

void sim_metrics_ttft(struct sim_node *n, double seconds)
{
	int b = 0;

	while (b < SIM_TTFT_BUCKETS && seconds > ttft_bound[b])
		b++;
	n->ttft_count[b]++;
	n->ttft_sum += seconds;
}

static uint64_t adapter_mask(const struct sim_node *n, bool of_running)
{
	int32_t ids[SIM_MAX_ADAPTERS];
	size_t count = node_adapters(n->model, of_running, ids, SIM_MAX_ADAPTERS);
	uint64_t mask = 0;

	for (size_t i = 0; i < count; i++)
		mask |= 1ull << ids[i];
	return mask;
}

/* The engine sets a series to the present time for the set of adapters that it
 * sees; series of older sets stay with their old stamps. When there are too
 * many the oldest is replaced. */
void sim_metrics_lora(struct sim_node *n)
{
	struct sim_lora_series now = {
		.running = adapter_mask(n, true), .waiting = adapter_mask(n, false), .stamp = (double)clock_wall_ns() / 1e9,
	};
	int at = 0, oldest = 0;

	for (; at < n->lora_series; at++) {
		if (n->lora[at].running == now.running && n->lora[at].waiting == now.waiting)
			break;
		if (n->lora[at].stamp < n->lora[oldest].stamp)
			oldest = at;
	}
	if (at == SIM_LORA_SERIES)
		at = oldest;
	else if (at == n->lora_series)
		n->lora_series++;
	n->lora[at] = now;
}

struct writer {
	struct sim_buf *out;
	char labels[1400];	/* engine="0",model_name="..." */
};

static void head(struct writer *w, const char *name, const char *type, const char *help)
{
	sim_buf_fmt(w->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct writer *w, const char *name, const char *type, const char *help, double value)
{
	head(w, name, type, help);
	sim_buf_fmt(w->out, "%s{%s} %.17g\n", name, w->labels, value);
}

static void with(struct writer *w, const char *name, const char *label, const char *value, double v)
{
	sim_buf_fmt(w->out, "%s{%s,%s=\"%s\"} %.17g\n", name, w->labels, label, value, v);
}

static void write_mask(struct sim_buf *out, const struct sim_options *o, uint64_t mask)
{
	bool any = false;

	for (int i = 0; i < o->adapters; i++) {
		if (!(mask >> i & 1))
			continue;
		if (any)
			sim_buf_str(out, ",");
		sim_buf_json(out, o->adapter[i], strlen(o->adapter[i]));
		any = true;
	}
}

static void write_ttft(struct writer *w, const struct sim_node *n)
{
	static const char name[] = "vllm:time_to_first_token_seconds";
	uint64_t sum = 0;
	char le[16];

	head(w, name, "histogram", "Time from arrival to the first token.");
	for (int b = 0; b <= SIM_TTFT_BUCKETS; b++) {
		sum += n->ttft_count[b];
		if (b < SIM_TTFT_BUCKETS)
			snprintf(le, sizeof(le), "%g", ttft_bound[b]);
		with(w, "vllm:time_to_first_token_seconds_bucket", "le", b < SIM_TTFT_BUCKETS ? le : "+Inf", (double)sum);
	}
	sim_buf_fmt(w->out, "%s_count{%s} %llu\n%s_sum{%s} %.9g\n", name, w->labels, (unsigned long long)sum, name, w->labels,
		    n->ttft_sum);
}

static void write_lora(struct writer *w, const struct sim_node *n)
{
	const struct sim_options *o = &n->sim->o;
	struct node_config cfg;

	node_config_default(&cfg);
	head(w, "vllm:lora_requests_info", "gauge", "Sets of adapters seen, each with the time when it was seen last.");
	for (int i = 0; i < n->lora_series; i++) {
		sim_buf_fmt(w->out, "vllm:lora_requests_info{max_lora=\"%u\",running_lora_adapters=\"", cfg.adapter_slots);
		write_mask(w->out, o, n->lora[i].running);
		sim_buf_str(w->out, "\",waiting_lora_adapters=\"");
		write_mask(w->out, o, n->lora[i].waiting);
		sim_buf_fmt(w->out, "\"} %.17g\n", n->lora[i].stamp);
	}
}

void sim_metrics_write(struct sim_node *n, struct sim_buf *out)
{
	struct sim_buf model = { 0 };
	struct writer w = { .out = out };
	struct node_stats st;

	sim_buf_json(&model, n->sim->o.model, strlen(n->sim->o.model));
	snprintf(w.labels, sizeof(w.labels), "engine=\"0\",model_name=\"%.*s\"", (int)model.len, model.data);
	sim_buf_free(&model);
	node_read_stats(n->model, &st);
	one(&w, "vllm:num_requests_running", "gauge", "Requests being computed.", st.running);
	one(&w, "vllm:num_requests_waiting", "gauge", "Requests waiting to be computed.", st.waiting);
	head(&w, "vllm:num_requests_waiting_by_reason", "gauge", "The waiting by what they wait for.");
	with(&w, "vllm:num_requests_waiting_by_reason", "reason", "capacity",
	     st.waiting > st.waiting_deferred ? st.waiting - st.waiting_deferred : 0);
	with(&w, "vllm:num_requests_waiting_by_reason", "reason", "deferred",
	     st.waiting_deferred < st.waiting ? st.waiting_deferred : st.waiting);
	one(&w, "vllm:kv_cache_usage_perc", "gauge", "KV cache in use by requests; 1 is all of it.",
	    (double)st.blocks_pinned / st.blocks_total);
	one(&w, "vllm:prefix_cache_queries_total", "counter", "Tokens looked up in the prefix cache.", (double)st.query_tokens);
	one(&w, "vllm:prefix_cache_hits_total", "counter", "Tokens found in the prefix cache.", (double)st.hit_tokens);
	one(&w, "vllm:num_preemptions_total", "counter", "Requests pushed back for want of blocks.", (double)st.preempted);
	one(&w, "vllm:prompt_tokens_total", "counter", "Prompt tokens of requests that got their first token.",
	    (double)n->prompt_tokens);
	one(&w, "vllm:prompt_tokens_cached_total", "counter", "Of these, tokens from the cache.", (double)n->cached_tokens);
	one(&w, "vllm:generation_tokens_total", "counter", "Tokens generated.", (double)st.generated_tokens);
	head(&w, "vllm:request_success_total", "counter", "Requests ended, by reason.");
	with(&w, "vllm:request_success_total", "finished_reason", "stop", (double)n->finished_stop);
	with(&w, "vllm:request_success_total", "finished_reason", "length", (double)n->finished_length);
	with(&w, "vllm:request_success_total", "finished_reason", "abort", (double)n->finished_abort);
	head(&w, "vllm:admission_rejections_total", "counter", "Requests refused because the queue was full.");
	with(&w, "vllm:admission_rejections_total", "reason", "max_num_queued_reqs", (double)n->rejected);
	write_ttft(&w, n);
	if (n->sim->o.adapters)
		write_lora(&w, n);
	head(&w, "vllm:cache_config_info", "gauge", "The KV cache's configuration.");
	sim_buf_fmt(out, "vllm:cache_config_info{block_size=\"%d\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\","
		    "kv_cache_size_tokens=\"%u\",num_gpu_blocks=\"%u\",prefix_caching_hash_algo=\"sha256\"} 1.0\n", NODE_BLOCK_TOKENS,
		    st.blocks_total * NODE_BLOCK_TOKENS, st.blocks_total);
	one(&w, "gpusim_busy_seconds_total", "counter", "Time in which the simulated GPU computed, on the model's clock.",
	    (double)st.busy_ns / 1e9);
	one(&w, "gpusim_cached_blocks", "gauge", "Blocks that can be hit, in use or not.", st.blocks_cached);
	one(&w, "gpusim_evicted_blocks_total", "counter", "Cached blocks that made room.", (double)st.evicted_blocks);
	one(&w, "gpusim_adapter_loads_total", "counter", "Adapters loaded, each a stall of the node.", (double)st.adapter_loads);
	one(&w, "gpusim_late_seconds_max", "gauge", "How late the simulator itself ended a step, at worst.", n->late_max_s);
}
