/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Workloads: what is asked, how often, and how conversations go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/clock.h"
#include "load/source.h"

static void near(double got, double want, double tolerance)
{
	if (!(fabs(got - want) <= tolerance))
		fail_msg("got %f, want %f +- %f", got, want, tolerance);
}

static struct load_options options(enum load_kind kind)
{
	return (struct load_options){
		.host = "127.0.0.1", .port = "80", .models = { "m" }, .n_models = 1, .kind = kind, .workload = "w",
		.shape = load_shape_default(kind), .rate = 100, .stream = true, .time_scale = 1, .seed = 1,
	};
}

/* A request as a server reads it. */
struct request {
	char *text; /* owned */
	yyjson_doc *body;
	yyjson_val *root;
};

static struct request read_request(const struct load_call *call)
{
	struct request r = { 0 };
	size_t len = 0, stated = 0;
	char *end;

	for (int i = 0; i < call->n_iov; i++)
		len += call->iov[i].iov_len;
	r.text = malloc(len + 1);
	end = r.text;
	for (int i = 0; i < call->n_iov; i++)
		end = mempcpy(end, call->iov[i].iov_base, call->iov[i].iov_len);
	*end = 0;
	end = strstr(r.text, "\r\n\r\n");
	assert_non_null(end);
	assert_int_equal(sscanf(strstr(r.text, "Content-Length: "), "Content-Length: %zu", &stated), 1);
	assert_int_equal(strlen(end + 4), stated);
	r.body = yyjson_read(end + 4, stated, 0);
	assert_non_null(r.body);
	r.root = yyjson_doc_get_root(r.body);
	return r;
}

static void drop(struct request *r)
{
	yyjson_doc_free(r->body);
	free(r->text);
}

static const char *message(const struct request *r, size_t i, const char *role)
{
	yyjson_val *m = yyjson_arr_get(yyjson_obj_get(r->root, "messages"), i);

	assert_string_equal(yyjson_get_str(yyjson_obj_get(m, "role")), role);
	return yyjson_get_str(yyjson_obj_get(m, "content"));
}

/* The bodies of every API: valid JSON, the right fields, the prefix first and the question last. */
static void test_bodies(void **state)
{
	static const char *const lines[] = { "POST /p/v1/chat/completions HTTP/1.1\r\n",
					     "POST /p/v1/completions HTTP/1.1\r\n", "POST /p/invocations HTTP/1.1\r\n" };

	for (int api = 0; api < 3; api++) {
		for (int stream = 0; stream < 2; stream++) {
			struct load_options o = options(LOAD_SUPPORT);
			struct load_source s;
			struct load_call *call = load_call_new();
			struct request r;

			strcpy(o.path, "/p");
			o.api = (enum load_api)api;
			o.stream = stream;
			o.headers[o.n_headers++] = "X-Test: 1";
			o.shape.prefixes = 3;
			o.shape.sigma = 0;
			assert_int_equal(load_source_init(&s, &o), 0);
			load_source_start(&s, NSEC_PER_SEC);
			assert_int_equal(load_source_take(&s, call), 0);
			r = read_request(call);
			assert_memory_equal(r.text, lines[api], strlen(lines[api]));
			assert_non_null(strstr(r.text, "\r\nHost: 127.0.0.1:80\r\n"));
			assert_non_null(strstr(r.text, "\r\nX-Test: 1\r\n"));
			assert_string_equal(yyjson_get_str(yyjson_obj_get(r.root, "model")), "m");
			assert_int_equal(yyjson_get_uint(yyjson_obj_get(r.root, "max_tokens")), 150);
			assert_int_equal(yyjson_get_bool(yyjson_obj_get(r.root, "stream")), stream);
			assert_int_equal(yyjson_get_bool(yyjson_ptr_get(r.root, "/stream_options/include_usage")), stream);
			if (api == LOAD_API_COMPLETIONS) {
				assert_int_equal(strlen(yyjson_get_str(yyjson_obj_get(r.root, "prompt"))), 3058 * 4);
			} else {
				assert_int_equal(strlen(message(&r, 0, "system")), 3008 * 4);
				assert_int_equal(strlen(message(&r, 1, "user")), 50 * 4);
				assert_int_equal(yyjson_arr_size(yyjson_obj_get(r.root, "messages")), 2);
			}
			drop(&r);
			load_call_free(call);
			load_source_free(&s);
		}
	}
}

