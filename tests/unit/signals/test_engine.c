/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From the metrics of each engine to one sample: names and shapes as the
 * engines export them, numbers of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "signals/engine.h"

static struct engine_reader reader;

static int read_text(enum engine_kind hint, const char *text, struct engine_memory *m, struct signal_sample *out)
{
	engine_reader_init(&reader, hint);
	engine_reader_feed(&reader, text, strlen(text));
	return engine_reader_finish(&reader, m, out);
}

#define VLLM_LABELS "{engine=\"0\",model_name=\"tiny\"} "
static const char vllm[] =
	"# TYPE process_start_time_seconds gauge\n"
	"process_start_time_seconds 1.79603808363e+09\n"
	"# TYPE vllm:num_requests_running gauge\n"
	"vllm:num_requests_running" VLLM_LABELS "8.0\n"
	"vllm:num_requests_waiting" VLLM_LABELS "3.0\n"
	"vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"tiny\",reason=\"capacity\"} 3.0\n"
	"vllm:kv_cache_usage_perc" VLLM_LABELS "0.5052631578947369\n"
	"vllm:prefix_cache_queries_total" VLLM_LABELS "4682.0\n"
	"vllm:prefix_cache_queries_created" VLLM_LABELS "1.796e+09\n"
	"vllm:prefix_cache_hits_total" VLLM_LABELS "128.0\n"
	"vllm:prompt_tokens_total" VLLM_LABELS "4682.0\n"
	"vllm:generation_tokens_total" VLLM_LABELS "1655.0\n"
	"vllm:cache_config_info{block_size=\"128\",enable_prefix_caching=\"True\",engine=\"0\","
	"kv_cache_size_tokens=\"131072\",num_cpu_blocks=\"None\",num_gpu_blocks=\"1024\"} 1.0\n";

static void test_vllm(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO, vllm, &m, &s), 0);
	assert_int_equal(s.engine, ENGINE_VLLM);
	assert_int_equal(m.kind, ENGINE_VLLM);
	assert_true(s.has_load);
	assert_int_equal(s.waiting, 3);
	assert_int_equal(s.running, 8);
	assert_true(fabs(s.kv_used - 0.50526) < 1e-4);
	assert_int_equal(s.block_size_tokens, 128);
	assert_int_equal(s.kv_capacity_tokens, 131072);
	assert_false(s.kv_capacity_bound);
	assert_true(s.has_prefix_counters);
	assert_true(s.prefix_queries_tokens == 4682 && s.prefix_hits_tokens == 128);
	assert_false(s.adapters_known);
	assert_false(s.restarted);
	assert_false(engine_wants_props(&m));
}

/* Names of versions before 0.10 or so; no kv_cache_size_tokens: blocks times block size. */
static void test_vllm_older_names(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO,
				   "vllm:num_requests_running{model_name=\"m\"} 2.0\n"
				   "vllm:num_requests_waiting{model_name=\"m\"} 0.0\n"
				   "vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.25\n"
				   "vllm:gpu_prefix_cache_queries_total{model_name=\"m\"} 100\n"
				   "vllm:gpu_prefix_cache_hits_total{model_name=\"m\"} 40\n"
				   "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"40000\"} 1.0\n",
				   &m, &s),
			 0);
	assert_true(s.kv_used == 0.25);
	assert_int_equal(s.block_size_tokens, 16);
	assert_int_equal(s.kv_capacity_tokens, 640000);
	assert_true(s.prefix_hits_tokens == 40);
}

/* Data-parallel ranks are one backend: counts add up, use is the mean, caches add up. */
static void test_vllm_ranks(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO,
				   "vllm:num_requests_running{engine=\"0\"} 4\nvllm:num_requests_running{engine=\"1\"} 6\n"
				   "vllm:num_requests_waiting{engine=\"0\"} 1\nvllm:num_requests_waiting{engine=\"1\"} 2\n"
				   "vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.6\n"
				   "vllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"100\"} 1\n"
				   "vllm:cache_config_info{engine=\"1\",block_size=\"16\",num_gpu_blocks=\"50\"} 1\n",
				   &m, &s),
			 0);
	assert_int_equal(s.running, 10);
	assert_int_equal(s.waiting, 3);
	assert_true(fabs(s.kv_used - 0.4) < 1e-9);
	assert_int_equal(s.kv_capacity_tokens, 2400);
}

