/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Prompts that are not messages: a string, token ids, a batch of either, or
 * llama.cpp's mixed arrays. A prompt is a sequence of runs, each of text, of ids
 * (4 bytes each) or of other values; a run starts a block, and its kind is in
 * the chain, so that ids never equal text. A batch counts by its first item. */
#include "prompt/scan.h"

void prompt_begin(struct prompt_scan *s)
{
	scan_section_reset(s, SEC_PROMPT);
	s->items = 0;
	s->first_end = 0;
	s->run_open = false;
	s->saw_text = s->saw_ids = s->saw_other = false;
	s->info.batch = false;
}

static void run_end(struct prompt_scan *s)
{
	struct block_list *l = &s->sec[SEC_PROMPT];

	if (!s->run_open)
		return;
	scan_main_end(s);
	s->run_open = false;
	if (s->run_start < l->n)
		l->v[s->run_start].flags |= PROMPT_BLOCK_MESSAGE_START;
}

static void run_begin(struct prompt_scan *s, enum block_kind kind)
{
	if (s->run_open && kind == KIND_TOKENS && s->main.kind == KIND_TOKENS)
		return;
	run_end(s);
	s->run_start = s->sec[SEC_PROMPT].n;
	scan_main_begin(s, &s->sec[SEC_PROMPT], kind, PROMPT_BLOCK_BYTES);
	s->run_open = true;
}

static bool token_id(const struct json_token *t, uint32_t *id)
{
	uint64_t v = 0;
	uint32_t i;

	if (t->len > 10)
		return false;
	for (i = 0; i < t->fill; i++) {
		if (t->buf[i] < '0' || t->buf[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(t->buf[i] - '0');
	}
	*id = (uint32_t)v;
	return v <= UINT32_MAX;
}

/* Takes an id; false where the number isn't one. */
static bool write_id(struct prompt_scan *s, const struct json_token *number)
{
	uint8_t le[4];
	uint32_t id;

	if (!number || !token_id(number, &id))
		return false;
	run_begin(s, KIND_TOKENS);
	le[0] = (uint8_t)id;
	le[1] = (uint8_t)(id >> 8);
	le[2] = (uint8_t)(id >> 16);
	le[3] = (uint8_t)(id >> 24);
	sink_write(&s->main, le, sizeof(le));
	return true;
}

/* One item of a prompt that is to be hashed. */
static enum action item(struct prompt_scan *s, enum value_type t, const struct json_token *number)
{
	if (t == VALUE_PRIM && write_id(s, number)) {
		s->saw_ids = true;
		return ACT_SKIP;
	}
	if (t == VALUE_STRING)
		s->saw_text = true;
	else
		s->saw_other = true;
	if (t == VALUE_STRING && !s->run_open && !s->sec[SEC_PROMPT].n)
		scan_first_text(s);
	run_begin(s, t == VALUE_STRING ? KIND_TEXT : KIND_VALUE);
	s->gen = &s->main;
	return t == VALUE_STRING ? ACT_TEXT : ACT_VALUE;
}

enum action prompt_value(struct prompt_scan *s, enum value_type t, const struct json_token *number)
{
	bool mixes = s->family == PROMPT_FAMILY_LLAMA;
	bool first = s->items == 0;

	if (scan_top(s)->type != FRAME_PROMPT)          /* the prompt itself, or inside an item */
		return item(s, t, number);
	s->items++;
	if (t == VALUE_ARRAY && first) {
		scan_push(s, FRAME_PROMPT_ITEM);
		return ACT_ENTERED;
	}
	/* Behind an id, only ids belong to the same prompt; behind a string, nothing does. llama.cpp takes an
	 * array with strings and ids as one prompt; whether it is one is known at its end. */
	if (first || (t == VALUE_PRIM && s->saw_ids && !s->first_end) ||
	    (mixes && (t == VALUE_STRING || t == VALUE_PRIM) && (s->saw_text || s->saw_ids)))
		return item(s, t, number);
	s->info.batch = true;
	return ACT_SKIP;
}

void prompt_value_done(struct prompt_scan *s)
{
	if (!s->run_open || s->main.kind == KIND_TOKENS)
		return;
	run_end(s);
	if (s->items == 1 && scan_top(s)->type == FRAME_PROMPT)
		s->first_end = s->sec[SEC_PROMPT].n;
}

void prompt_end(struct prompt_scan *s)
{
	struct block_list *l = &s->sec[SEC_PROMPT];

	run_end(s);
	if (scan_top(s)->type == FRAME_PROMPT_ITEM) {
		s->first_end = l->n;
		return;
	}
	if (s->family == PROMPT_FAMILY_LLAMA && s->saw_text && !s->saw_ids && s->items > 1 && s->first_end) {
		l->n = s->first_end;
		s->info.batch = true;
	}
	s->present[SEC_PROMPT] = l->n > 0;
}
