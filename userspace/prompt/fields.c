/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "prompt/fields.h"

#include <string.h>

#define F(x)      (1u << PROMPT_FAMILY_##x)
#define INV       F(INVOCATIONS)
#define CHATLIKE  (F(CHAT) | INV)
#define OPENAI    (F(CHAT) | F(COMPLETIONS) | F(RESPONSES) | INV | F(TOKENS))
#define GEN       F(GENERATE)
#define ALL       0xffffffffu

struct field {
	const char *name;
	unsigned int families;
	enum slot slot;
};

/* The first row that fits name and family counts. */
static const struct field root[] = {
	{ "model", ALL, SLOT_MODEL },
	{ "stream", ALL, SLOT_STREAM },
	{ "stream_options", ALL, SLOT_STREAM_OPTIONS },
	{ "messages", CHATLIKE | F(MESSAGES) | F(OLLAMA), SLOT_MESSAGES },
	{ "tools", ALL, SLOT_TOOLS },
	{ "functions", CHATLIKE, SLOT_FUNCTIONS },
	{ "prompt", F(RESPONSES), SLOT_TEMPLATE },              /* a stored prompt: {id, variables} */
	{ "prompt", F(COMPLETIONS) | INV | F(LLAMA) | F(OLLAMA), SLOT_PROMPT },
	{ "inputs", INV | GEN, SLOT_INPUTS },
	{ "text", F(RESPONSES), SLOT_TRAILER },                 /* the answer's format */
	{ "text", INV | GEN, SLOT_TEXT },
	{ "input_ids", INV | GEN, SLOT_IDS },
	{ "token_ids", F(TOKENS), SLOT_IDS },
	{ "input", F(RESPONSES) | INV, SLOT_INPUT },
	{ "instructions", F(RESPONSES) | INV, SLOT_SYSTEM },
	{ "system", F(MESSAGES) | INV | F(OLLAMA), SLOT_SYSTEM },
	{ "input_extra", F(LLAMA), SLOT_FUNCTIONS },            /* /infill: files before the prefix */
	{ "input_prefix", F(LLAMA), SLOT_SYSTEM },
	{ "input_suffix", F(LLAMA), SLOT_SUFFIX },

	{ "max_completion_tokens", ALL, SLOT_MAX_NEW },
	{ "max_tokens", ALL, SLOT_MAX_OLD },
	{ "max_output_tokens", ALL, SLOT_MAX_OLD },
	{ "n_predict", F(LLAMA), SLOT_MAX_OLD },
	{ "n", ALL, SLOT_N },
	{ "id_slot", F(LLAMA) | OPENAI, SLOT_ID_SLOT },
	{ "parameters", GEN | INV, SLOT_PARAMETERS },
	{ "sampling_params", GEN | INV | F(TOKENS), SLOT_PARAMETERS },
	{ "options", F(OLLAMA), SLOT_PARAMETERS },
	{ "prompt_cache_key", ALL, SLOT_CACHE_KEY },
	{ "user", ALL, SLOT_USER },
	{ "metadata", ALL, SLOT_METADATA },
	{ "previous_response_id", ALL, SLOT_PREVIOUS },
	{ "conversation", F(RESPONSES) | INV, SLOT_CONVERSATION },
	{ "session_params", ALL, SLOT_SESSION_PARAMS },

	{ "cache_salt", ALL, SLOT_SALT },
	{ "extra_key", ALL, SLOT_SALT },
	{ "lora_path", ALL, SLOT_ADAPTER },
	{ "adapter_id", ALL, SLOT_ADAPTER },
	{ "adapters", ALL, SLOT_ADAPTER },
	{ "lora", F(LLAMA) | OPENAI, SLOT_ADAPTER },            /* llama.cpp: [{id, scale}] per request */

	{ "chat_template", ALL, SLOT_TEMPLATE_SOURCE },
	{ "template", F(OLLAMA), SLOT_TEMPLATE_SOURCE },
	{ "chat_template_kwargs", ALL, SLOT_TEMPLATE_OBJECT },
	{ "mm_processor_kwargs", ALL, SLOT_TEMPLATE_OBJECT },
	{ "media_io_kwargs", ALL, SLOT_TEMPLATE_OBJECT },
	{ "reasoning_effort", ALL, SLOT_TEMPLATE_SOURCE },
	{ "reasoning", F(RESPONSES) | CHATLIKE, SLOT_TEMPLATE_OBJECT },
	{ "thinking", ALL, SLOT_TEMPLATE_OBJECT },
	{ "enable_thinking", ALL, SLOT_TEMPLATE_SOURCE },
	{ "think", F(OLLAMA), SLOT_TEMPLATE_SOURCE },
	{ "raw", F(OLLAMA), SLOT_TEMPLATE_SOURCE },
	{ "documents", ALL, SLOT_TEMPLATE },
	{ "context", F(OLLAMA), SLOT_TEMPLATE },
	{ "prompt_embeds", ALL, SLOT_TEMPLATE },
	{ "features", F(TOKENS), SLOT_TEMPLATE },
	{ "truncate_prompt_tokens", ALL, SLOT_TEMPLATE_SOURCE },
	{ "add_special_tokens", ALL, SLOT_TEMPLATE_SOURCE },
	{ "image_data", GEN | INV | F(LLAMA), SLOT_TEMPLATE_MEDIA },
	{ "video_data", GEN | INV, SLOT_TEMPLATE_MEDIA },
	{ "audio_data", GEN | INV, SLOT_TEMPLATE_MEDIA },
	{ "multi_modal_data", ALL, SLOT_TEMPLATE_MEDIA },
	{ "images", F(OLLAMA), SLOT_TEMPLATE_MEDIA },

	/* Templates that print the schema print it last. */
	{ "response_format", ALL, SLOT_TRAILER },
	{ "structured_outputs", ALL, SLOT_TRAILER },
	{ "guided_json", ALL, SLOT_TRAILER },
	{ "guided_regex", ALL, SLOT_TRAILER },
	{ "guided_choice", ALL, SLOT_TRAILER },
	{ "guided_grammar", ALL, SLOT_TRAILER },
	{ "json_schema", F(LLAMA) | CHATLIKE, SLOT_TRAILER },
	{ "grammar", F(LLAMA) | CHATLIKE, SLOT_TRAILER },
	{ "format", F(OLLAMA), SLOT_TRAILER },
	{ "add_generation_prompt", ALL, SLOT_UNLESS_TRUE },
	{ "continue_final_message", ALL, SLOT_UNLESS_FALSE },
	{ NULL, 0, SLOT_SKIP },
};