/* vLLM keeps a series for each set of adapters ever in use; only the newest by
 * its value counts, wherever it stands in the document. */
static void test_vllm_adapters_newest_series(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(
		read_text(ENGINE_AUTO,
			  "vllm:num_requests_running 1\nvllm:num_requests_waiting 1\n"
			  "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.79603857e+09\n"
			  "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"a,b\",waiting_lora_adapters=\"b,c\"} 1.79603874e+09\n"
			  "vllm:lora_requests_info{max_lora=\"2\",running_lora_adapters=\"old\",waiting_lora_adapters=\"\"} 1.79603825e+09\n",
			  &m, &s),
		0);
	assert_true(s.adapters_known);
	assert_false(s.adapters_partial);
	assert_int_equal(s.max_lora, 2);
	assert_int_equal(s.n_adapters, 3);
	assert_string_equal(s.adapters[0].name, "a");
	assert_string_equal(s.adapters[1].name, "b");
	assert_true(s.adapters[1].running);
	assert_string_equal(s.adapters[2].name, "c");
	assert_false(s.adapters[2].running);

	assert_int_equal(
		read_text(ENGINE_AUTO,
			  "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
			  "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a\",waiting_lora_adapters=\"\"} 10\n"
			  "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 20\n",
			  &m, &s),
		0);
	assert_true(s.adapters_known);
	assert_int_equal(s.n_adapters, 0);
	assert_int_equal(s.max_lora, 4);
}

static void test_adapters_bounded(void **state)
{
	static char text[16000];
	struct engine_memory m = { 0 };
	struct signal_sample s;
	size_t len;

	len = (size_t)sprintf(text, "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
				    "vllm:lora_requests_info{running_lora_adapters=\"");
	memset(text + len, 'x', SIGNAL_ADAPTER_NAME_MAX);
	len += SIGNAL_ADAPTER_NAME_MAX;
	for (int i = 0; i < SIGNAL_ADAPTERS_MAX; i++)
		len += (size_t)sprintf(text + len, ",lora%d", i);
	sprintf(text + len, "\"} 1\n");
	assert_int_equal(read_text(ENGINE_AUTO, text, &m, &s), 0);
	assert_true(s.adapters_partial);
	assert_int_equal(s.n_adapters, SIGNAL_ADAPTERS_MAX);
	assert_string_equal(s.adapters[0].name, "lora0");
}

static const char llamacpp[] = "llamacpp:prompt_tokens_total 9479\n"
			       "llamacpp:prompt_tokens_cached_total 17933\n"
			       "llamacpp:tokens_predicted_total 66\n"
			       "llamacpp:n_tokens_max 5920\n"
			       "llamacpp:requests_processing 4\n"
			       "llamacpp:requests_deferred 5\n"
			       "llamacpp:n_busy_slots_per_decode 1.59302\n";

/* No KV gauge, no labels; the capacity is asked of /props, once per process. */
static void test_llamacpp(void **state)
{
	static const char props[] = "{\"default_generation_settings\":{\"params\":{\"seed\":1},\"n_ctx\":4096},"
				    "\"total_slots\":4,\"model_alias\":\"g\"}";
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO, llamacpp, &m, &s), 0);
	assert_int_equal(s.engine, ENGINE_LLAMACPP);
	assert_int_equal(s.running, 4);
	assert_int_equal(s.waiting, 5);
	assert_true(s.kv_used < 0);
	assert_int_equal(s.block_size_tokens, 1);
	assert_int_equal(s.kv_capacity_tokens, 0);
	assert_true(engine_wants_props(&m));

	assert_int_equal(engine_props_read(&m, props, strlen(props)), 0);
	assert_false(engine_wants_props(&m));
	assert_int_equal(read_text(ENGINE_AUTO, llamacpp, &m, &s), 0);
	assert_int_equal(s.kv_capacity_tokens, 16384);
	assert_true(s.kv_capacity_bound);
	assert_false(s.restarted);

	/* Restarted, perhaps with another context: asked again. */
	assert_int_equal(read_text(ENGINE_AUTO,
				   "llamacpp:prompt_tokens_total 9\nllamacpp:requests_processing 0\n"
				   "llamacpp:requests_deferred 0\n",
				   &m, &s),
			 0);
	assert_true(s.restarted);
	assert_true(engine_wants_props(&m));
}

