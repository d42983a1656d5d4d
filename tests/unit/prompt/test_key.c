/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which bodies have equal keys and which don't, as tables, however they are split. */

#include "shorthand.h"

struct pair {
	enum prompt_family family;
	const char *a, *b;
};

static const struct pair equal[] = {
	/* how JSON is written */
	{ CHAT, ONE, " {\n\"messages\" : [ { \"content\" : \"hi\" ,\r\n\t\"role\":\"user\" } ] }\n" },
	{ CHAT, ONE, M("\"\\u0068\\u0069\"") },
	{ CHAT, M("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""), M("\"\\u00e9\\u20AC\\uD83d\\ude00\"") },
	{ CHAT, M("\"a/b\\nc\""), M("\"a\\/b\\u000Ac\"") },
	{ CHAT, M("\"\\ud800x\""), M("\"\\ufffdx\"") },
	{ CHAT, ONE, "{\"\\u006dessages\":[{\"r\\u006fle\":\"user\",\"cont\\u0065nt\":\"hi\"}]}" },
	{ CHAT, ONE, "\xef\xbb\xbf" ONE },
	/* the order of keys; the last of equal ones */
	{ CHAT, "{\"model\":\"x\",\"tools\":[{\"a\":1}],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
	  "{\"messages\":[{\"content\":\"hi\",\"role\":\"user\"}],\"tools\":[{\"a\":1}],\"model\":\"x\"}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"system\",\"content\":\"no\"}],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"content\":\"hi\",\"role\":\"user\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"x\"},{\"text\":\"y\"}],\"content\":\"hi\"}]}" },
	{ CHAT, ONE, M("[{\"type\":\"text\",\"text\":\"ho\",\"text\":\"hi\"}]") },
	{ CHAT, ONE, M("[{\"type\":\"text\",\"text\":7,\"text\":\"hi\"}]") },
	{ CHAT, ONE, "{\"tools\":[1],\"tools\":null,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"cache_salt\":\"a\",\"cache_salt\":null,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"tool_calls\":[1],\"tool_calls\":null,\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, "{\"chat_template_kwargs\":{\"a\":1,\"b\":2},\"messages\":[]}", "{\"messages\":[],\"chat_template_kwargs\":{\"b\":2,\"a\":1}}" },
	{ CHAT, "{\"chat_template_kwargs\":{\"a\":1},\"messages\":[]}",
	  "{\"chat_template_kwargs\":{\"b\":2},\"messages\":[],\"chat_template_kwargs\":{\"a\":0,\"a\":1}}" },
	/* forms of the same content */
	{ CHAT, ONE, M("[{\"type\":\"text\",\"text\":\"hi\"}]") },
	{ CHAT, ONE, M("[{\"text\":\"hi\",\"type\":\"text\"}]") },
	{ CHAT, ONE, M("[\"hi\"]") },
	{ CHAT, ONE, M("[{\"type\":\"text\",\"text\":\"hi\",\"cache_control\":{\"type\":\"ephemeral\"}}]") },
	{ CHAT, M("[\"a\",\"b\"]"), M("[{\"text\":\"a\"},{\"text\":\"b\",\"type\":\"text\"}]") },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"tool_calls\":[],\"name\":null,\"refusal\":null,\"annotations\":[1]}]}" },
	{ CHAT, ONE, "{\"tools\":[],\"functions\":null,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	/* what doesn't change the prefix */
	{ CHAT, ONE, "{\"temperature\":0.5,\"stream\":true,\"stream_options\":{\"include_usage\":true},\"n\":2,\"max_tokens\":9,\"seed\":1,"
		     "\"stop\":[\"a\"],\"user\":\"u\",\"metadata\":{\"user_id\":\"x\"},\"logit_bias\":{\"1\":2},\"tool_choice\":\"auto\","
		     "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"priority\":3,\"kv_transfer_params\":{},"
		     "\"prompt_cache_key\":\"k\",\"request_id\":\"r\",\"service_tier\":\"x\"}" },
	{ CHAT, ONE, "{\"add_generation_prompt\":true,\"continue_final_message\":false,\"response_format\":null,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	/* media by content */
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}]"),
	  M("[{\"image_url\":{\"url\":\"data:image\\/jpeg;base64,AA\\u0041A\"},\"type\":\"image_url\"}]") },
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p.png?id=3&t=1\",\"detail\":\"low\"}}]"),
	  M("[{\"type\":\"image_url\",\"image_url\":{\"detail\":\"low\",\"url\":\"https://h/p.png?_=99&id=3&X-Amz-Signature=zz#frag\"}}]") },
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p\"}}]"),
	  M("[{\"type\":\"image_url\",\"image_url\":\"https://h/p?ts=5\"}]") },
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p\"}}]"),
	  M("[{\"type\":\"image_url\",\"image_url\":{\"detail\":\"high\",\"url\":\"x\"},\"image_url\":{\"url\":\"https://h/p\"}}]") },
	{ CHAT, M("[{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"QQ\",\"format\":\"wav\"}}]"),
	  M("[{\"input_audio\":{\"format\":\"wav\",\"data\":\"QQ\"},\"type\":\"input_audio\"}]") },
	/* completions */
	{ COMP, "{\"prompt\":\"abc\"}", "{\"prompt\":[\"abc\"]}" },
	{ COMP, "{\"prompt\":[1,2,3]}", "{\"prompt\":[[ 1 , 2,3 ]],\"suffix\":\"x\",\"echo\":true}" },
	{ COMP, "{\"prompt\":[\"a\",\"b\"]}", "{\"prompt\":[\"a\",\"c\",\"d\"]}" },     /* a batch: by its first item */
	{ COMP, "{\"prompt\":[[1,2],[3]]}", "{\"prompt\":[[1,2],[4],\"x\"]}" },
	{ COMP, "{\"prompt\":\"abc\"}", "{\"prompt\":[1],\"prompt\":\"abc\"}" },
	/* responses */
	{ RESP, "{\"input\":\"hi\"}", "{\"input\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ RESP, "{\"input\":\"hi\"}", "{\"input\":[{\"type\":\"message\",\"id\":\"m1\",\"status\":\"completed\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"hi\"}]}]}" },
	{ RESP, "{\"instructions\":\"s\",\"input\":\"hi\"}", "{\"input\":\"hi\",\"max_output_tokens\":5,\"instructions\":\"s\"}" },
	/* Anthropic */
	{ MSGS, "{\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\",\"cache_control\":{\"type\":\"ephemeral\"}}]}],"
	  "\"system\":[{\"type\":\"text\",\"text\":\"s\",\"cache_control\":{}}]}" },
	{ MSGS, "{\"system\":[{\"text\":\"s\"}],\"messages\":[]}",
	  "{\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: cc_version=1; cch=ab\"},{\"text\":\"s\"}],\"messages\":[]}" },
	{ MSGS, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}",
	  "{\"system\":\"x-anthropic-billing-header: 77\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}" },
	{ MSGS, "{\"tools\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"messages\":[]}",
	  "{\"tools\":[{\"name\":\"a\"},{\"cache_control\":{\"type\":[\"x\"]},\"name\":\"b\"}],\"messages\":[]}" },
	/* SageMaker: the shape decides */
	{ INVO, "{\"inputs\":\"hi\"}", "{\"parameters\":{\"max_new_tokens\":3},\"inputs\":\"hi\"}" },
	{ INVO, "{\"prompt\":\"a\",\"inputs\":\"b\"}", "{\"inputs\":\"c\",\"prompt\":\"a\"}" },
	{ INVO, "{\"prompt\":\"a\",\"messages\":[]" ",\"tools\":[1]}", "{\"messages\":[],\"tools\":[1]}" },
	/* TGI, SGLang */
	{ GENE, "{\"inputs\":\"hi\",\"parameters\":{\"adapter_id\":\"l\",\"top_k\":1}}", "{\"parameters\":{\"adapter_id\":\"l\"},\"inputs\":\"hi\"}" },
	{ GENE, "{\"inputs\":\"hi\",\"parameters\":{\"adapter_id\":\"l\"}}", "{\"parameters\":{\"adapter_id\":\"z\"},\"inputs\":\"hi\",\"parameters\":{\"adapter_id\":\"l\"}}" },
	{ GENE, "{\"text\":\"hi\"}", "{\"text\":[\"hi\",\"x\"],\"rid\":\"1\",\"sampling_params\":{}}" },
	{ GENE, "{\"input_ids\":[5,6]}", "{\"input_ids\":[[5,6]]}" },
	/* llama.cpp */
	{ LLAM, "{\"prompt\":[\"a\",\"b\"]}", "{\"prompt\":[\"a\",\"c\"]}" },
	{ LLAM, "{\"prompt\":[\"a\",3]}", "{\"prompt\":[[\"a\",3]],\"id_slot\":2}" },
	{ LLAM, "{\"input_prefix\":\"p\",\"input_suffix\":\"s\",\"prompt\":\"x\"}", "{\"prompt\":\"x\",\"input_suffix\":\"s\",\"input_prefix\":\"p\",\"n_predict\":5}" },
	{ OLLA, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", "{\"options\":{\"num_predict\":3},\"messages\":[{\"content\":\"hi\",\"role\":\"user\"}],\"keep_alive\":1}" },
};

