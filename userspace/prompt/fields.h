/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What each JSON key of a request means for the prompt, as tables. A key that
 * is in no table doesn't change the prefix at the top level, and is part of
 * the message or part it stands in below. */
#ifndef KVSTEER_PROMPT_FIELDS_H
#define KVSTEER_PROMPT_FIELDS_H
#include "prompt/json.h"
#include "prompt/prompt.h"

enum slot {
	SLOT_SKIP,
	/* scalars that the gateway wants */
	SLOT_MODEL, SLOT_STREAM, SLOT_MAX_NEW, SLOT_MAX_OLD, SLOT_N, SLOT_ID_SLOT, SLOT_INCLUDE_USAGE,
	SLOT_CACHE_KEY, SLOT_USER, SLOT_SESSION, SLOT_PREVIOUS,
	/* objects with fields of their own tables */
	SLOT_STREAM_OPTIONS, SLOT_METADATA, SLOT_SESSION_PARAMS, SLOT_CONVERSATION, SLOT_PARAMETERS,
	/* what salts the chain, precedes it, or follows it */
	SLOT_SALT, SLOT_ADAPTER, SLOT_TEMPLATE, SLOT_TEMPLATE_SOURCE, SLOT_TEMPLATE_OBJECT, SLOT_TEMPLATE_MEDIA,
	SLOT_TRAILER, SLOT_UNLESS_TRUE, SLOT_UNLESS_FALSE,
	/* the prompt */
	SLOT_TOOLS, SLOT_FUNCTIONS, SLOT_SYSTEM, SLOT_SUFFIX, SLOT_MESSAGES, SLOT_INPUT,
	SLOT_PROMPT, SLOT_INPUTS, SLOT_TEXT, SLOT_IDS,
	/* fields of a message */
	SLOT_MSG_REASONING, SLOT_MSG_CONTENT, SLOT_MSG_TOOL_CALLS, SLOT_MSG_ARGUMENTS, SLOT_MSG_OUTPUT,
	SLOT_MSG_ROLE, SLOT_MSG_TYPE, SLOT_MSG_MEDIA, SLOT_MSG_OTHER,
	/* fields of a part of a content */
	SLOT_PART_TEXT, SLOT_PART_TYPE, SLOT_PART_MEDIA, SLOT_PART_OTHER,
};

enum field_table { FIELDS_ROOT, FIELDS_STREAM_OPTIONS, FIELDS_METADATA, FIELDS_SESSION, FIELDS_CONVERSATION,
		   FIELDS_PARAMETERS, FIELDS_MESSAGE, FIELDS_PART };

/* The slot of `key` in `table` for `family`; what isn't listed: SLOT_SKIP, in a message SLOT_MSG_OTHER, in a
 * part SLOT_PART_OTHER. */
enum slot field_slot(enum field_table table, enum prompt_family family, const struct json_token *key);
#endif