static void test_props_malformed(void **state)
{
	static const char *const bad[] = {
		"", "{", "[]", "null", "{\"total_slots\":4}", "{\"default_generation_settings\":{}}",
		"{\"default_generation_settings\":{\"n_ctx\":0}}", "{\"default_generation_settings\":{\"n_ctx\":-1}}",
		"{\"default_generation_settings\":{\"n_ctx\":\"9\"}}", "{\"default_generation_settings\":[1]}",
		"{\"error\":{\"message\":\"Loading model\",\"code\":503}}",
	};
	struct engine_memory m = { .kind = ENGINE_LLAMACPP };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		assert_int_equal(engine_props_read(&m, bad[i], strlen(bad[i])), -EBADMSG);
		assert_int_equal(m.props_capacity_tokens, 0);
	}
}

static void test_sglang(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO,
				   "sglang:num_running_reqs{model_name=\"m\"} 7\nsglang:num_queue_reqs{model_name=\"m\"} 2\n"
				   "sglang:token_usage{model_name=\"m\"} 0.28\nsglang:cache_hit_rate{model_name=\"m\"} 0.007\n"
				   "sglang:cache_config_info{page_size=\"64\",num_pages=\"1000\"} 1\n",
				   &m, &s),
			 0);
	assert_int_equal(s.engine, ENGINE_SGLANG);
	assert_int_equal(s.running, 7);
	assert_int_equal(s.waiting, 2);
	assert_true(s.kv_used == 0.28);
	assert_int_equal(s.kv_capacity_tokens, 64000);
	assert_int_equal(s.block_size_tokens, 64);
}

static void test_trtllm(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO,
				   "trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 1\n"
				   "trtllm_kv_cache_utilization 0.9\ntrtllm_kv_cache_tokens_per_block 32\n"
				   "trtllm_kv_cache_max_blocks 2000\n",
				   &m, &s),
			 0);
	assert_int_equal(s.engine, ENGINE_TRTLLM);
	assert_int_equal(s.running, 3);
	assert_int_equal(s.kv_capacity_tokens, 64000);
}

static void test_triton(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(
		read_text(ENGINE_AUTO,
			  "nv_trt_llm_request_metrics{model=\"t\",request_type=\"waiting\",version=\"1\"} 5\n"
			  "nv_trt_llm_request_metrics{model=\"t\",request_type=\"scheduled\",version=\"1\"} 9\n"
			  "nv_trt_llm_request_metrics{model=\"t\",request_type=\"max\",version=\"1\"} 512\n"
			  "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.5\n"
			  "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\"} 64\n"
			  "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 100\n"
			  "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"used\"} 50\n",
			  &m, &s),
		0);
	assert_int_equal(s.engine, ENGINE_TRITON);
	assert_int_equal(s.waiting, 5);
	assert_int_equal(s.running, 9);
	assert_true(s.kv_used == 0.5);
	assert_int_equal(s.kv_capacity_tokens, 6400);
}

/* A configured engine is believed: another's counters on the same page (a
 * sidecar, a proxy) do not count. */
static void test_hint(void **state)
{
	static const char both[] = "vllm:num_requests_running 1\nvllm:num_requests_waiting 2\n"
				   "sglang:num_running_reqs 10\nsglang:num_queue_reqs 20\n";
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_SGLANG, both, &m, &s), 0);
	assert_int_equal(s.running, 10);
	m = (struct engine_memory){ 0 };
	assert_int_equal(read_text(ENGINE_VLLM, both, &m, &s), 0);
	assert_int_equal(s.running, 1);
	m = (struct engine_memory){ 0 };
	assert_int_equal(read_text(ENGINE_LLAMACPP, both, &m, &s), -ENOENT);
	assert_int_equal(m.kind, ENGINE_AUTO);
}

