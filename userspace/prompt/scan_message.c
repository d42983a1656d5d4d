/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Messages. A message becomes blocks of its own: one header digest (role, name
 * and all small fields, in any order) mixed into the first of the blocks of its
 * streamed fields. The header may come behind the content in the JSON; hence
 * the blocks wait in scan->msg until the message ends. */
#include "prompt/scan.h"

static const enum block_kind field_kind[MSG_FIELDS] = {
	[MSG_REASONING] = KIND_REASONING,
	[MSG_CONTENT] = KIND_CONTENT,
	[MSG_TOOL_CALLS] = KIND_TOOL_CALLS,
	[MSG_ARGUMENTS] = KIND_ARGUMENTS,
	[MSG_OUTPUT] = KIND_OUTPUT,
};

static enum msg_field slot_field(uint8_t slot)
{
	return (enum msg_field)(slot - SLOT_MSG_REASONING);
}

static bool is_field(uint8_t slot)
{
	return slot >= SLOT_MSG_REASONING && slot <= SLOT_MSG_OUTPUT;
}

void messages_begin(struct prompt_scan *s)
{
	scan_section_reset(s, SEC_MESSAGES);
	s->present[SEC_MESSAGES] = true;
	s->nmessages = 0;
	s->any_assistant = s->any_media = false;
	s->fold_hash = 0;
	s->fold_bytes = 0;
	s->fold_flags = 0;
}

/* Beyond max_cuts blocks, small messages share a block; so the number of blocks is bounded by the bytes, and
 * the chain of a conversation stays the start of its next turn's, but for the block that the turn ends in. */
static void add_block(struct prompt_scan *s, uint64_t hash, uint32_t bytes, uint8_t kind, uint8_t flags)
{
	struct block_list *l = &s->sec[SEC_MESSAGES];

	if (l->n < s->lim.max_cuts || (!s->fold_bytes && bytes >= PROMPT_BLOCK_BYTES)) {
		block_list_add(l, hash, bytes, kind, flags);
		return;
	}
	s->fold_hash = hash_chain(s->fold_hash, hash, kind | (uint64_t)flags << 8);
	s->fold_bytes += bytes;
	s->fold_flags |= flags;
	if (s->fold_bytes >= PROMPT_BLOCK_BYTES)
		messages_end(s);
}

void messages_end(struct prompt_scan *s)
{
	if (!s->fold_bytes)
		return;
	block_list_add(&s->sec[SEC_MESSAGES], s->fold_hash, s->fold_bytes, KIND_FOLD, s->fold_flags);
	s->fold_hash = 0;
	s->fold_bytes = 0;
	s->fold_flags = 0;
}

void message_begin(struct prompt_scan *s)
{
	bag_reset(&s->msg_bag);
	block_list_reset(&s->msg, s->lim.max_blocks);
	memset(s->field, 0, sizeof(s->field));
	s->msg_open = true;
	s->first_message = s->nmessages++ == 0;
	s->msg_assistant = s->msg_media = false;
}

void message_end(struct prompt_scan *s)
{
	uint8_t role = s->msg_assistant ? PROMPT_BLOCK_ASSISTANT : 0;
	uint8_t start = PROMPT_BLOCK_MESSAGE_START;
	uint64_t weight = MSG_OVERHEAD, header;
	int f;

	header = hash_chain(bag_hash(&s->msg_bag, &weight), 0, KIND_HEADER);
	if (s->msg.nomem)
		s->sec[SEC_MESSAGES].nomem = true;
	for (f = 0; f < MSG_FIELDS; f++) {
		const struct msg_range *r = &s->field[f];
		uint32_t i;

		for (i = r->start; r->present && i < r->end; i++) {
			const struct block *b = &s->msg.v[i];
			uint64_t bytes = b->bytes + weight;

			add_block(s, start ? hash_chain(header, b->hash, KIND_HEADER) : b->hash,
				  bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes, b->kind, role | start);
			start = 0;
			weight = 0;
		}
	}
	if (start)
		add_block(s, header, weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight, KIND_HEADER, role | start);
	s->any_assistant |= s->msg_assistant;
	s->any_media |= s->msg_media;
	s->msg_open = false;
}

static void field_begin(struct prompt_scan *s, enum msg_field f)
{
	struct msg_range *r = &s->field[f];

	/* Given twice: the last one counts. */
	if (r->present && r->end == s->msg.n)
		s->msg.n = r->start;
	r->present = false;
	r->start = s->msg.n;
}