static const struct pair differ[] = {
	{ CHAT, ONE, M("\"hj\"") },
	{ CHAT, ONE, M("\"hi \"") },
	{ CHAT, ONE, M("\"hi\\u0000\"") },
	{ CHAT, M("\"\""), M("null") },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"system\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"name\":\"bob\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"reasoning_content\":\"r\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"reasoning_content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"tool_call_id\":\"c\"}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"tool_calls\":[{\"id\":\"c\"}]}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"odd\":1}]}" },
	{ CHAT, ONE, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"user\",\"content\":\"\"}]}" },
	{ CHAT, M("\"ab\""), M("[\"a\",\"b\"]") },
	{ CHAT, M("[\"a\",\"b\"]"), M("[\"b\",\"a\"]") },
	{ CHAT, M("[\"\",\"ab\"]"), M("[\"ab\",\"\"]") },
	{ CHAT, "{\"messages\":[{\"content\":\"a\"},{\"content\":\"b\"}]}", "{\"messages\":[{\"content\":\"ab\"}]}" },
	{ CHAT, "{\"messages\":[{\"content\":\"a\"},{\"content\":\"b\"}]}", "{\"messages\":[{\"content\":\"b\"},{\"content\":\"a\"}]}" },
	{ CHAT, "{\"messages\":[{\"name\":\"a\"},{\"content\":\"b\"}]}", "{\"messages\":[{\"name\":\"a\",\"content\":\"b\"}]}" },
	{ CHAT, M("5"), M("\"5\"") },
	{ CHAT, M("[5]"), M("[\"5\"]") },
	{ CHAT, M("{\"a\":1}"), M("{\"a\":2}") },
	{ CHAT, ONE, M("[{\"type\":\"refusal\",\"text\":\"hi\"}]") },
	{ CHAT, ONE, M("[{\"type\":\"refusal\",\"refusal\":\"hi\"}]") },
	/* what precedes the messages */
	{ CHAT, ONE, "{\"tools\":[{\"type\":\"function\"}],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, "{\"tools\":[{\"a\":1},{\"b\":2}],\"messages\":[]}", "{\"tools\":[{\"b\":2},{\"a\":1}],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[{\"a\":1,\"b\":2}],\"messages\":[]}", "{\"tools\":[{\"b\":2,\"a\":1}],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[{\"a\":1}],\"messages\":[]}", "{\"functions\":[{\"a\":1}],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[{\"a\":\"1\"}],\"messages\":[]}", "{\"tools\":[{\"a\":1}],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[{\"a\":[]}],\"messages\":[]}", "{\"tools\":[{\"a\":{}}],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[{\"a\":\"b\"}],\"messages\":[]}", "{\"tools\":[{\"ab\":\"\"}],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[[1],2],\"messages\":[]}", "{\"tools\":[[1,2]],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[1,23],\"messages\":[]}", "{\"tools\":[12,3],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[true],\"messages\":[]}", "{\"tools\":[\"t\"],\"messages\":[]}" },
	{ CHAT, "{\"tools\":[{\"p\":{\"cache_control\":1}}],\"messages\":[]}", "{\"tools\":[{\"p\":{}}],\"messages\":[]}" },
	{ CHAT, ONE, "{\"chat_template_kwargs\":{\"enable_thinking\":false},\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, "{\"chat_template_kwargs\":{\"a\":1,\"b\":2},\"messages\":[]}", "{\"chat_template_kwargs\":{\"a\":2,\"b\":1},\"messages\":[]}" },
	{ CHAT, "{\"chat_template_kwargs\":{\"a\":1},\"messages\":[]}", "{\"mm_processor_kwargs\":{\"a\":1},\"messages\":[]}" },
	{ CHAT, ONE, "{\"reasoning_effort\":\"high\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"documents\":[{\"text\":\"d\"}],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"chat_template\":\"t\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"cache_salt\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, "{\"cache_salt\":\"s\",\"messages\":[{}]}", "{\"extra_key\":\"s\",\"messages\":[{}]}" },
	{ CHAT, ONE, "{\"lora_path\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"response_format\":{\"type\":\"json_object\"},\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	{ CHAT, ONE, "{\"add_generation_prompt\":false,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" },
	/* media */
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}]"),
	  M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAAB\"}}]") },
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p?id=1\"}}]"),
	  M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p?id=2\"}}]") },
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p?id=1&v=2\"}}]"),
	  M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p?id=1\"}}]") },
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p\",\"detail\":\"low\"}}]"),
	  M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p\"}}]") },
	{ CHAT, M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://h/p\"}}]"),
	  M("[{\"type\":\"video_url\",\"video_url\":{\"url\":\"https://h/p\"}}]") },
	{ CHAT, M("[\"a\",{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}}]"), M("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"u\"}},\"a\"]") },
	/* completions: ids are not text */
	{ COMP, "{\"prompt\":\"1\"}", "{\"prompt\":[1]}" },
	{ COMP, "{\"prompt\":[1,2]}", "{\"prompt\":[2,1]}" },
	{ COMP, "{\"prompt\":[12]}", "{\"prompt\":[1,2]}" },
	{ COMP, "{\"prompt\":[513]}", "{\"prompt\":\"\\u0001\\u0002\\u0000\\u0000\"}" },
	{ COMP, "{\"prompt\":[4294967296]}", "{\"prompt\":[0]}" },
	{ COMP, "{\"prompt\":[1.0]}", "{\"prompt\":[1]}" },
	{ COMP, "{\"prompt\":[-1]}", "{\"prompt\":[1]}" },
	{ COMP, "{\"prompt\":\"ab\"}", "{\"prompt\":[\"a\",\"b\"]}" },
	{ COMP, "{\"prompt\":\"a\"}", "{\"prompt\":\"a\",\"cache_salt\":\"x\"}" },
	/* responses, Anthropic */
	{ RESP, "{\"input\":\"hi\"}", "{\"input\":\"hi\",\"instructions\":\"s\"}" },
	{ RESP, "{\"input\":\"hi\"}", "{\"input\":\"hi\",\"prompt\":{\"id\":\"p\"}}" },
	{ RESP, "{\"input\":[{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"x\"}]}", "{\"input\":[{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"y\"}]}" },
	{ RESP, "{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"f\",\"output\":\"x\"}]}", "{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"g\",\"output\":\"x\"}]}" },
	{ MSGS, "{\"system\":\"s\",\"messages\":[]" "}", "{\"system\":\"t\",\"messages\":[]}" },
	{ MSGS, "{\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}", "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"q\"}]}" },
	{ MSGS, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"r\"}]}]}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"s\"}]}]}" },
	{ MSGS, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"AA\"}}]}]}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"AB\"}}]}]}" },
	/* others */
	{ GENE, "{\"inputs\":\"hi\",\"parameters\":{\"adapter_id\":\"l\"}}", "{\"inputs\":\"hi\"}" },
	{ GENE, "{\"text\":\"hi\",\"image_data\":\"AA\"}", "{\"text\":\"hi\",\"image_data\":\"BB\"}" },
	{ GENE, "{\"text\":\"hi\"}", "{\"text\":\"hi\",\"extra_key\":\"k\"}" },
	{ TOKS, "{\"token_ids\":[1,2]}", "{\"token_ids\":[1,3]}" },
	{ TOKS, "{\"token_ids\":[1,2]}", "{\"token_ids\":[1,2],\"features\":{\"mm_hashes\":[\"h\"]}}" },
	{ LLAM, "{\"prompt\":[\"a\",1]}", "{\"prompt\":[1,\"a\"]}" },
	{ LLAM, "{\"prompt\":[\"a\",1]}", "{\"prompt\":[\"a\",\"b\"]}" },
	{ LLAM, "{\"prompt\":[1,\"a\",\"b\"]}", "{\"prompt\":[1,\"ab\"]}" },
	{ LLAM, "{\"prompt\":{\"prompt_string\":\"a\"}}", "{\"prompt\":{\"prompt_string\":\"b\"}}" },
	{ LLAM, "{\"input_prefix\":\"p\",\"prompt\":\"x\"}", "{\"input_suffix\":\"p\",\"prompt\":\"x\"}" },
};

