/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The body's own fields, and those of the small objects that have a table:
 * what the gateway reads, what salts the chain, precedes or follows it, and
 * where the prompt begins. */
#include <stdlib.h>

#include "prompt/scan.h"

static int64_t to_int(const struct json_token *t)
{
	char text[JSON_TOKEN_MAX + 1];
	double d;

	if (t->len > JSON_TOKEN_MAX)
		return INT64_MAX;
	memcpy(text, t->buf, t->fill);
	text[t->fill] = '\0';
	d = strtod(text, NULL);
	if (!(d > -9e18))       /* NaN too */
		return -1;
	return d < 9e18 ? (int64_t)d : INT64_MAX;
}

static uint64_t never_zero(uint64_t h)
{
	return h ? h : 1;
}

static uint64_t *id_hash(struct prompt_scan *s, enum slot slot)
{
	switch (slot) {
	case SLOT_CACHE_KEY: return &s->info.cache_key_hash;
	case SLOT_USER: return &s->info.user_hash;
	case SLOT_SESSION: return &s->info.session_hash;
	case SLOT_PREVIOUS: return &s->info.previous_hash;
	default: return NULL;
	}
}

uint64_t prompt_id_hash(const void *id, size_t len)
{
	struct sink d;

	sink_begin(&d, NULL, KIND_DIGEST, PROMPT_BLOCK_BYTES);
	sink_write(&d, id, len);
	return never_zero(sink_digest(&d));
}

/* Fields that the gateway reads and the key doesn't. A value of the wrong type counts as absent. */
static void set_scalar(struct prompt_scan *s, enum slot slot, bool prim, enum json_prim kind, const struct json_token *num)
{
	bool yes = prim && kind == JSON_TRUE;
	int64_t v = prim && kind == JSON_NUMBER ? to_int(num) : -1;

	switch (slot) {
	case SLOT_STREAM:
		s->info.has_stream = prim && (kind == JSON_TRUE || kind == JSON_FALSE);
		s->info.stream = yes;
		break;
	case SLOT_INCLUDE_USAGE: s->info.include_usage = yes; break;
	case SLOT_MAX_NEW: s->max_new = v; break;
	case SLOT_MAX_OLD: s->max_old = v; break;
	case SLOT_N: s->info.n = v < 1 ? 1 : v; break;
	case SLOT_ID_SLOT: s->info.id_slot = v; break;
	default: break;
	}
}

static struct bag *slot_bag(struct prompt_scan *s, enum slot slot)
{
	switch (slot) {
	case SLOT_SALT: case SLOT_ADAPTER:
		return &s->salt;
	case SLOT_TEMPLATE: case SLOT_TEMPLATE_SOURCE: case SLOT_TEMPLATE_OBJECT: case SLOT_TEMPLATE_MEDIA:
		return &s->tmpl;
	default:
		return &s->trailer;
	}
}

static enum action enter_table(struct prompt_scan *s, enum field_table table, uint64_t key)
{
	struct frame *f;

	/* An object given twice: nothing of the first one stays. */
	bag_remove(&s->salt, 0, key);
	bag_remove(&s->tmpl, 0, key);
	f = scan_push(s, FRAME_SUB);
	f->table = (uint8_t)table;
	f->parent = key;
	return ACT_ENTERED;
}

static enum action begin_bagged(struct prompt_scan *s, struct frame *f, enum value_type t, enum json_prim kind)
{
	enum slot slot = f->slot;

	bag_remove(slot_bag(s, slot), f->parent, f->key);
	if (slot == SLOT_SALT)
		s->info.has_salt = s->salt.n > 0;
	if (t == VALUE_PRIM && (kind == JSON_NULL || (slot == SLOT_UNLESS_TRUE && kind == JSON_TRUE) ||
				(slot == SLOT_UNLESS_FALSE && kind == JSON_FALSE))) {
		f->slot = SLOT_SKIP;
		return ACT_SKIP;
	}
	if (slot == SLOT_TEMPLATE_OBJECT && t == VALUE_OBJECT) {
		uint64_t key = f->key;

		scan_push(s, FRAME_FLAT)->parent = key;
		return ACT_ENTERED;
	}
	scan_digest(s);
	return slot == SLOT_TEMPLATE_MEDIA && t == VALUE_STRING ? ACT_MEDIA : ACT_VALUE;
}