static void field_open(struct prompt_scan *s, enum msg_field f)
{
	field_begin(s, f);
	scan_main_begin(s, &s->msg, field_kind[f], MSG_FIRST_BLOCK);
	s->gen = &s->main;
	s->field[f].present = true;
}

void message_text_field(struct prompt_scan *s, enum msg_field f)
{
	field_open(s, f);
}

void message_field_done(struct prompt_scan *s, enum msg_field f)
{
	struct msg_range *r = &s->field[f];
	bool empty;

	if (!r->present || !s->main_open)
		return;
	/* Clients send back "tool_calls": [] for none. */
	empty = f == MSG_TOOL_CALLS && scan_main_is_empty_array(s);
	scan_main_end(s);
	if (empty) {
		s->msg.n = r->start;
		r->present = false;
	}
	r->end = s->msg.n;
}

static uint64_t key_hash(const char *name)
{
	return hash_chain(0, hash_bytes(name, strlen(name)), strlen(name));
}

void message_role(struct prompt_scan *s, const char *role)
{
	scan_digest(s);
	sink_mark(&s->dig, MARK_STRING);
	sink_write(&s->dig, role, strlen(role));
	bag_set(&s->msg_bag, 0, key_hash("role"), sink_digest(&s->dig), s->dig.total);
}

/* --- contents ------------------------------------------------------------ */

void parts_begin(struct prompt_scan *s, bool in_system)
{
	scan_push(s, FRAME_PARTS);
	s->nparts = 0;
	s->in_system = in_system;
}

static void part_begin(struct prompt_scan *s)
{
	sink_save(&s->main, &s->part_before);
	if (s->nparts)
		sink_mark(&s->main, MARK_PART);
	sink_save(&s->main, &s->part_start);
	s->nparts++;
	s->part_text = s->part_has_media = false;
	s->head_n = 0;
	bag_reset(&s->part_bag);
}

/* What heads a system text and changes with every request; nothing that the model depends on. */
bool system_text_is_volatile(const struct prompt_scan *s)
{
	static const char billing[] = "x-anthropic-billing-header:";
	const size_t n = sizeof(billing) - 1;

	return (s->family == PROMPT_FAMILY_MESSAGES || s->family == PROMPT_FAMILY_INVOCATIONS) && s->head_n >= n &&
	       !memcmp(s->head, billing, n);
}

void system_text_begin(struct prompt_scan *s)
{
	s->nparts = 1;
	s->head_on = true;
	s->head_n = 0;
}

void part_end(struct prompt_scan *s)
{
	uint64_t weight = 0, h = bag_hash(&s->part_bag, &weight);

	s->head_on = false;
	if (s->in_system && s->part_text && !h && system_text_is_volatile(s)) {
		sink_rewind(&s->main, &s->part_before);
		s->nparts--;
		return;
	}
	s->msg_media |= s->part_has_media;
	if (!h)
		return;
	sink_mark(&s->main, MARK_BAG);
	s->main.extra += weight + (s->part_has_media ? MEDIA_BYTES : 0);
	sink_write(&s->main, &h, sizeof(h));
}

static bool is_text_type(const struct prompt_scan *s)
{
	return scan_digest_is(s, "text") || scan_digest_is(s, "input_text") || scan_digest_is(s, "output_text");
}

static enum action part_text(struct prompt_scan *s)
{
	if (s->part_text)
		sink_rewind(&s->main, &s->part_start);
	s->part_text = true;
	s->head_n = 0;
	s->head_on = s->in_system;
	if (s->in_system || s->first_message)
		scan_first_text(s);
	s->gen = &s->main;
	return ACT_TEXT;
}

static enum action part_field(struct prompt_scan *s, struct frame *f, enum value_type t, bool null)
{
	uint64_t key = f->key;

	switch (f->slot) {
	case SLOT_SKIP:
		return ACT_SKIP;
	case SLOT_PART_TEXT:
		if (t == VALUE_STRING) {
			bag_remove(&s->part_bag, 0, key);
			return part_text(s);
		}
		if (s->part_text)
			sink_rewind(&s->main, &s->part_start);
		s->part_text = false;
		break;
	case SLOT_PART_MEDIA:
		s->part_has_media |= !null;
		break;
	default:
		break;
	}
	bag_remove(&s->part_bag, 0, key);
	if (null)
		return ACT_SKIP;
	if (f->slot == SLOT_PART_MEDIA && t == VALUE_OBJECT) {
		scan_push(s, FRAME_MEDIA)->parent = key;
		return ACT_ENTERED;
	}
	scan_digest(s);
	return f->slot == SLOT_PART_MEDIA && t == VALUE_STRING ? ACT_MEDIA : ACT_VALUE;
}

