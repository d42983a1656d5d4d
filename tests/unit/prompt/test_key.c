/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which bodies have equal keys and which don't, as tables; and that the way a
 * body is split, cut or nested never matters. */
#include "help.h"

#define CHAT PROMPT_FAMILY_CHAT
#define COMP PROMPT_FAMILY_COMPLETIONS
#define RESP PROMPT_FAMILY_RESPONSES
#define MSGS PROMPT_FAMILY_MESSAGES
#define INVO PROMPT_FAMILY_INVOCATIONS
#define GENE PROMPT_FAMILY_GENERATE
#define TOKS PROMPT_FAMILY_TOKENS
#define LLAM PROMPT_FAMILY_LLAMA
#define OLLA PROMPT_FAMILY_OLLAMA

#define M(x) "{\"messages\":[{\"role\":\"user\",\"content\":" x "}]}"
#define ONE  M("\"hi\"")

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

/* A long body, split in two at every offset. */
static void test_split_anywhere(void **state)
{
	char *text = letters(1500, 5), *body = malloc(8192);
	struct made whole;
	size_t n, at;

	assert_non_null(body);
	n = (size_t)snprintf(body, 8192,
			     "{\"tools\":[{\"name\":\"%.300s\"}],\"messages\":[{\"content\":\"%.700s\\n\\u00e9\\ud83d\\ude00%s\",\"role\":"
			     "\"user\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"%.256s\"},{\"type\":\"image_url\","
			     "\"image_url\":{\"url\":\"data:image/png;base64,%s\"}}]}],\"model\":\"x\"}", text, text, text, text, text);
	whole = make_limited(CHAT, body, n, 0, NULL, false);
	assert_true(whole.key.nblocks > 10);
	for (at = 1; at < n; at++) {
		struct prompt_key_params params = { .model = "m" };
		struct prompt_scan *s = prompt_scan_new();
		struct prompt_key key;

		prompt_scan_begin(s, CHAT, NULL);
		prompt_scan_feed(s, body, at);
		prompt_scan_feed(s, body + at, 0);
		prompt_scan_feed(s, body + at, n - at);
		prompt_scan_end(s, false);
		assert_int_equal(prompt_key_build(s, &params, NULL, 0, &key), 0);
		if (!same_key(&whole.key, &key))
			fail_msg("split at %zu", at);
		prompt_key_free(&key);
		prompt_scan_free(s);
	}
	prompt_key_free(&whole.key);
	free(text);
	free(body);
}

/* The chain of a conversation's turn is the exact start of the next turn's. */
static void test_turns(void **state)
{
	static const size_t lengths[] = { 0, 1, 100, 231, 232, 233, 256, 487, 488, 489, 512, 744, 5000, 3 };
	static const char *const roles[] = { "system", "user", "assistant", "user", "assistant", "user", "assistant" };
	struct made prev = { .key = { .nblocks = 0 } };
	size_t cap = 1 << 20, turn;
	char *body = malloc(cap);

	assert_non_null(body);
	for (turn = 1; turn <= 14; turn++) {
		struct made m;
		uint64_t sum = 0;
		uint32_t i, starts = 0;
		size_t n, k;

		n = (size_t)snprintf(body, cap, "{\"tools\":[{\"n\":1}],\"messages\":[");
		for (k = 0; k < turn; k++) {
			char *text = letters(lengths[k], (unsigned int)k);

			n += (size_t)snprintf(body + n, cap - n, "%s{\"role\":\"%s\",\"content\":\"%s\"}", k ? "," : "",
					      roles[k % 7], text);
			free(text);
		}
		n += (size_t)snprintf(body + n, cap - n, "],\"stream\":%s}", turn % 2 ? "true" : "false");
		m = make_limited(CHAT, body, n, 0, NULL, false);
		assert_false(m.key.raw);
		assert_true(m.key.nblocks > prev.key.nblocks);
		if (turn > 1) {
			assert_int_equal(shared_blocks(&prev.key, &m.key), prev.key.nblocks);
			assert_memory_equal(prev.key.bytes, m.key.bytes, prev.key.nblocks * sizeof(*m.key.bytes));
			assert_memory_equal(prev.key.flags, m.key.flags, prev.key.nblocks);
			assert_true(m.key.flags[prev.key.nblocks] & PROMPT_BLOCK_MESSAGE_START);
			/* the blocks that are new belong to the message that is new */
			for (i = prev.key.nblocks; i < m.key.nblocks; i++)
				assert_int_equal(!!(m.key.flags[i] & PROMPT_BLOCK_ASSISTANT),
						 !strcmp(roles[(turn - 1) % 7], "assistant"));
		}
		for (i = 0; i < m.key.nblocks; i++) {
			assert_in_range(m.key.bytes[i], 1, PROMPT_BLOCK_BYTES);
			sum += m.key.bytes[i];
			starts += m.key.flags[i] & PROMPT_BLOCK_MESSAGE_START;
		}
		assert_int_equal(sum, m.key.total_bytes);
		assert_int_equal(starts, turn);         /* one per message; tools have none */
		assert_int_equal(m.key.class_id, turn >= 3);
		prompt_key_free(&prev.key);
		prev = m;
	}
	prompt_key_free(&prev.key);
	free(body);
}