/* Takes n requests of an open loop; counts those with the bytes of prefix 0, mean tokens. */
struct survey {
	uint32_t first;
	double question_tokens, output_tokens;
	uint32_t per_model[LOAD_MAX_MODELS];
};

static struct survey survey(const struct load_options *o, int n)
{
	struct load_source s;
	struct survey v = { 0 };

	assert_int_equal(load_source_init(&s, o), 0);
	load_source_start(&s, NSEC_PER_SEC);
	for (int i = 0; i < n; i++) {
		struct load_call *call = load_call_new();
		struct request r;
		const char *model;

		assert_int_equal(load_source_take(&s, call), 0);
		r = read_request(call);
		model = yyjson_get_str(yyjson_obj_get(r.root, "model"));
		for (uint32_t m = 0; m < o->n_models; m++)
			v.per_model[m] += !strcmp(o->models[m], model);
		v.output_tokens += (double)yyjson_get_uint(yyjson_obj_get(r.root, "max_tokens"));
		if (o->shape.prefixes) {
			v.first += call->iov[1].iov_base == s.body.prefix_text;
			v.question_tokens += (double)strlen(message(&r, 1, "user")) / 4;
		} else {
			v.question_tokens += (double)strlen(message(&r, 0, "user")) / 4;
		}
		drop(&r);
		load_call_free(call);
	}
	v.question_tokens /= n;
	v.output_tokens /= n;
	load_source_free(&s);
	return v;
}

static void test_lengths(void **state)
{
	struct load_options o = options(LOAD_SUPPORT);
	struct survey v;

	o.shape.prefix_tokens = 16;
	v = survey(&o, 20000);
	near(v.question_tokens, 50, 1);
	near(v.output_tokens, 150, 2);
	o = options(LOAD_SHAREGPT);
	v = survey(&o, 20000);
	near(v.question_tokens, 161, 6);
	near(v.output_tokens, 338, 12);
}

static void test_hot(void **state)
{
	struct load_options o = options(LOAD_HOT);
	struct survey v;

	o.shape.prefix_tokens = 16;
	v = survey(&o, 20000);
	near(v.first / 20000.0, 0.4, 0.02);
	o = options(LOAD_SUPPORT);
	o.shape.prefix_tokens = 16;
	v = survey(&o, 20000);
	/* 1 / sum k^-0.4 over 1000 */
	near(v.first / 20000.0, 0.0096, 0.003);
}

/* Each prompt belongs to one adapter, so that its cache can be hit. */
static void test_lora(void **state)
{
	struct load_options o = options(LOAD_LORA);
	struct survey v;

	o.shape.prefix_tokens = 16;
	o.n_models = 4;
	o.models[0] = "a", o.models[1] = "b", o.models[2] = "c", o.models[3] = "d";
	o.shape.prefixes = 8;
	o.shape.zipf = 0;
	v = survey(&o, 8000);
	for (int i = 0; i < 4; i++)
		near(v.per_model[i], 2000, 200);
}

