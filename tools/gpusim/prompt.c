/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gpusim/prompt.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <yyjson.h>

#include "node/node.h"

/* Token values. Text is its 4 bytes; marks and ids have a top byte that no
 * UTF-8 text has as its fourth. */
#define MARK_START 0xff000001u
#define MARK_NEWLINE 0xff000002u
#define MARK_END 0xff000003u
#define MARK_ROLE 0xfd000000u	/* | 24 bits of the role's hash */
#define TOKEN_ID 0xfe000000u	/* | id */
#define MEDIA 0xfc000000u
#define MEDIA_TOKENS 64
#define MEAN_OUTPUT_TOKENS 150
#define OUTPUT_SIGMA 0.5

struct render {
	uint32_t *token;
	uint32_t n, room, limit;	/* tokens beyond the limit are counted off, not kept */
	bool too_long, failed;
};

static void put(struct render *r, uint32_t token)
{
	if (r->n >= r->limit) {
		r->too_long = true;
		return;
	}
	if (r->n == r->room) {
		uint32_t room = r->room ? r->room * 2 : 1024;
		uint32_t *t = realloc(r->token, room * sizeof(*t));

		if (!t) {
			r->failed = true;
			return;
		}
		r->token = t;
		r->room = room;
	}
	r->token[r->n++] = token;
}

static void put_text(struct render *r, const char *s, size_t len)
{
	for (; len >= 4 && !r->too_long && !r->failed; s += 4, len -= 4) {
		uint32_t t;

		memcpy(&t, s, 4);
		put(r, t);
	}
	if (len && len < 4) {
		uint32_t t = 0;

		memcpy(&t, s, len);
		put(r, t);
	}
}

static void put_role(struct render *r, const char *role)
{
	put(r, MARK_START);
	put(r, MARK_ROLE | (uint32_t)(XXH3_64bits(role, strlen(role)) & 0xffffff));
	put(r, MARK_NEWLINE);
}

static void put_end(struct render *r)
{
	put(r, MARK_END);
	put(r, MARK_NEWLINE);
}

static void put_json(struct render *r, yyjson_val *v, bool media)
{
	size_t len;
	char *s = yyjson_val_write(v, 0, &len);

	if (!s) {
		r->failed = true;
		return;
	}
	if (media) {
		uint64_t h = XXH3_64bits(s, len);

		for (uint32_t i = 0; i < MEDIA_TOKENS; i++)
			put(r, MEDIA | (uint32_t)(XXH3_64bits_withSeed(&i, sizeof(i), h) & 0xffffff));
	} else {
		put_text(r, s, len);
	}
	free(s);
}

/* A content: a string, or parts whose texts are one text. */
static void put_content(struct render *r, yyjson_val *content)
{
	char *text = NULL;
	size_t len = 0, i, max;
	yyjson_val *part;

	if (yyjson_is_str(content)) {
		put_text(r, yyjson_get_str(content), yyjson_get_len(content));
		return;
	}
	if (!yyjson_is_arr(content))
		return;
	yyjson_arr_foreach(content, i, max, part) {
		yyjson_val *t = yyjson_is_str(part) ? part : yyjson_obj_get(part, "text");

		if (yyjson_is_str(t)) {
			char *more = realloc(text, len + yyjson_get_len(t) + 1);

			if (!more) {
				r->failed = true;
				break;
			}
			text = more;
			memcpy(text + len, yyjson_get_str(t), yyjson_get_len(t));
			len += yyjson_get_len(t);
		} else {
			put_text(r, text, len);
			len = 0;
			put_json(r, part, true);
		}
	}
	put_text(r, text, len);
	free(text);
}

static void put_message(struct render *r, yyjson_val *msg)
{
	static const char *const extra[] = { "name", "reasoning_content", "tool_calls", "tool_call_id", "arguments", "output" };
	const char *role = yyjson_get_str(yyjson_obj_get(msg, "role"));

	if (!role)
		role = yyjson_get_str(yyjson_obj_get(msg, "type"));
	put_role(r, role ? role : "user");
	put_content(r, yyjson_obj_get(msg, "content"));
	for (size_t i = 0; i < sizeof(extra) / sizeof(extra[0]); i++) {
		yyjson_val *v = yyjson_obj_get(msg, extra[i]);

		if (v && !yyjson_is_null(v))
			put_json(r, v, false);
	}
	put_end(r);
}