/* What follows the prompt is one last block, and leaves the chain before it alone. */
static void test_trailer(void **state)
{
	struct made a = make(CHAT, ONE);
	struct made b = make(CHAT, "{\"response_format\":{\"type\":\"json_object\"},\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
	struct made t1 = make(CHAT, "{\"tools\":[1],\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");

	assert_int_equal(b.key.nblocks, a.key.nblocks + 1);
	assert_int_equal(shared_blocks(&a.key, &b.key), a.key.nblocks);
	assert_true(b.key.flags[b.key.nblocks - 1] & PROMPT_BLOCK_TRAILER);
	/* Tools come first: nothing is shared behind different ones. */
	assert_int_equal(shared_blocks(&a.key, &t1.key), 0);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	prompt_key_free(&t1.key);
}

/* A text and a longer one that starts with it share all full blocks. */
static void test_common_start(void **state)
{
	char *text = letters(4000, 9), body[8192];
	struct made a, b;

	snprintf(body, sizeof(body), "{\"prompt\":\"%.3000s\"}", text);
	a = make(COMP, body);
	snprintf(body, sizeof(body), "{\"prompt\":\"%.4000s\"}", text);
	b = make(COMP, body);
	assert_int_equal(a.key.nblocks, 12);            /* 3000 = 11 * 256 + 184 */
	assert_int_equal(b.key.nblocks, 16);
	assert_int_equal(shared_blocks(&a.key, &b.key), 11);
	assert_int_equal(a.key.total_bytes, 3000);
	assert_int_equal(a.key.bytes[11], 184);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	/* The middle of a prompt never matches another's start: blocks are chained. */
	snprintf(body, sizeof(body), "{\"prompt\":\"%s\"}", text + 256);
	a = make(COMP, body);
	snprintf(body, sizeof(body), "{\"prompt\":\"%s\"}", text);
	b = make(COMP, body);
	assert_int_equal(shared_blocks(&a.key, &b.key), 0);
	assert_int_not_equal(a.key.hash[0], b.key.hash[1]);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(text);
}

/* Model, hint, tenant and salt change every hash of the chain. */
static void test_seed(void **state)
{
	static const struct prompt_key_params params[] = {
		{ .model = "a" }, { .model = "b" }, { .model = "" }, { .model = NULL },
		{ .model = "a", .hint = "h", .hint_len = 1 }, { .model = "a", .hint = "", .hint_len = 0 },
		{ .model = "a", .tenant = "h", .tenant_len = 1 },
		{ .model = "a", .hint = "h", .hint_len = 1, .tenant = "h", .tenant_len = 1 },
	};
	enum { N = sizeof(params) / sizeof(params[0]) };
	static const char body[] = "{\"prompt\":\"some text\"}", bad[] = "some text";
	struct iovec iov = { (void *)(uintptr_t)bad, sizeof(bad) - 1 };
	struct prompt_scan *s = prompt_scan_new();
	struct prompt_key key[2 * N];
	size_t i, j;

	prompt_scan_begin(s, COMP, NULL);
	prompt_scan_feed(s, body, sizeof(body) - 1);
	prompt_scan_end(s, false);
	for (i = 0; i < N; i++) {
		assert_int_equal(prompt_key_build(s, &params[i], NULL, 0, &key[i]), 0);
		assert_int_equal(prompt_key_build_raw(&iov, 1, &params[i], 0, &key[N + i]), 0);
	}
	for (i = 0; i < 2 * N; i++) {
		for (j = 0; j < i; j++)
			assert_int_equal(shared_blocks(&key[i], &key[j]), 0);
	}
	for (i = 0; i < 2 * N; i++)
		prompt_key_free(&key[i]);
	prompt_scan_free(s);
}

static const struct {
	enum prompt_family family;
	const char *body;
} raw[] = {
	{ CHAT, "" }, { CHAT, "x" }, { CHAT, "[]" }, { CHAT, "[{\"messages\":[]}]" }, { CHAT, "\"s\"" }, { CHAT, "12" }, { CHAT, "{}" },
	{ CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]" }, { CHAT, "{\"messages\":\"x\"}" },
	{ CHAT, "{\"messages\":null}" }, { CHAT, "{\"prompt\":\"x\"}" },
	{ CHAT, M("\"a\nb\"") }, { CHAT, M("\"\xff\"") }, { CHAT, ONE "x" }, { CHAT, "{\"messages\":[1,}" },
	{ COMP, "{\"prompt\":null}" }, { COMP, "{\"prompt\":[]}" }, { COMP, "{\"prompt\":[[]]}" }, { COMP, "{\"messages\":[1]}" },
	{ COMP, "{\"prompt\":7}" }, { PROMPT_FAMILY_EMBED, "{\"input\":\"x\"}" },
};

static void test_raw(void **state)
{
	size_t i;

	for (i = 0; i < sizeof(raw) / sizeof(raw[0]); i++) {
		struct made m = make(raw[i].family, raw[i].body), again;
		char other[256];

		if (!m.key.raw || m.info.shape != PROMPT_SHAPE_NONE)
			fail_msg("row %zu isn't raw: %s", i, raw[i].body);
		/* The bytes count, all of them. */
		snprintf(other, sizeof(other), "%s ", raw[i].body);
		again = make(raw[i].family, other);
		assert_true(again.key.raw);
		assert_int_equal(shared_blocks(&m.key, &again.key), 0);
		prompt_key_free(&m.key);
		prompt_key_free(&again.key);
	}
}

/* No message at all: known shape, nothing to hash but the bytes. */
static void test_no_messages(void **state)
{
	struct made m = make(CHAT, "{\"messages\":[]}");

	assert_true(m.key.raw);
	assert_int_equal(m.info.shape, PROMPT_SHAPE_CHAT);
	prompt_key_free(&m.key);
}

/* The raw key of a body in one piece is that of the body in many. */
static void test_raw_iov(void **state)
{
	char *text = letters(3000, 2);
	struct prompt_key_params params = { .model = "m" };
	struct iovec one = { text, 3000 }, many[60];
	struct prompt_key a, b;
	int i;

	for (i = 0; i < 60; i++)
		many[i] = (struct iovec){ text + i * 50, 50 };
	assert_int_equal(prompt_key_build_raw(&one, 1, &params, 0, &a), 0);
	assert_int_equal(prompt_key_build_raw(many, 60, &params, 0, &b), 0);
	assert_true(same_key(&a, &b));
	assert_int_equal(a.nblocks, 12);
	assert_int_equal(a.total_bytes, 3000);
	prompt_key_free(&a);
	prompt_key_free(&b);
	assert_int_equal(prompt_key_build_raw(NULL, 0, &params, 0, &a), 0);
	assert_int_equal(a.nblocks, 1);
	prompt_key_free(&a);
	free(text);
}

/* Nested deeper than the limit: by its bytes, not refused. At the limit: canonical. */
static void test_nesting(void **state)
{
	static const int levels[] = { 100, PROMPT_MAX_DEPTH - 2, PROMPT_MAX_DEPTH - 1, 1000 };
	char body[4096];
	size_t i, n;

	for (i = 0; i < 4; i++) {
		struct made m;
		int k = levels[i];

		n = (size_t)snprintf(body, sizeof(body), "{\"tools\":[");
		memset(body + n, '[', (size_t)k);
		n += (size_t)k;
		memset(body + n, ']', (size_t)k);
		n += (size_t)k;
		n += (size_t)snprintf(body + n, sizeof(body) - n, "],\"messages\":[]}");
		m = make_limited(CHAT, body, n, 0, NULL, false);
		assert_int_equal(m.key.raw, k + 2 > PROMPT_MAX_DEPTH);
		prompt_key_free(&m.key);
	}
}

/* Numbers of any size are kept as they are written. */
static void test_huge_numbers(void **state)
{
	char *a = malloc(40000), *b = malloc(40000);
	struct made x, y;
	size_t n;

	assert_non_null(a);
	assert_non_null(b);
	n = (size_t)sprintf(a, "{\"max_tokens\":");
	memset(a + n, '9', 10000);
	n += 10000;
	n += (size_t)sprintf(a + n, ",\"tools\":[");
	memset(a + n, '9', 10000);
	n += 10000;
	n += (size_t)sprintf(a + n, "],\"messages\":[]}");
	memcpy(b, a, n + 1);
	x = make_limited(CHAT, a, n, 777, NULL, false);
	y = make_limited(CHAT, b, n, 64, NULL, false);
	assert_true(same_key(&x.key, &y.key));
	assert_false(x.key.raw);
	assert_int_equal(x.info.max_tokens, INT64_MAX);
	prompt_key_free(&y.key);
	b[15000] = '8';
	y = make_limited(CHAT, b, n, 64, NULL, false);
	assert_int_equal(shared_blocks(&x.key, &y.key), 0);
	prompt_key_free(&x.key);
	prompt_key_free(&y.key);
	free(a);
	free(b);
}

/* A body cut at the scan limit: its start is keyed canonically, and equals the start of the whole. */
static void test_truncated(void **state)
{
	char *text = letters(6000, 3), *body = malloc(16384);
	struct made whole, cut;
	size_t n, at;

	assert_non_null(body);
	n = (size_t)snprintf(body, 16384, "{\"model\":\"x\",\"messages\":[{\"role\":\"system\",\"content\":\"%.2000s\"},{\"role\":\"user\",\"content\":[{\"type\":"
			     "\"text\",\"text\":\"%s\"}]}],\"tool_choice\":{\"a\":[1]}}", text, text);
	whole = make_limited(CHAT, body, n, 0, NULL, false);
	for (at = 1; at < n; at += 7) {
		struct made again;

		cut = make_limited(CHAT, body, at, 0, NULL, true);
		again = make_limited(CHAT, body, at, 5, NULL, true);
		assert_true(cut.info.truncated);
		assert_true(same_key(&cut.key, &again.key));
		if (at > 3000) {
			assert_int_equal(cut.info.shape, PROMPT_SHAPE_CHAT);
			assert_true(cut.info.has_model);
			/* all but the block that was cut, and the header that it may miss */
			assert_true(shared_blocks(&cut.key, &whole.key) + 1 >= cut.key.nblocks);
		}
		prompt_key_free(&cut.key);
		prompt_key_free(&again.key);
	}
	prompt_key_free(&whole.key);
	/* A model cut in the middle is no model. */
	cut = make_limited(CHAT, "{\"prompt_cache_key\":\"k\",\"model\":\"llam", 37, 0, NULL, true);
	assert_false(cut.info.has_model);
	assert_true(cut.info.cache_key_hash);
	prompt_key_free(&cut.key);
	free(text);
	free(body);
}

/* The number of blocks is bounded whatever the body; the cost stays linear (the run would take hours else). */
static void test_many(void **state)
{
	const size_t count = 1000000;
	char *body = malloc(count * 24 + 100);
	struct prompt_limits lim = { .max_blocks = 20000, .max_cuts = 1000 };
	struct made a, b;
	size_t n, i;

	assert_non_null(body);
	n = (size_t)sprintf(body, "{\"messages\":[{\"content\":\"s\"}");
	for (i = 0; i < count; i++)
		n += (size_t)sprintf(body + n, ",{\"content\":\"%zu\"}", i % 10);
	n += (size_t)sprintf(body + n, "]}");
	a = make_limited(CHAT, body, n, 100000, NULL, false);
	assert_in_range(a.key.nblocks, 8193, 49152);
	assert_int_equal(a.key.bytes[100], 5);
	prompt_key_free(&a.key);
	a = make_limited(CHAT, body, n, 0, &lim, false);
	assert_in_range(a.key.nblocks, 1001, 20000);
	/* One more message: all but the last block stay. */
	n -= 2;
	n += (size_t)sprintf(body + n, ",{\"content\":\"x\"}]}");
	b = make_limited(CHAT, body, n, 0, &lim, false);
	assert_true(shared_blocks(&a.key, &b.key) + 1 >= a.key.nblocks);
	assert_int_not_equal(a.key.hash[a.key.nblocks - 1], b.key.hash[b.key.nblocks - 1]);
	prompt_key_free(&b.key);
	prompt_key_free(&a.key);
	/* A lower bound still tells a difference at the very end. */
	lim.max_blocks = 50;
	a = make_limited(CHAT, body, n, 0, &lim, false);
	body[n - 5] = 'y';
	b = make_limited(CHAT, body, n, 0, &lim, false);
	assert_int_equal(a.key.nblocks, 50);
	assert_int_equal(shared_blocks(&a.key, &b.key), 49);
	prompt_key_free(&b.key);
	prompt_key_free(&a.key);

	/* A million keys: at the top level, in a message, in the template's arguments, in a tool. */
	for (i = 0; i < 4; i++) {
		static const char *const open[] = { "{", "{\"messages\":[{", "{\"chat_template_kwargs\":{", "{\"tools\":[{" };
		static const char *const close[] = { "\"messages\":[{\"content\":\"x\"}]}", "\"content\":\"x\"}]}",
						     "\"z\":1},\"messages\":[{\"content\":\"x\"}]}",
						     "\"z\":1}],\"messages\":[{\"content\":\"x\"}]}" };
		size_t k;

		n = (size_t)sprintf(body, "%s", open[i]);
		for (k = 0; k < count; k++)
			n += (size_t)sprintf(body + n, "\"k%zu\":%zu,", k, k % 7);
		n += (size_t)sprintf(body + n, "%s", close[i]);
		a = make_limited(CHAT, body, n, 0, NULL, false);
		assert_false(a.key.raw);
		assert_true(a.key.nblocks <= 49152);
		prompt_key_free(&a.key);
	}
	/* The same key a million times, with text. */
	n = (size_t)sprintf(body, "{\"messages\":[{");
	for (i = 0; i < count; i++)
		n += (size_t)sprintf(body + n, "\"content\":\"a%zu\",", i % 10);
	n += (size_t)sprintf(body + n, "\"content\":\"x\"}]}");
	a = make_limited(CHAT, body, n, 0, NULL, false);
	b = make(CHAT, "{\"messages\":[{\"content\":\"x\"}]}");
	assert_true(same_key(&a.key, &b.key));
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(body);
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

/* Large things that are digested weigh what they are, in blocks of the usual size. */
static void test_weight(void **state)
{
	char *text = letters(40000, 4), *body = malloc(50000);
	struct made m;
	uint32_t i;

	assert_non_null(body);
	sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":\"%s\"}]}]}", text);
	m = make(MSGS, body);
	assert_in_range(m.key.total_bytes, 40000, 40200);
	for (i = 0; i < m.key.nblocks; i++)
		assert_in_range(m.key.bytes[i], 1, PROMPT_BLOCK_BYTES);
	prompt_key_free(&m.key);
	sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,%s\"}}]}]}", text);
	m = make(CHAT, body);
	assert_in_range(m.key.total_bytes, 1000, 3000);         /* not the size of its base64 */
	assert_true(m.info.has_media);
	prompt_key_free(&m.key);
	/* Token ids weigh 4 bytes each. */
	m = make(COMP, "{\"prompt\":[1,128000,3,4,5,6,7]}");
	assert_int_equal(m.key.total_bytes, 28);
	prompt_key_free(&m.key);
	free(text);
	free(body);
}