/* The same seed draws the same requests, another one other texts. */
static void test_seed(void **state)
{
	struct load_source s[3];
	struct load_options o[3];

	for (int i = 0; i < 3; i++) {
		o[i] = options(LOAD_SUPPORT);
		o[i].seed = i == 2 ? 2 : 1;
		o[i].shape.prefixes = 10;
		assert_int_equal(load_source_init(&s[i], &o[i]), 0);
		load_source_start(&s[i], NSEC_PER_SEC);
	}
	assert_memory_not_equal(s[0].body.prefix_text, s[2].body.prefix_text, 64);
	for (int n = 0; n < 50; n++) {
		struct request r[2];

		for (int i = 0; i < 2; i++) {
			struct load_call *call = load_call_new();

			assert_int_equal(load_source_take(&s[i], call), 0);
			r[i] = read_request(call);
			load_call_free(call);
		}
		assert_string_equal(r[0].text, r[1].text);
		drop(&r[0]);
		drop(&r[1]);
	}
	for (int i = 0; i < 3; i++)
		load_source_free(&s[i]);
}

/* Closed loop: C at once, then one for each that ends; a failed one makes a pause. */
static void test_closed_loop(void **state)
{
	struct load_options o = options(LOAD_SUPPORT);
	struct load_answer a = { 0 };
	struct load_call *calls[3];
	struct load_source s;

	o.rate = 0;
	o.concurrency = 3;
	o.shape.prefixes = 2;
	assert_int_equal(load_source_init(&s, &o), 0);
	load_source_start(&s, NSEC_PER_SEC);
	for (int i = 0; i < 3; i++) {
		assert_true(load_source_due(&s) == NSEC_PER_SEC);
		calls[i] = load_call_new();
		assert_int_equal(load_source_take(&s, calls[i]), 0);
	}
	assert_true(load_source_due(&s) == LOAD_NEVER);
	load_source_done(&s, calls[0], &a, 5 * NSEC_PER_SEC);
	assert_true(load_source_due(&s) == 5 * NSEC_PER_SEC);
	load_call_free(calls[0]);
	calls[0] = load_call_new();
	assert_int_equal(load_source_take(&s, calls[0]), 0);
	assert_true(calls[0]->intended_ns == 5 * NSEC_PER_SEC);
	calls[1]->error = "503";
	load_source_done(&s, calls[1], &a, 6 * NSEC_PER_SEC);
	assert_true(load_source_due(&s) == 6 * NSEC_PER_SEC + LOAD_ERROR_PAUSE_NS);
	for (int i = 0; i < 3; i++)
		load_call_free(calls[i]);
	load_source_free(&s);
}

/* A turn repeats the conversation so far, with the very answer received, and asks on. */
static void check_turns(enum load_api api)
{
	struct load_options o = options(LOAD_CHAT);
	struct load_answer a = { .text = (char *)"he said \\\"\\u00e9\\\"\\n", .text_len = 20 };
	struct load_source s;
	char *before = NULL;
	uint32_t turns;

	o.rate = 0;
	o.concurrency = 1;
	o.api = api;
	o.shape.turns = 8;
	assert_int_equal(load_source_init(&s, &o), 0);
	load_source_start(&s, NSEC_PER_SEC);
	for (turns = 1;; turns++) {
		struct load_call *call = load_call_new();
		struct load_conv *conv;
		struct request r;
		char *whole;
		size_t n;

		assert_int_equal(load_source_take(&s, call), 0);
		conv = call->conv;
		assert_non_null(conv);
		assert_int_equal(conv->turn, turns);
		r = read_request(call);
		if (api == LOAD_API_CHAT) {
			assert_int_equal(yyjson_arr_size(yyjson_obj_get(r.root, "messages")), 2 * turns);
			assert_int_equal(strlen(message(&r, 0, "system")), 256 * 4);
			for (size_t i = 1; i < 2 * turns - 1; i += 2) {
				message(&r, i, "user");
				assert_string_equal(message(&r, i + 1, "assistant"), "he said \"\u00e9\"\n");
			}
			message(&r, 2 * turns - 1, "user");
		}
		/* What the cache holds of the last turn is a prefix of this one. */
		whole = strdup(strstr(r.text, api == LOAD_API_CHAT ? "\"messages\"" : "\"prompt\""));
		if (before)
			assert_memory_equal(whole, before, strlen(before));
		free(before);
		n = strlen(whole) - strlen(s.body.tail);
		whole[n] = 0;
		before = whole;
		drop(&r);
		turns = conv->turn;
		n = conv->turns;
		load_source_done(&s, call, &a, 10 * turns * NSEC_PER_SEC);
		load_call_free(call);
		if (turns == n)
			break;
		/* Thinks first. */
		assert_true(load_source_due(&s) > 10 * turns * NSEC_PER_SEC);
	}
	free(before);
	/* The client goes on with a new conversation at once. */
	assert_int_equal(s.live_convs, 0);
	assert_true(load_source_due(&s) == 10 * turns * NSEC_PER_SEC);
	load_source_free(&s);
}