static void put_messages(struct render *r, yyjson_val *list)
{
	size_t i, max;
	yyjson_val *msg;

	yyjson_arr_foreach(list, i, max, msg)
		put_message(r, msg);
	put_role(r, "assistant");
}

static void put_named(struct render *r, const char *role, yyjson_val *content, bool json)
{
	if (!content || yyjson_is_null(content) || (yyjson_is_arr(content) && !yyjson_arr_size(content)))
		return;
	put_role(r, role);
	if (json)
		put_json(r, content, false);
	else
		put_content(r, content);
	put_end(r);
}

static int refuse(struct sim_refusal *why, const char *type, const char *param, const char *message)
{
	why->status = 400;
	snprintf(why->type, sizeof(why->type), "%s", type);
	snprintf(why->param, sizeof(why->param), "%s", param);
	snprintf(why->message, sizeof(why->message), "%s", message);
	return -EINVAL;
}

static int refuse_missing(struct sim_refusal *why, const char *key, size_t items)
{
	char param[64], message[256];

	snprintf(param, sizeof(param), "body.%s", key);
	snprintf(message, sizeof(message),
		 "1 validation error:\n  {'type': 'missing', 'loc': '%s', 'msg': 'Field required', 'input': '<dict of %zu items>'}",
		 param, items);
	return refuse(why, "Bad Request", param, message);
}

static int refuse_type(struct sim_refusal *why, const char *key, const char *want)
{
	char param[64], message[256];

	snprintf(param, sizeof(param), "body%s%s", *key ? "." : "", key);
	snprintf(message, sizeof(message), "1 validation error:\n  {'type': '%s_type', 'loc': '%s', 'msg': 'Input should be a valid %s'}",
		 want, param, want);
	return refuse(why, "Bad Request", param, message);
}

/* A prompt of /v1/completions: text, token ids, or a batch of one. */
static int render_prompt(struct render *r, yyjson_val *v, struct sim_refusal *why)
{
	size_t i, max;
	yyjson_val *id;

	if (yyjson_is_arr(v) && (yyjson_is_str(yyjson_arr_get_first(v)) || yyjson_is_arr(yyjson_arr_get_first(v)))) {
		if (yyjson_arr_size(v) != 1)
			return refuse(why, "BadRequestError", "prompt",
				      "This engine takes one prompt a request. (parameter=prompt)");
		v = yyjson_arr_get_first(v);
	}
	if (yyjson_is_str(v)) {
		put_text(r, yyjson_get_str(v), yyjson_get_len(v));
		return 0;
	}
	if (!yyjson_is_arr(v))
		return refuse_type(why, "prompt", "string");
	yyjson_arr_foreach(v, i, max, id) {
		if (!yyjson_is_uint(id))
			return refuse_type(why, "prompt", "integer");
		put(r, TOKEN_ID | (uint32_t)(yyjson_get_uint(id) & 0xffffff));
	}
	return 0;
}

static int render_body(struct sim_prompt *p, struct render *r, yyjson_val *root, struct sim_refusal *why)
{
	yyjson_val *messages = yyjson_obj_get(root, "messages"), *v;

	if (p->api == SIM_API_INVOCATIONS) {
		p->api = messages || !yyjson_obj_get(root, "prompt") ? SIM_API_CHAT : SIM_API_COMPLETIONS;
	}
	if (p->api == SIM_API_COMPLETIONS) {
		v = yyjson_obj_get(root, "prompt");
		if (!v)
			return refuse_missing(why, "prompt", yyjson_obj_size(root));
		return render_prompt(r, v, why);
	}
	put_named(r, "tools", yyjson_obj_get(root, "tools"), true);
	if (p->api == SIM_API_RESPONSES) {
		v = yyjson_obj_get(root, "input");
		if (!v)
			return refuse_missing(why, "input", yyjson_obj_size(root));
		put_named(r, "system", yyjson_obj_get(root, "instructions"), false);
		if (yyjson_is_arr(v)) {
			put_messages(r, v);
		} else {
			put_named(r, "user", v, false);
			put_role(r, "assistant");
		}
		return 0;
	}
	if (!messages)
		return refuse_missing(why, "messages", yyjson_obj_size(root));
	if (!yyjson_is_arr(messages))
		return refuse_type(why, "messages", "list");
	if (!yyjson_arr_size(messages))
		return refuse(why, "BadRequestError", "messages", "At least one message is required. (parameter=messages)");
	if (p->api == SIM_API_MESSAGES)
		put_named(r, "system", yyjson_obj_get(root, "system"), false);
	put_messages(r, messages);
	return 0;
}