/* Runs of a prompt: ids fill blocks, a new run starts one, and its start is part of the chain. */
static void test_runs(void **state)
{
	char *text = letters(256, 6), body[2048];
	struct made a, b;
	size_t n, i;

	n = (size_t)sprintf(body, "{\"prompt\":[0");
	for (i = 1; i < 100; i++)
		n += (size_t)sprintf(body + n, ",%zu", i);
	sprintf(body + n, "]}");
	a = make(COMP, body);
	assert_int_equal(a.key.nblocks, 2);             /* 64 ids a block */
	assert_int_equal(a.key.total_bytes, 400);
	prompt_key_free(&a.key);
	sprintf(body, "{\"prompt\":[\"%s\",\"b\",7]}", text);
	a = make(LLAM, body);
	sprintf(body, "{\"prompt\":[\"%sb\",7]}", text);
	b = make(LLAM, body);
	assert_int_equal(a.key.nblocks, b.key.nblocks);
	assert_int_equal(shared_blocks(&a.key, &b.key), 1);
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(text);
}

/* A text given twice leaves no trace, also where its blocks were folded for want of room. */
static void test_rewind_folded(void **state)
{
	struct prompt_limits lim = { .max_blocks = 1 };
	char *text = letters(900, 8), body[4096];
	struct made a, b;

	sprintf(body, M("[\"%.300s\",{\"text\":\"%s\",\"text\":\"hi\"}]"), text, text);
	a = make_limited(CHAT, body, strlen(body), 0, &lim, false);
	sprintf(body, M("[\"%.300s\",{\"text\":\"hi\"}]"), text);
	b = make_limited(CHAT, body, strlen(body), 0, &lim, false);
	assert_true(same_key(&a.key, &b.key));
	prompt_key_free(&a.key);
	prompt_key_free(&b.key);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal), cmocka_unit_test(test_differ), cmocka_unit_test(test_splits),
		cmocka_unit_test(test_split_anywhere), cmocka_unit_test(test_turns), cmocka_unit_test(test_trailer),
		cmocka_unit_test(test_common_start), cmocka_unit_test(test_seed), cmocka_unit_test(test_raw),
		cmocka_unit_test(test_no_messages), cmocka_unit_test(test_raw_iov), cmocka_unit_test(test_nesting), cmocka_unit_test(test_huge_numbers),
		cmocka_unit_test(test_truncated), cmocka_unit_test(test_many), cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_weight), cmocka_unit_test(test_runs), cmocka_unit_test(test_rewind_folded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