static void test_turns(void **state)
{
	check_turns(LOAD_API_CHAT);
	check_turns(LOAD_API_COMPLETIONS);
}

static void test_failed_turn_ends_conversation(void **state)
{
	struct load_options o = options(LOAD_CHAT);
	struct load_answer a = { 0 };
	struct load_call *call = load_call_new();
	struct load_source s;

	o.shape.turns = 50;
	assert_int_equal(load_source_init(&s, &o), 0);
	load_source_start(&s, NSEC_PER_SEC);
	assert_int_equal(load_source_take(&s, call), 0);
	assert_int_equal(s.live_convs, 1);
	call->error = "reset";
	load_source_done(&s, call, &a, 2 * NSEC_PER_SEC);
	assert_int_equal(s.live_convs, 0);
	assert_int_equal(s.heap_len, 0);
	load_call_free(call);
	load_source_free(&s);
}

/* Conversations in an open loop: the requests come at the rate from the start, and later most
 * of them are further turns. Answers take 4 s. */
static void test_conversation_rate(void **state)
{
	enum { SECONDS = 300, MAX = 40000 };
	struct load_options o = options(LOAD_CHAT);
	struct load_answer a = { .text = (char *)"ok", .text_len = 2 };
	struct load_call **waiting = calloc(MAX, sizeof(*waiting));
	uint32_t head = 0, tail = 0;
	double per_minute[5] = { 0 }, first_turns = 0, total = 0;
	struct load_source s;

	o.rate = 40;
	o.poisson = true;
	o.shape.question_tokens = 4;
	assert_int_equal(load_source_init(&s, &o), 0);
	load_source_start(&s, 0);
	for (;;) {
		uint64_t due_ns = load_source_due(&s);

		if (head < tail && waiting[head]->intended_ns + 4 * NSEC_PER_SEC <= due_ns) {
			struct load_call *call = waiting[head++];

			load_source_done(&s, call, &a, call->intended_ns + 4 * NSEC_PER_SEC);
			load_call_free(call);
			continue;
		}
		if (due_ns >= SECONDS * NSEC_PER_SEC)
			break;
		assert_true(tail < MAX);
		waiting[tail] = load_call_new();
		assert_int_equal(load_source_take(&s, waiting[tail]), 0);
		assert_true(waiting[tail]->intended_ns == due_ns);
		per_minute[due_ns / (60 * NSEC_PER_SEC)]++;
		if (due_ns >= 150 * NSEC_PER_SEC) {
			total++;
			first_turns += waiting[tail]->conv->turn == 1;
		}
		tail++;
	}
	for (int i = 0; i < 5; i++)
		near(per_minute[i] / 60, 40, 5);
	near(total / first_turns, 5, 0.6);
	for (; head < tail; head++) {
		load_conv_free(waiting[head]->conv);
		load_call_free(waiting[head]);
	}
	free(waiting);
	load_source_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_hot),
		cmocka_unit_test(test_lora),
		cmocka_unit_test(test_seed),
		cmocka_unit_test(test_closed_loop),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_failed_turn_ends_conversation),
		cmocka_unit_test(test_conversation_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