static void run_pairs(const struct pair *p, size_t n, bool want)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct made a = make(p[i].family, p[i].a), b = make(p[i].family, p[i].b);

		if (a.key.raw || b.key.raw)
			fail_msg("row %zu is raw: %s | %s", i, p[i].a, p[i].b);
		if (same_key(&a.key, &b.key) != want ||
		    (a.key.hash[a.key.nblocks - 1] == b.key.hash[b.key.nblocks - 1]) != want)
			fail_msg("row %zu should %s: %s | %s", i, want ? "be equal" : "differ", p[i].a, p[i].b);
		prompt_key_free(&a.key);
		prompt_key_free(&b.key);
	}
}

static void test_equal(void **state)
{
	run_pairs(equal, sizeof(equal) / sizeof(equal[0]), true);
}

static void test_differ(void **state)
{
	run_pairs(differ, sizeof(differ) / sizeof(differ[0]), false);
}

/* Every row of both tables gives the same key whatever pieces it comes in. */
static void test_splits(void **state)
{
	const struct pair *tables[] = { equal, differ };
	const size_t sizes[] = { sizeof(equal) / sizeof(equal[0]), sizeof(differ) / sizeof(differ[0]) };
	size_t t, i, piece;

	for (t = 0; t < 2; t++) {
		for (i = 0; i < sizes[t]; i++) {
			const char *body = tables[t][i].b;
			struct made whole = make(tables[t][i].family, body);

			for (piece = 1; piece < 40; piece++) {
				struct made m = make_limited(tables[t][i].family, body, strlen(body), piece, NULL, false);

				if (!same_key(&whole.key, &m.key))
					fail_msg("pieces of %zu: %s", piece, body);
				prompt_key_free(&m.key);
			}
			prompt_key_free(&whole.key);
		}
	}
}