static int read_max_tokens(struct sim_prompt *p, yyjson_val *root, const struct sim_limits *limits, struct sim_refusal *why)
{
	static const char *const key[] = { "max_completion_tokens", "max_output_tokens", "max_tokens" };

	for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i++) {
		yyjson_val *v = yyjson_obj_get(root, key[i]);
		char message[256];

		if (!v || yyjson_is_null(v))
			continue;
		if (!yyjson_is_int(v))
			return refuse_type(why, key[i], "integer");
		if (yyjson_get_sint(v) < 1) {
			snprintf(message, sizeof(message), "%s must be at least 1, got %lld. (parameter=%s, value=%lld)", key[i],
				 (long long)yyjson_get_sint(v), key[i], (long long)yyjson_get_sint(v));
			return refuse(why, "BadRequestError", key[i], message);
		}
		if (yyjson_get_uint(v) > limits->max_model_tokens) {
			snprintf(message, sizeof(message), "%s=%llu cannot be greater than max_model_len=%u. Please request fewer "
				 "output tokens. (parameter=%s, value=%llu)", key[i], (unsigned long long)yyjson_get_uint(v),
				 limits->max_model_tokens, key[i], (unsigned long long)yyjson_get_uint(v));
			return refuse(why, "BadRequestError", key[i], message);
		}
		p->max_tokens = (uint32_t)yyjson_get_uint(v);
		return 0;
	}
	return 0;
}

static int read_body(struct sim_prompt *p, struct render *r, yyjson_val *root, const struct sim_limits *limits,
		     struct sim_refusal *why)
{
	yyjson_val *v, *options = yyjson_obj_get(root, "stream_options");
	const char *salt = "";
	int ret;

	if (!yyjson_is_obj(root))
		return refuse_type(why, "", "dictionary");
	v = yyjson_obj_get(root, "model");
	if (v && !yyjson_is_null(v)) {
		if (!yyjson_is_str(v))
			return refuse_type(why, "model", "string");
		p->model = strdup(yyjson_get_str(v));
		if (!p->model)
			r->failed = true;
	}
	v = yyjson_obj_get(root, "n");
	if (yyjson_is_int(v) && yyjson_get_int(v) != 1)
		return refuse(why, "BadRequestError", "n", "This engine gives one answer a request. (parameter=n)");
	p->stream = yyjson_get_bool(yyjson_obj_get(root, "stream"));
	p->include_usage = yyjson_get_bool(yyjson_obj_get(options, "include_usage"));
	p->continuous_usage = yyjson_get_bool(yyjson_obj_get(options, "continuous_usage_stats"));
	v = yyjson_obj_get(root, "cache_salt");
	if (v && !yyjson_is_null(v)) {
		salt = yyjson_get_str(v);
		if (!salt || !*salt)
			return refuse(why, "BadRequestError", "cache_salt",
				      "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)");
	}
	p->root = XXH3_64bits(salt, strlen(salt));
	ret = read_max_tokens(p, root, limits, why);
	return ret ? ret : render_body(p, r, root, why);
}

