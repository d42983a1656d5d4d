/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "signals/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

static const char *const kind_names[ENGINE_KINDS] = {
	[ENGINE_AUTO] = "auto",     [ENGINE_VLLM] = "vllm",     [ENGINE_SGLANG] = "sglang",
	[ENGINE_TRTLLM] = "trtllm", [ENGINE_TRITON] = "triton", [ENGINE_LLAMACPP] = "llamacpp",
};

const char *engine_kind_name(enum engine_kind kind)
{
	return (unsigned)kind < ENGINE_KINDS ? kind_names[kind] : "?";
}

int engine_kind_from_name(const char *name)
{
	for (int i = 0; i < ENGINE_KINDS; i++)
		if (!strcmp(name, kind_names[i]))
			return i;
	return strcmp(name, "llama.cpp") ? -EINVAL : ENGINE_LLAMACPP;
}

/* What one metric says. */
enum signal_field {
	FIELD_WAITING,
	FIELD_RUNNING,
	FIELD_KV_USED,      /* value: share in use */
	FIELD_QUERIES,      /* prefix cache, tokens asked for */
	FIELD_HITS,
	FIELD_BLOCK_SIZE,   /* value: tokens a block */
	FIELD_BLOCKS,       /* value: blocks in the cache */
	FIELD_CACHE_INFO,   /* labels: block size, blocks, tokens */
	FIELD_LORA_INFO,    /* labels: adapters; value: time stamp */
	FIELD_PROGRESS,     /* a counter that only a restart sets back */
};

/* A row matches when the name is equal and, if the row names a label, that
 * label has that value. One engine may have several names for one field, from
 * its different versions. (A version in transition may show both: the mean of a
 * gauge and the ratio of the two prefix counters stay right.) */
struct metric_row {
	enum engine_kind kind;
	const char *name;
	const char *label;
	const char *value;
	enum signal_field field;
};