static const struct field stream_options[] = {
	{ "include_usage", ALL, SLOT_INCLUDE_USAGE },
	{ NULL, 0, SLOT_SKIP },
};

static const struct field metadata[] = {
	{ "user_id", F(MESSAGES), SLOT_USER },
	{ NULL, 0, SLOT_SKIP },
};

static const struct field session[] = {
	{ "id", ALL, SLOT_SESSION },
	{ NULL, 0, SLOT_SKIP },
};

static const struct field conversation[] = {
	{ "id", ALL, SLOT_PREVIOUS },
	{ NULL, 0, SLOT_SKIP },
};

static const struct field parameters[] = {
	{ "max_new_tokens", ALL, SLOT_MAX_OLD },
	{ "max_tokens", ALL, SLOT_MAX_OLD },
	{ "num_predict", ALL, SLOT_MAX_OLD },
	{ "adapter_id", ALL, SLOT_ADAPTER },
	{ "adapters", ALL, SLOT_ADAPTER },
	{ "truncate", ALL, SLOT_TEMPLATE_SOURCE },              /* TGI: cuts the prompt from the left */
	{ "num_ctx", F(OLLAMA), SLOT_TEMPLATE_SOURCE },         /* Ollama: another runner */
	{ NULL, 0, SLOT_SKIP },
};

static const struct field message[] = {
	{ "role", ALL, SLOT_MSG_ROLE },
	{ "content", ALL, SLOT_MSG_CONTENT },
	{ "reasoning_content", ALL, SLOT_MSG_REASONING },
	{ "reasoning", ALL, SLOT_MSG_REASONING },
	{ "tool_calls", ALL, SLOT_MSG_TOOL_CALLS },
	{ "arguments", ALL, SLOT_MSG_ARGUMENTS },               /* Responses items: function_call */
	{ "output", ALL, SLOT_MSG_OUTPUT },                     /* function_call_output */
	{ "type", ALL, SLOT_MSG_TYPE },
	{ "images", F(OLLAMA), SLOT_MSG_MEDIA },
	/* Given back by clients as the server sent them; no template prints them. */
	{ "id", ALL, SLOT_SKIP },
	{ "status", ALL, SLOT_SKIP },
	{ "annotations", ALL, SLOT_SKIP },
	{ "cache_control", ALL, SLOT_SKIP },
	{ NULL, 0, SLOT_MSG_OTHER },
};

static const struct field part[] = {
	{ "text", ALL, SLOT_PART_TEXT },
	{ "type", ALL, SLOT_PART_TYPE },
	{ "image_url", ALL, SLOT_PART_MEDIA },
	{ "image", ALL, SLOT_PART_MEDIA },
	{ "input_image", ALL, SLOT_PART_MEDIA },
	{ "image_embeds", ALL, SLOT_PART_MEDIA },
	{ "input_audio", ALL, SLOT_PART_MEDIA },
	{ "audio_url", ALL, SLOT_PART_MEDIA },
	{ "audio", ALL, SLOT_PART_MEDIA },
	{ "video_url", ALL, SLOT_PART_MEDIA },
	{ "video", ALL, SLOT_PART_MEDIA },
	{ "file", ALL, SLOT_PART_MEDIA },
	{ "file_data", ALL, SLOT_PART_MEDIA },
	{ "file_url", ALL, SLOT_PART_MEDIA },
	{ "file_id", ALL, SLOT_PART_MEDIA },
	{ "source", ALL, SLOT_PART_MEDIA },                     /* Anthropic: image and document */
	{ "cache_control", ALL, SLOT_SKIP },
	{ "annotations", ALL, SLOT_SKIP },
	{ "logprobs", ALL, SLOT_SKIP },
	{ NULL, 0, SLOT_PART_OTHER },
};

static const struct field *const tables[] = {
	[FIELDS_ROOT] = root,
	[FIELDS_STREAM_OPTIONS] = stream_options,
	[FIELDS_METADATA] = metadata,
	[FIELDS_SESSION] = session,
	[FIELDS_CONVERSATION] = conversation,
	[FIELDS_PARAMETERS] = parameters,
	[FIELDS_MESSAGE] = message,
	[FIELDS_PART] = part,
};

enum slot field_slot(enum field_table table, enum prompt_family family, const struct json_token *key)
{
	const struct field *f = tables[table];

	for (; f->name; f++) {
		if (!(f->families >> family & 1))
			continue;
		if (key->len < JSON_TOKEN_MAX && f->name[0] == (char)key->buf[0] && strlen(f->name) == key->len &&
		    !memcmp(f->name, key->buf, key->len))
			return f->slot;
	}
	return f->slot;
}