int sim_prompt_parse(struct sim_prompt *p, enum sim_api api, const char *body, size_t len,
		     const struct sim_limits *limits, struct sim_refusal *why)
{
	struct render r = { .limit = limits->max_model_tokens };
	yyjson_read_err json_err;
	yyjson_doc *doc;
	char message[512];
	int ret;

	memset(p, 0, sizeof(*p));
	memset(why, 0, sizeof(*why));
	p->api = api;
	if (!len)
		return refuse(why, "Bad Request", "body",
			      "1 validation error:\n  {'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}");
	doc = yyjson_read_opts((char *)(uintptr_t)body, len, 0, NULL, &json_err);
	if (!doc) {
		char param[48];

		snprintf(param, sizeof(param), "body.%zu", json_err.pos);
		snprintf(message, sizeof(message), "1 validation error:\n  {'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode "
			 "error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}", param);
		return refuse(why, "Bad Request", param, message);
	}
	ret = read_body(p, &r, yyjson_doc_get_root(doc), limits, why);
	yyjson_doc_free(doc);
	p->token = r.token;
	p->prompt_tokens = r.n;
	if (ret)
		return ret;
	if (r.failed) {
		refuse(why, "InternalServerError", "", "out of memory");
		why->status = 500;
		return -EINVAL;
	}
	if (r.too_long || r.n + 1 > limits->max_model_tokens) {
		snprintf(message, sizeof(message), "This model's maximum context length is %u tokens. However, your prompt contains at "
			 "least %u input tokens, which exceeds this limit even without any output tokens. Please reduce the length "
			 "of the input prompt. (parameter=input_tokens, value=%u)", limits->max_model_tokens, r.n + 1, r.n + 1);
		return refuse(why, "BadRequestError", "input_tokens", message);
	}
	if (!r.n)
		return refuse(why, "BadRequestError", "prompt", "The prompt must not be empty. (parameter=prompt)");
	return 0;
}

/* splitmix64's finaliser: one well mixed number from another. */
static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void sim_answer_text(uint64_t text_seed, uint32_t i, char text[4])
{
	uint64_t r = mix(text_seed + i);

	text[0] = i ? ' ' : (char)('A' + r % 26);
	for (int k = 1; k < 4; k++)
		text[k] = (char)('a' + (r >> (8 * k)) % 26);
}

static uint32_t choose_length(uint64_t seed)
{
	double u1 = (double)(mix(seed) >> 11) * 0x1p-53, u2 = (double)(mix(seed + 1) >> 11) * 0x1p-53;
	double normal = sqrt(-2 * log1p(-u1)) * cos(2 * M_PI * u2);
	double v = MEAN_OUTPUT_TOKENS * exp(OUTPUT_SIGMA * normal - OUTPUT_SIGMA * OUTPUT_SIGMA / 2);

	return v < 1 ? 1 : (uint32_t)v;
}

int sim_prompt_complete(struct sim_prompt *p, const char *served, const struct sim_limits *limits)
{
	uint32_t left = limits->max_model_tokens - p->prompt_tokens, total, *token;
	uint64_t h;

	p->root = h = XXH3_64bits_withSeed(served, strlen(served), p->root);
	p->text_seed = XXH3_64bits_withSeed(p->token, p->prompt_tokens * sizeof(*p->token), p->root ^ limits->seed);
	p->output_tokens = p->max_tokens ? p->max_tokens : choose_length(p->text_seed);
	if (p->output_tokens > left)
		p->output_tokens = left;
	total = p->prompt_tokens + p->output_tokens;
	token = realloc(p->token, total * sizeof(*token));
	if (!token)
		return -ENOMEM;
	p->token = token;
	for (uint32_t i = 0; i < p->output_tokens; i++) {
		char text[4];

		sim_answer_text(p->text_seed, i, text);
		memcpy(&token[p->prompt_tokens + i], text, 4);
	}
	p->hashes = total / NODE_BLOCK_TOKENS;
	p->hash = malloc(p->hashes * sizeof(*p->hash) + 1);
	if (!p->hash)
		return -ENOMEM;
	for (uint32_t b = 0; b < p->hashes; b++)
		p->hash[b] = h = XXH3_64bits_withSeed(&token[b * NODE_BLOCK_TOKENS], NODE_BLOCK_TOKENS * sizeof(*token), h);
	return 0;
}

void sim_prompt_free(struct sim_prompt *p)
{
	free(p->model);
	free(p->token);
	free(p->hash);
	memset(p, 0, sizeof(*p));
}