static enum action begin_system(struct prompt_scan *s, enum value_type t, enum section sec, enum block_kind kind)
{
	scan_main_begin(s, &s->sec[sec], kind, PROMPT_BLOCK_BYTES);
	s->gen = &s->main;
	if (t == VALUE_ARRAY) {
		parts_begin(s, true);
		return ACT_ENTERED;
	}
	system_text_begin(s);
	s->head_on = t == VALUE_STRING;
	if (t == VALUE_STRING && sec == SEC_SYSTEM)
		scan_first_text(s);
	return t == VALUE_STRING ? ACT_TEXT : ACT_VALUE;
}

static enum action begin_messages(struct prompt_scan *s, enum value_type t, enum slot slot)
{
	messages_begin(s);
	if (t == VALUE_ARRAY) {
		scan_push(s, FRAME_MESSAGES);
		return ACT_ENTERED;
	}
	if (slot == SLOT_INPUT && t == VALUE_STRING) {
		/* Responses: a string is a user message of that text. */
		message_begin(s);
		message_role(s, "user");
		message_text_field(s, MSG_CONTENT);
		scan_first_text(s);
		return ACT_TEXT;
	}
	s->present[SEC_MESSAGES] = false;
	return ACT_SKIP;
}

/* Several prompt fields: the strongest name counts, in whatever order they come. */
static uint8_t prompt_rank(enum slot slot)
{
	return slot == SLOT_PROMPT ? 4 : slot == SLOT_INPUTS ? 3 : slot == SLOT_TEXT ? 2 : 1;
}

static enum action begin_prompt(struct prompt_scan *s, struct frame *f, enum value_type t)
{
	if (prompt_rank(f->slot) < s->prompt_rank) {
		f->slot = SLOT_SKIP;
		return ACT_SKIP;
	}
	prompt_begin(s);
	if (t == VALUE_PRIM) {
		s->prompt_rank = 0;
		f->slot = SLOT_SKIP;
		return ACT_SKIP;
	}
	s->prompt_rank = prompt_rank(f->slot);
	if (t == VALUE_ARRAY) {
		scan_push(s, FRAME_PROMPT);
		return ACT_ENTERED;
	}
	return prompt_value(s, t, NULL);
}

/* A value of the body's own fields, or of an object with a table. */
enum action field_value(struct prompt_scan *s, enum value_type t, enum json_prim kind, const struct json_token *num)
{
	struct frame *f = scan_top(s);
	bool null = t == VALUE_PRIM && kind == JSON_NULL;
	enum slot slot = f->slot;

	switch (slot) {
	case SLOT_MODEL:
		s->info.has_model = s->info.model_too_long = false;
		s->info.model_len = 0;
		s->info.model_off = s->info.model_raw_len = 0;
		memset(s->info.model, 0, sizeof(s->info.model));
		return t == VALUE_STRING ? ACT_MODEL : ACT_SKIP;
	case SLOT_STREAM: case SLOT_INCLUDE_USAGE: case SLOT_MAX_NEW: case SLOT_MAX_OLD: case SLOT_N: case SLOT_ID_SLOT:
		set_scalar(s, slot, t == VALUE_PRIM, kind, num);
		return ACT_SKIP;
	case SLOT_CONVERSATION:
		s->info.previous_hash = 0;
		if (t == VALUE_OBJECT)
			return enter_table(s, FIELDS_CONVERSATION, f->key);
		f->slot = SLOT_PREVIOUS;
		/* fall through */
	case SLOT_CACHE_KEY: case SLOT_USER: case SLOT_SESSION: case SLOT_PREVIOUS:
		*id_hash(s, f->slot) = 0;
		scan_digest(s);
		return t == VALUE_STRING ? ACT_TEXT : ACT_SKIP;
	case SLOT_STREAM_OPTIONS:
		s->info.include_usage = false;
		return t == VALUE_OBJECT ? enter_table(s, FIELDS_STREAM_OPTIONS, f->key) : ACT_SKIP;
	case SLOT_METADATA:
		return t == VALUE_OBJECT ? enter_table(s, FIELDS_METADATA, f->key) : ACT_SKIP;
	case SLOT_SESSION_PARAMS:
		s->info.session_hash = 0;
		return t == VALUE_OBJECT ? enter_table(s, FIELDS_SESSION, f->key) : ACT_SKIP;
	case SLOT_PARAMETERS:
		return t == VALUE_OBJECT ? enter_table(s, FIELDS_PARAMETERS, f->key) : ACT_SKIP;
	case SLOT_SALT: case SLOT_ADAPTER: case SLOT_TEMPLATE: case SLOT_TEMPLATE_SOURCE: case SLOT_TEMPLATE_OBJECT:
	case SLOT_TEMPLATE_MEDIA: case SLOT_TRAILER: case SLOT_UNLESS_TRUE: case SLOT_UNLESS_FALSE:
		return begin_bagged(s, f, t, kind);
	case SLOT_TOOLS: case SLOT_FUNCTIONS: {
		enum section sec = slot == SLOT_TOOLS ? SEC_TOOLS : SEC_FUNCTIONS;

		scan_section_reset(s, sec);
		if (null) {
			f->slot = SLOT_SKIP;
			return ACT_SKIP;
		}
		scan_main_begin(s, &s->sec[sec], slot == SLOT_TOOLS ? KIND_TOOLS : KIND_FUNCTIONS, PROMPT_BLOCK_BYTES);
		s->gen = &s->main;
		return ACT_VALUE;
	}
	case SLOT_SYSTEM: case SLOT_SUFFIX: {
		enum section sec = slot == SLOT_SYSTEM ? SEC_SYSTEM : SEC_SUFFIX;

		scan_section_reset(s, sec);
		if (null) {
			f->slot = SLOT_SKIP;
			return ACT_SKIP;
		}
		return begin_system(s, t, sec, slot == SLOT_SYSTEM ? KIND_SYSTEM : KIND_SUFFIX);
	}
	case SLOT_MESSAGES: case SLOT_INPUT:
		return begin_messages(s, t, slot);
	case SLOT_PROMPT: case SLOT_INPUTS: case SLOT_TEXT: case SLOT_IDS:
		return begin_prompt(s, f, t);
	default:
		return ACT_SKIP;
	}
}