/* A scanner that is used again knows nothing of the request before. */
static void test_reuse(void **state)
{
	struct prompt_key_params params = { .model = "m" };
	struct prompt_scan *s = prompt_scan_new();
	size_t n = sizeof(equal) / sizeof(equal[0]), i;

	for (i = 0; i < 2 * n; i++) {
		const struct pair *p = &equal[(i * 7) % n];
		const char *body = i & 1 ? p->a : p->b;
		struct made fresh = make(p->family, body);
		struct prompt_key key;

		/* in between, one that is left in the middle of things */
		prompt_scan_begin(s, p->family, NULL);
		prompt_scan_feed(s, body, strlen(body) / 2);
		if (i & 2)
			prompt_scan_end(s, i & 1);
		prompt_scan_begin(s, p->family, NULL);
		prompt_scan_feed(s, body, strlen(body));
		prompt_scan_end(s, false);
		assert_int_equal(prompt_key_build(s, &params, NULL, 0, &key), 0);
		assert_true(same_key(&key, &fresh.key));
		assert_memory_equal(prompt_scan_info(s), &fresh.info, sizeof(fresh.info));
		prompt_key_free(&key);
		prompt_key_free(&fresh.key);
	}
	prompt_scan_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_differ),
		cmocka_unit_test(test_splits),
		cmocka_unit_test(test_reuse),
	};

	return cmocka_run_group_tests_name("prompt/key", tests, NULL, NULL);
}