static const struct metric_row metric_rows[] = {
	{ ENGINE_VLLM, "vllm:num_requests_waiting", NULL, NULL, FIELD_WAITING },
	{ ENGINE_VLLM, "vllm:num_requests_running", NULL, NULL, FIELD_RUNNING },
	{ ENGINE_VLLM, "vllm:kv_cache_usage_perc", NULL, NULL, FIELD_KV_USED },
	{ ENGINE_VLLM, "vllm:gpu_cache_usage_perc", NULL, NULL, FIELD_KV_USED },
	{ ENGINE_VLLM, "vllm:cache_config_info", NULL, NULL, FIELD_CACHE_INFO },
	{ ENGINE_VLLM, "vllm:lora_requests_info", NULL, NULL, FIELD_LORA_INFO },
	{ ENGINE_VLLM, "vllm:prefix_cache_queries_total", NULL, NULL, FIELD_QUERIES },
	{ ENGINE_VLLM, "vllm:prefix_cache_hits_total", NULL, NULL, FIELD_HITS },
	{ ENGINE_VLLM, "vllm:gpu_prefix_cache_queries_total", NULL, NULL, FIELD_QUERIES },
	{ ENGINE_VLLM, "vllm:gpu_prefix_cache_hits_total", NULL, NULL, FIELD_HITS },
	{ ENGINE_VLLM, "vllm:prompt_tokens_total", NULL, NULL, FIELD_PROGRESS },
	{ ENGINE_VLLM, "vllm:generation_tokens_total", NULL, NULL, FIELD_PROGRESS },

	{ ENGINE_SGLANG, "sglang:num_queue_reqs", NULL, NULL, FIELD_WAITING },
	{ ENGINE_SGLANG, "sglang:num_running_reqs", NULL, NULL, FIELD_RUNNING },
	{ ENGINE_SGLANG, "sglang:token_usage", NULL, NULL, FIELD_KV_USED },
	{ ENGINE_SGLANG, "sglang:cache_config_info", NULL, NULL, FIELD_CACHE_INFO },
	{ ENGINE_SGLANG, "sglang:prompt_tokens_total", NULL, NULL, FIELD_PROGRESS },
	{ ENGINE_SGLANG, "sglang:generation_tokens_total", NULL, NULL, FIELD_PROGRESS },

	{ ENGINE_TRTLLM, "trtllm_num_requests_waiting", NULL, NULL, FIELD_WAITING },
	{ ENGINE_TRTLLM, "trtllm_num_requests_running", NULL, NULL, FIELD_RUNNING },
	{ ENGINE_TRTLLM, "trtllm_kv_cache_utilization", NULL, NULL, FIELD_KV_USED },
	{ ENGINE_TRTLLM, "trtllm_kv_cache_tokens_per_block", NULL, NULL, FIELD_BLOCK_SIZE },
	{ ENGINE_TRTLLM, "trtllm_kv_cache_max_blocks", NULL, NULL, FIELD_BLOCKS },
	{ ENGINE_TRTLLM, "trtllm_request_success_total", NULL, NULL, FIELD_PROGRESS },

	{ ENGINE_TRITON, "nv_trt_llm_request_metrics", "request_type", "waiting", FIELD_WAITING },
	{ ENGINE_TRITON, "nv_trt_llm_request_metrics", "request_type", "scheduled", FIELD_RUNNING },
	{ ENGINE_TRITON, "nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction", FIELD_KV_USED },
	{ ENGINE_TRITON, "nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "tokens_per", FIELD_BLOCK_SIZE },
	{ ENGINE_TRITON, "nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "max", FIELD_BLOCKS },
	{ ENGINE_TRITON, "nv_inference_count", NULL, NULL, FIELD_PROGRESS },

	{ ENGINE_LLAMACPP, "llamacpp:requests_deferred", NULL, NULL, FIELD_WAITING },
	{ ENGINE_LLAMACPP, "llamacpp:requests_processing", NULL, NULL, FIELD_RUNNING },
	/* The KV gauge of builds from before 2025, when the cache was one pool. */
	{ ENGINE_LLAMACPP, "llamacpp:kv_cache_usage_ratio", NULL, NULL, FIELD_KV_USED },
	{ ENGINE_LLAMACPP, "llamacpp:prompt_tokens_total", NULL, NULL, FIELD_PROGRESS },
	{ ENGINE_LLAMACPP, "llamacpp:prompt_tokens_cached_total", NULL, NULL, FIELD_PROGRESS },
	{ ENGINE_LLAMACPP, "llamacpp:tokens_predicted_total", NULL, NULL, FIELD_PROGRESS },
};

/* A count of a label such as block_size="16"; 0 for "None", "", or nonsense. */
static double label_number(const struct prom_sample *sample, const char *name)
{
	const char *text = prom_sample_label(sample, name);
	char *end;
	double value;

	if (!text || !*text)
		return 0;
	value = strtod(text, &end);
	return *end || !(value > 0) || value > 1e15 ? 0 : value;
}

static void take_cache_info(struct engine_sums *sums, const struct prom_sample *sample)
{
	double block = label_number(sample, "block_size"), blocks = label_number(sample, "num_gpu_blocks");
	double tokens = label_number(sample, "kv_cache_size_tokens");

	if (block == 0)
		block = label_number(sample, "page_size");
	if (blocks == 0)
		blocks = label_number(sample, "num_pages");
	if (block > 0 && block <= UINT32_MAX)
		sums->block_size = (uint32_t)block;
	/* One series per rank: their caches add up. */
	sums->capacity_tokens += tokens > 0 ? tokens : block * blocks;
}

static bool adapter_known(const struct signal_sample *out, const char *name, size_t len)
{
	for (uint32_t i = 0; i < out->n_adapters; i++)
		if (!strncmp(out->adapters[i].name, name, len) && !out->adapters[i].name[len])
			return true;
	return false;
}

/* Adds the names of a comma-separated list. */
static void take_adapters(struct signal_sample *out, const char *list, bool running)
{
	while (list && *list) {
		size_t len;

		list += strspn(list, ", ");
		len = strcspn(list, ",");
		if (len && !adapter_known(out, list, len)) {
			if (len >= SIGNAL_ADAPTER_NAME_MAX || out->n_adapters == SIGNAL_ADAPTERS_MAX) {
				out->adapters_partial = true;
			} else {
				struct signal_adapter *a = &out->adapters[out->n_adapters++];

				memcpy(a->name, list, len);
				a->name[len] = '\0';
				a->running = running;
			}
		}
		list += len;
	}
}

/* vLLM keeps a series for each set of adapters ever in use; its value is the
 * time when that set was last seen, so that only the newest tells the present. */
static void take_lora_info(struct engine_reader *r, struct engine_sums *sums, const struct prom_sample *sample)
{
	struct signal_sample *out = &r->sample;

	if (isnan(sample->value) || (sums->lora_seen && sample->value <= sums->lora_stamp))
		return;
	sums->lora_seen = true;
	sums->lora_stamp = sample->value;
	out->adapters_known = true;
	out->adapters_partial = false;
	out->n_adapters = 0;
	out->max_lora = (uint32_t)fmin(label_number(sample, "max_lora"), UINT32_MAX);
	take_adapters(out, prom_sample_label(sample, "running_lora_adapters"), true);
	take_adapters(out, prom_sample_label(sample, "waiting_lora_adapters"), false);
}

static void take_field(struct engine_reader *r, struct engine_sums *sums, enum signal_field field,
		       const struct prom_sample *sample)
{
	double v = sample->value;

	if (field == FIELD_CACHE_INFO) {
		take_cache_info(sums, sample);
		return;
	}
	if (field == FIELD_LORA_INFO) {
		take_lora_info(r, sums, sample);
		return;
	}
	/* A gauge that its source failed to compute is NaN; none of these can be
	 * negative. Such a series counts as absent. */
	if (!isfinite(v) || v < 0)
		return;
	switch (field) {
	case FIELD_WAITING:
		sums->waiting += v;
		sums->n_waiting++;
		break;
	case FIELD_RUNNING:
		sums->running += v;
		sums->n_running++;
		break;
	case FIELD_KV_USED:
		sums->kv += v;
		sums->n_kv++;
		break;
	case FIELD_QUERIES:
		sums->prefix_queries += v;
		sums->n_queries++;
		break;
	case FIELD_HITS:
		sums->prefix_hits += v;
		sums->n_hits++;
		break;
	case FIELD_BLOCK_SIZE:
		sums->block_size = (uint32_t)fmin(v, UINT32_MAX);
		break;
	case FIELD_BLOCKS:
		sums->blocks += v;
		break;
	default:
		sums->progress += v;
		sums->n_progress++;
		break;
	}
}

static void on_sample(void *ctx, const struct prom_sample *sample)
{
	struct engine_reader *r = ctx;

	/* Shared by all Python engines; whichever engine it turns out to be. */
	if (!strcmp(sample->name, "process_start_time_seconds")) {
		if (isfinite(sample->value))
			r->sums[ENGINE_AUTO].start = sample->value;
		return;
	}
	for (size_t i = 0; i < sizeof(metric_rows) / sizeof(*metric_rows); i++) {
		const struct metric_row *row = &metric_rows[i];
		const char *value;

		if (r->hint != ENGINE_AUTO && row->kind != r->hint)
			continue;
		if (strcmp(sample->name, row->name))
			continue;
		if (row->label) {
			value = prom_sample_label(sample, row->label);
			if (!value || strcmp(value, row->value))
				continue;
		}
		take_field(r, &r->sums[row->kind], row->field, sample);
		return;
	}
}

void engine_reader_init(struct engine_reader *r, enum engine_kind hint)
{
	prom_parser_init(&r->parser, on_sample, r);
	r->hint = hint;
	r->seen = ENGINE_AUTO;
	memset(r->sums, 0, sizeof(r->sums));
	memset(&r->sample, 0, sizeof(r->sample));
}

void engine_reader_feed(struct engine_reader *r, const char *data, size_t len)
{
	prom_parser_feed(&r->parser, data, len);
}

static uint32_t count_of(double v)
{
	return v >= UINT32_MAX ? UINT32_MAX : (uint32_t)(v + 0.5);
}

/* Another process than before? Its start time says so exactly where it is
 * exported; else counters that went back do. llama.cpp's header
 * Process-Start-Time-Unix is not used: it was seen to be wrong by weeks. */
static bool process_changed(const struct engine_memory *m, const struct engine_sums *sums, double start)
{
	if (m->process_start > 0 && start > 0 && fabs(start - m->process_start) > 1)
		return true;
	return m->has_progress && sums->n_progress && sums->progress < m->progress;
}

int engine_reader_finish(struct engine_reader *r, struct engine_memory *memory, struct signal_sample *out)
{
	struct signal_sample *s = &r->sample;
	struct engine_sums *sums = NULL;
	double start = r->sums[ENGINE_AUTO].start;
	int err = prom_parser_finish(&r->parser);

	if (err)
		return -EBADMSG;
	for (int kind = ENGINE_AUTO + 1; kind < ENGINE_KINDS && !sums; kind++) {
		if (r->sums[kind].n_waiting || r->sums[kind].n_running) {
			r->seen = (enum engine_kind)kind;
			sums = &r->sums[kind];
		}
	}
	if (!sums)
		return -ENOENT;

	s->engine = r->seen;
	s->has_load = sums->n_waiting && sums->n_running;
	s->waiting = count_of(sums->waiting);
	s->running = count_of(sums->running);
	s->kv_used = sums->n_kv ? fmin(sums->kv / sums->n_kv, 1.0) : -1.0;
	s->block_size_tokens = sums->block_size;
	if (sums->capacity_tokens > 0)
		s->kv_capacity_tokens = (uint64_t)sums->capacity_tokens;
	else
		s->kv_capacity_tokens = (uint64_t)(sums->blocks * sums->block_size);
	s->has_prefix_counters = sums->n_queries && sums->n_hits;
	s->prefix_queries_tokens = sums->prefix_queries;
	s->prefix_hits_tokens = sums->prefix_hits;
	s->restarted = (memory->kind != ENGINE_AUTO && memory->kind != r->seen) || process_changed(memory, sums, start);

	if (s->restarted)
		memory->props_capacity_tokens = 0; /* it may have come back with other options */
	if (r->seen == ENGINE_LLAMACPP) {
		s->block_size_tokens = 1; /* a prefix is reused to the token */
		s->kv_capacity_tokens = memory->props_capacity_tokens;
		s->kv_capacity_bound = true;
	}
	memory->kind = r->seen;
	memory->has_progress = sums->n_progress > 0;
	memory->progress = sums->progress;
	memory->process_start = start;
	*out = *s;
	return 0;
}

bool engine_wants_props(const struct engine_memory *memory)
{
	return memory->kind == ENGINE_LLAMACPP && !memory->props_capacity_tokens;
}

/* n_ctx is the context of one slot. With --kv-unified the slots share one pool
 * of n_ctx, without it each has its own, and /props does not tell which; but
 * idle prompts also survive in host memory beyond the slots. Besides, a slot holds one
 * prompt, however short. n_ctx times slots is the most that all slots can hold: a bound,
 * which a measured `kv_tokens` of the configuration may lower. */
int engine_props_read(struct engine_memory *memory, const char *json, size_t len)
{
	yyjson_doc *doc = yyjson_read(json, len, 0);
	yyjson_val *root = doc ? yyjson_doc_get_root(doc) : NULL;
	yyjson_val *settings = yyjson_obj_get(root, "default_generation_settings");
	yyjson_val *n_ctx = yyjson_obj_get(settings, "n_ctx"), *slots = yyjson_obj_get(root, "total_slots");
	int err = -EBADMSG;

	if (yyjson_is_int(n_ctx) && yyjson_get_sint(n_ctx) > 0 && yyjson_get_sint(n_ctx) <= UINT32_MAX) {
		uint64_t n = 1;

		if (yyjson_is_int(slots) && yyjson_get_sint(slots) > 0 && yyjson_get_sint(slots) <= UINT16_MAX)
			n = (uint64_t)yyjson_get_sint(slots);
		memory->props_capacity_tokens = (uint64_t)yyjson_get_sint(n_ctx) * n;
		err = 0;
	}
	yyjson_doc_free(doc);
	return err;
}