void field_value_done(struct prompt_scan *s)
{
	struct frame *f = scan_top(s);
	enum slot slot = f->slot;
	uint64_t *id;

	switch (slot) {
	case SLOT_MODEL:
		if (s->str_act != ACT_MODEL)
			break;
		s->str_act = ACT_SKIP;
		if (s->info.model_too_long || s->cut) {         /* nothing of it may pass for a name */
			memset(s->info.model, 0, sizeof(s->info.model));
			s->info.model_len = 0;
			break;
		}
		s->info.has_model = true;
		s->info.model_off = s->js.tok_off;
		s->info.model_raw_len = s->js.end_off - s->js.tok_off;
		break;
	case SLOT_CACHE_KEY: case SLOT_USER: case SLOT_SESSION: case SLOT_PREVIOUS:
		id = id_hash(s, slot);
		if (s->str_act == ACT_TEXT && s->dig.total && !s->cut)
			*id = never_zero(sink_digest(&s->dig));
		s->str_act = ACT_SKIP;
		break;
	case SLOT_SALT: case SLOT_ADAPTER: case SLOT_TEMPLATE: case SLOT_TEMPLATE_SOURCE: case SLOT_TEMPLATE_MEDIA:
	case SLOT_TRAILER: case SLOT_UNLESS_TRUE: case SLOT_UNLESS_FALSE: case SLOT_TEMPLATE_OBJECT: {
		uint64_t digest, bytes;

		if (!s->gen)            /* an object whose fields are in the bag already */
			break;
		digest = sink_digest(&s->dig);
		bytes = slot == SLOT_TEMPLATE ? s->dig.total : slot == SLOT_TEMPLATE_MEDIA ? MEDIA_BYTES : 0;
		bag_set(slot_bag(s, slot), f->parent, f->key, digest, bytes);
		if (slot == SLOT_SALT)
			s->info.has_salt = true;
		if (slot == SLOT_TEMPLATE_MEDIA)
			s->tmpl_media = true;
		break;
	}
	case SLOT_TOOLS: case SLOT_FUNCTIONS: {
		enum section sec = slot == SLOT_TOOLS ? SEC_TOOLS : SEC_FUNCTIONS;
		bool empty = scan_main_is_empty_array(s);

		scan_main_end(s);
		if (empty)
			scan_section_reset(s, sec);
		else
			s->present[sec] = true;
		break;
	}
	case SLOT_SYSTEM: case SLOT_SUFFIX: {
		enum section sec = slot == SLOT_SYSTEM ? SEC_SYSTEM : SEC_SUFFIX;
		bool drop = s->nparts == 0 || (s->str_act == ACT_TEXT && system_text_is_volatile(s));

		scan_main_end(s);
		s->head_on = false;
		if (drop)
			scan_section_reset(s, sec);
		else
			s->present[sec] = true;
		break;
	}
	case SLOT_INPUT:
		if (s->msg_open) {
			message_field_done(s, MSG_CONTENT);
			message_end(s);
			messages_end(s);
		}
		break;
	case SLOT_PROMPT: case SLOT_INPUTS: case SLOT_TEXT: case SLOT_IDS:
		if (s->run_open) {
			prompt_value_done(s);
			prompt_end(s);
		}
		break;
	default:
		break;
	}
}