static enum action message_field(struct prompt_scan *s, struct frame *f, enum value_type t, bool null)
{
	enum msg_field field;

	if (f->slot == SLOT_SKIP)
		return ACT_SKIP;
	if (is_field(f->slot)) {
		field = slot_field(f->slot);
		if (null) {
			field_begin(s, field);
			return ACT_SKIP;
		}
		field_open(s, field);
		if (field == MSG_TOOL_CALLS)
			return ACT_VALUE;
		if (t == VALUE_ARRAY) {
			parts_begin(s, false);
			return ACT_ENTERED;
		}
		if (t == VALUE_STRING && field == MSG_CONTENT && s->first_message)
			scan_first_text(s);
		return t == VALUE_STRING ? ACT_TEXT : ACT_VALUE;
	}
	bag_remove(&s->msg_bag, 0, f->key);
	if (f->slot == SLOT_MSG_ROLE)
		s->msg_assistant = false;
	if (f->slot == SLOT_MSG_MEDIA && t == VALUE_ARRAY)
		s->msg_media = true;
	return null ? ACT_SKIP : scan_digest(s);
}

enum action message_value(struct prompt_scan *s, enum value_type t, bool null)
{
	struct frame *f = scan_top(s);

	switch (f->type) {
	case FRAME_MESSAGES:
		message_begin(s);
		if (t == VALUE_OBJECT) {
			scan_push(s, FRAME_MESSAGE);
			return ACT_ENTERED;
		}
		message_text_field(s, MSG_CONTENT);
		if (t == VALUE_STRING && s->first_message)
			scan_first_text(s);
		return t == VALUE_STRING ? ACT_TEXT : ACT_VALUE;
	case FRAME_MESSAGE:
		return message_field(s, f, t, null);
	case FRAME_PARTS:
		part_begin(s);
		if (t == VALUE_OBJECT) {
			scan_push(s, FRAME_PART);
			return ACT_ENTERED;
		}
		s->gen = &s->main;
		return t == VALUE_STRING ? part_text(s) : ACT_VALUE;
	case FRAME_PART:
		return part_field(s, f, t, null);
	default:                /* FRAME_MEDIA */
		if (null)
			return ACT_SKIP;
		scan_digest(s);
		return t == VALUE_STRING ? ACT_MEDIA : ACT_VALUE;
	}
}

/* A small field of a message has ended in s->dig. */
static void bagged_done(struct prompt_scan *s, const struct frame *f)
{
	if (f->slot == SLOT_MSG_ROLE)
		s->msg_assistant = scan_digest_is(s, "assistant") || scan_digest_is(s, "model");
	if (f->slot == SLOT_MSG_TYPE) {
		if (scan_digest_is(s, "message"))       /* Responses items: the same as no type */
			return;
		/* Items of the model's own making have no role. */
		s->msg_assistant |= scan_digest_is(s, "function_call") || scan_digest_is(s, "reasoning");
	}
	bag_set(&s->msg_bag, 0, f->key, sink_digest(&s->dig), f->slot == SLOT_MSG_MEDIA ? MEDIA_BYTES : s->dig.total);
}

void message_value_done(struct prompt_scan *s)
{
	struct frame *f = scan_top(s);

	switch (f->type) {
	case FRAME_MESSAGES:
		if (s->msg_open) {      /* an element that is no object */
			message_field_done(s, MSG_CONTENT);
			message_end(s);
		}
		break;
	case FRAME_MESSAGE:
		if (is_field(f->slot))
			message_field_done(s, slot_field(f->slot));
		else if (s->gen)
			bagged_done(s, f);
		break;
	case FRAME_PARTS:
		part_end(s);
		break;
	case FRAME_PART:
		if (f->slot == SLOT_PART_TEXT && s->gen == &s->main)
			s->head_on = false;
		else if (s->gen == &s->dig && !(f->slot == SLOT_PART_TYPE && is_text_type(s)))
			bag_set(&s->part_bag, 0, f->key, sink_digest(&s->dig),
				f->slot == SLOT_PART_MEDIA ? 0 : s->dig.total);
		break;
	case FRAME_MEDIA:
		if (!s->gen)
			break;
		if (f->key == key_hash("url"))          /* {"url": x} is the same as x */
			bag_set(&s->part_bag, 0, f->parent, sink_digest(&s->dig), 0);
		else
			bag_set(&s->part_bag, f->parent, f->key, sink_digest(&s->dig), 0);
		break;
	default:
		break;
	}
}