static void test_restart(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	/* By the process's start time, though the counters went on growing. */
	assert_int_equal(read_text(ENGINE_AUTO, vllm, &m, &s), 0);
	assert_int_equal(read_text(ENGINE_AUTO, vllm, &m, &s), 0);
	assert_false(s.restarted);
	assert_int_equal(read_text(ENGINE_AUTO,
				   "process_start_time_seconds 1.79603999e+09\nvllm:num_requests_running 0\n"
				   "vllm:num_requests_waiting 0\nvllm:prompt_tokens_total 99999\n",
				   &m, &s),
			 0);
	assert_true(s.restarted);
	/* By counters that went back. */
	m = (struct engine_memory){ 0 };
	assert_int_equal(read_text(ENGINE_AUTO, "vllm:num_requests_running 0\nvllm:prompt_tokens_total 50\n", &m, &s), 0);
	assert_int_equal(read_text(ENGINE_AUTO, "vllm:num_requests_running 0\nvllm:prompt_tokens_total 60\n", &m, &s), 0);
	assert_false(s.restarted);
	assert_int_equal(read_text(ENGINE_AUTO, "vllm:num_requests_running 0\nvllm:prompt_tokens_total 59\n", &m, &s), 0);
	assert_true(s.restarted);
	/* Another engine behind the same address. */
	assert_int_equal(read_text(ENGINE_AUTO, "sglang:num_running_reqs 0\n", &m, &s), 0);
	assert_true(s.restarted);
}

/* NaN, Inf and negative gauges are no readings; half a pair is no load. */
static void test_odd_values(void **state)
{
	struct engine_memory m = { 0 };
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO,
				   "vllm:num_requests_running 5\nvllm:num_requests_waiting NaN\n"
				   "vllm:kv_cache_usage_perc -1\nvllm:cache_config_info{block_size=\"None\"} 1\n",
				   &m, &s),
			 0);
	assert_false(s.has_load);
	assert_int_equal(s.running, 5);
	assert_true(s.kv_used < 0);
	assert_int_equal(s.block_size_tokens, 0);
	assert_int_equal(s.kv_capacity_tokens, 0);
	assert_int_equal(read_text(ENGINE_AUTO,
				   "vllm:num_requests_running 1e30\nvllm:num_requests_waiting 0\n"
				   "vllm:kv_cache_usage_perc 1.7\n",
				   &m, &s),
			 0);
	assert_int_equal(s.running, UINT32_MAX);
	assert_true(s.kv_used == 1.0);
}

/* What is not the engine's metrics says so and leaves the memory alone. */
static void test_no_engine(void **state)
{
	struct engine_memory m = { .kind = ENGINE_VLLM, .has_progress = true, .progress = 9 }, before = m;
	struct signal_sample s;

	assert_int_equal(read_text(ENGINE_AUTO, "<html>no</html>", &m, &s), -EBADMSG);
	assert_int_equal(read_text(ENGINE_AUTO, "", &m, &s), -EBADMSG);
	assert_int_equal(read_text(ENGINE_AUTO, "python_info{version=\"3\"} 1\nup 1\n", &m, &s), -ENOENT);
	assert_memory_equal(&m, &before, sizeof(m));
}

static void test_names(void **state)
{
	for (int k = 0; k < ENGINE_KINDS; k++)
		assert_int_equal(engine_kind_from_name(engine_kind_name((enum engine_kind)k)), k);
	assert_int_equal(engine_kind_from_name("llama.cpp"), ENGINE_LLAMACPP);
	assert_int_equal(engine_kind_from_name("tgi"), -EINVAL);
	assert_string_equal(engine_kind_name(ENGINE_KINDS), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vllm),
		cmocka_unit_test(test_vllm_older_names),
		cmocka_unit_test(test_vllm_ranks),
		cmocka_unit_test(test_vllm_adapters_newest_series),
		cmocka_unit_test(test_adapters_bounded),
		cmocka_unit_test(test_llamacpp),
		cmocka_unit_test(test_props_malformed),
		cmocka_unit_test(test_sglang),
		cmocka_unit_test(test_trtllm),
		cmocka_unit_test(test_triton),
		cmocka_unit_test(test_hint),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_odd_values),
		cmocka_unit_test(test_no_engine),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("signals/engine", tests, NULL, NULL);
}
