/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* From JSON events to what the tables of fields.c ask for. Each value that
 * begins is classified by the container and field it stands in, then written to
 * a sink, captured, entered or skipped; when it ends, the container is told.
 * Which values begin where: scan_field.c, scan_message.c, scan_prompt.c. */
#include "prompt/scan.h"

#include <stdlib.h>

#define DEFAULT_MAX_BLOCKS 49152        /* 8 MiB of text and 16k messages */
#define DEFAULT_MAX_CUTS   8192

struct frame *scan_push(struct prompt_scan *s, enum frame_type type)
{
	/* The deepest chain of frames is shorter than FRAMES_MAX (scan.h), whatever the body. */
	struct frame *f = &s->frame[s->nframes++];

	memset(f, 0, sizeof(*f));
	f->type = (uint8_t)type;
	return f;
}

void scan_main_begin(struct prompt_scan *s, struct block_list *list, enum block_kind kind, uint32_t first)
{
	sink_begin(&s->main, list, (uint8_t)kind, first);
	s->main_open = true;
}

void scan_main_end(struct prompt_scan *s)
{
	sink_end(&s->main);
	s->main_open = false;
}

enum action scan_digest(struct prompt_scan *s)
{
	sink_begin(&s->dig, NULL, KIND_DIGEST, PROMPT_BLOCK_BYTES);
	s->gen = &s->dig;
	return ACT_VALUE;
}

void scan_section_reset(struct prompt_scan *s, enum section sec)
{
	block_list_reset(&s->sec[sec], s->lim.max_blocks);
	s->present[sec] = false;
}

bool scan_main_is_empty_array(const struct prompt_scan *s)
{
	static const uint8_t empty[4] = { MARK, MARK_ARRAY, MARK, MARK_ARRAY_E };

	return s->main.total == sizeof(empty) && !memcmp(s->main.buf, empty, sizeof(empty));
}

bool scan_digest_is(const struct prompt_scan *s, const char *text)
{
	size_t n = strlen(text);

	return s->dig.total == n + 2 && !s->dig.emitted && s->dig.buf[1] == MARK_STRING && !memcmp(s->dig.buf + 2, text, n);
}

static enum action value_begin(struct prompt_scan *s, enum value_type t, enum json_prim kind, const struct json_token *num)
{
	struct frame *f;

	s->gen = NULL;
	if (!s->nframes) {
		if (t == VALUE_OBJECT)
			scan_push(s, FRAME_ROOT);
		return t == VALUE_OBJECT ? ACT_ENTERED : ACT_SKIP;
	}
	f = scan_top(s);
	switch (f->type) {
	case FRAME_ROOT: case FRAME_SUB:
		return field_value(s, t, kind, num);
	case FRAME_FLAT:
		return scan_digest(s);
	case FRAME_PROMPT: case FRAME_PROMPT_ITEM:
		return prompt_value(s, t, t == VALUE_PRIM && kind == JSON_NUMBER ? num : NULL);
	default:
		return message_value(s, t, t == VALUE_PRIM && kind == JSON_NULL);
	}
}

static void value_done(struct prompt_scan *s)
{
	struct frame *f;

	if (!s->nframes)
		return;
	f = scan_top(s);
	switch (f->type) {
	case FRAME_ROOT: case FRAME_SUB:
		field_value_done(s);
		break;
	case FRAME_FLAT:
		if (s->gen)
			bag_set(&s->tmpl, f->parent, f->key, sink_digest(&s->dig), 0);
		break;
	case FRAME_PROMPT: case FRAME_PROMPT_ITEM:
		prompt_value_done(s);
		break;
	default:
		message_value_done(s);
	}
	s->gen = NULL;
}

/* One value inside a generic value has ended. */
static void inner_done(struct prompt_scan *s)
{
	if (s->hidden && s->gen_depth == 2) {
		s->hidden = false;
		s->gen = s->gen_saved;
	}
}

static int on_begin(void *ctx, bool array)
{
	struct prompt_scan *s = ctx;
	enum action a;

	if (!s->gen_depth) {
		a = value_begin(s, array ? VALUE_ARRAY : VALUE_OBJECT, JSON_NULL, NULL);
		s->str_act = ACT_SKIP;
		if (a == ACT_ENTERED)
			return 0;
		if (a == ACT_SKIP)
			s->gen = NULL;
	}
	s->gen_depth++;
	if (s->gen)
		sink_mark(s->gen, array ? MARK_ARRAY : MARK_OBJECT);
	return 0;
}

static int on_end(void *ctx, bool array)
{
	struct prompt_scan *s = ctx;
	struct frame *f;

	if (s->gen_depth) {
		if (s->gen)
			sink_mark(s->gen, array ? MARK_ARRAY_E : MARK_OBJECT_E);
		if (--s->gen_depth)
			inner_done(s);
		else
			value_done(s);
		return 0;
	}
	f = scan_top(s);
	switch (f->type) {
	case FRAME_MESSAGES: messages_end(s); break;
	case FRAME_MESSAGE: message_end(s); break;
	case FRAME_PROMPT: case FRAME_PROMPT_ITEM: prompt_end(s); break;
	default: break;
	}
	s->gen = NULL;
	s->str_act = ACT_SKIP;
	s->nframes--;
	value_done(s);
	return 0;
}

static void write_long(struct sink *to, uint8_t mark, const struct json_token *t)
{
	uint64_t v[2] = { t->len, json_token_hash(t) };

	sink_mark(to, mark);
	sink_write(to, v, sizeof(v));
}

static int on_key(void *ctx, const struct json_token *key)
{
	struct prompt_scan *s = ctx;
	struct frame *f;

	if (s->gen_depth) {
		/* Anthropic's cache marks move from turn to turn and are no tokens. */
		if (s->gen && s->gen_depth == 2 && scan_top(s)->slot == SLOT_TOOLS && key->len == 13 &&
		    !memcmp(key->buf, "cache_control", 13)) {
			s->hidden = true;
			s->gen_saved = s->gen;
			s->gen = NULL;
		}
		if (!s->gen)
			return 0;
		if (key->len > JSON_TOKEN_MAX) {
			write_long(s->gen, MARK_KEY_HASH, key);
		} else {
			sink_mark(s->gen, MARK_KEY);
			sink_write(s->gen, key->buf, key->fill);
		}
		return 0;
	}
	f = scan_top(s);
	switch (f->type) {
	case FRAME_ROOT:
		f->slot = (uint8_t)field_slot(FIELDS_ROOT, s->family, key);
		break;
	case FRAME_SUB:
		f->slot = (uint8_t)field_slot(f->table, s->family, key);
		break;
	case FRAME_MESSAGE:
		f->slot = (uint8_t)field_slot(FIELDS_MESSAGE, s->family, key);
		break;
	case FRAME_PART:
		f->slot = (uint8_t)field_slot(FIELDS_PART, s->family, key);
		break;
	default:
		f->slot = SLOT_SKIP;
	}
	f->key = json_token_hash(key);
	return 0;
}

static int on_str_begin(void *ctx)
{
	struct prompt_scan *s = ctx;

	s->str_inner = s->gen_depth > 0;
	if (s->str_inner) {
		s->str_act = s->gen ? ACT_TEXT : ACT_SKIP;
		if (s->gen)
			sink_mark(s->gen, MARK_STRING);
		return 0;
	}
	s->str_act = value_begin(s, VALUE_STRING, JSON_NULL, NULL);
	if (s->str_act == ACT_VALUE)
		sink_mark(s->gen, MARK_STRING);
	else if (s->str_act == ACT_MEDIA)
		media_begin(&s->media, &s->dig);
	return 0;
}

static void model_chunk(struct prompt_info *info, const uint8_t *p, size_t n)
{
	if (n > PROMPT_MODEL_MAX - info->model_len || memchr(p, 0, n))
		info->model_too_long = true;
	if (info->model_too_long)
		return;
	memcpy(info->model + info->model_len, p, n);
	info->model_len += (uint32_t)n;
}

/* All of a first text's start is here. */
static void first_text_done(struct prompt_scan *s)
{
	uint8_t out[HEADS_TEXT_MAX];

	s->first_on = false;
	sink_write(s->gen, out, heads_remove(s->lim.volatile_heads, s->lim.n_volatile_heads, s->first, s->first_n, out));
}

/* Keeps the start of a first text back. Returns how many bytes it took. */
static size_t first_text(struct prompt_scan *s, const uint8_t *p, size_t n)
{
	size_t k = HEADS_TEXT_MAX - s->first_n < n ? HEADS_TEXT_MAX - s->first_n : n;

	memcpy(s->first + s->first_n, p, k);
	s->first_n += (uint32_t)k;
	if (s->first_n == HEADS_TEXT_MAX)
		first_text_done(s);
	return k;
}

static int on_str_chunk(void *ctx, const uint8_t *p, size_t n)
{
	struct prompt_scan *s = ctx;
	size_t kept;

	switch (s->str_act) {
	case ACT_VALUE: case ACT_TEXT:
		if (s->head_on && !s->str_inner && s->head_n < HEAD_MAX) {
			size_t k = HEAD_MAX - s->head_n < n ? HEAD_MAX - s->head_n : n;

			memcpy(s->head + s->head_n, p, k);
			s->head_n += (uint32_t)k;
		}
		kept = s->first_on ? first_text(s, p, n) : 0;
		sink_write(s->gen, p + kept, n - kept);
		break;
	case ACT_MEDIA:
		media_chunk(&s->media, p, n);
		break;
	case ACT_MODEL:
		model_chunk(&s->info, p, n);
		break;
	default:
		break;
	}
	return 0;
}

static int on_str_end(void *ctx)
{
	struct prompt_scan *s = ctx;

	if (s->str_inner) {
		inner_done(s);
		return 0;
	}
	if (s->first_on)
		first_text_done(s);
	if (s->str_act == ACT_MEDIA)
		media_end(&s->media);
	value_done(s);
	return 0;
}

static void write_prim(struct sink *to, enum json_prim kind, const struct json_token *number)
{
	switch (kind) {
	case JSON_NULL: sink_mark(to, MARK_NULL); break;
	case JSON_TRUE: sink_mark(to, MARK_TRUE); break;
	case JSON_FALSE: sink_mark(to, MARK_FALSE); break;
	case JSON_NUMBER:
		if (number->len > JSON_TOKEN_MAX) {
			write_long(to, MARK_NUM_HASH, number);
			break;
		}
		sink_mark(to, MARK_NUMBER);
		sink_write(to, number->buf, number->fill);
	}
}

static int on_prim(void *ctx, enum json_prim kind, const struct json_token *number)
{
	struct prompt_scan *s = ctx;

	if (s->gen_depth) {
		if (s->gen)
			write_prim(s->gen, kind, number);
		inner_done(s);
		return 0;
	}
	s->str_act = ACT_SKIP;
	if (value_begin(s, VALUE_PRIM, kind, number) == ACT_VALUE)
		write_prim(s->gen, kind, number);
	value_done(s);
	return 0;
}

static const struct json_ops ops = {
	.begin = on_begin,
	.end = on_end,
	.key = on_key,
	.str_begin = on_str_begin,
	.str_chunk = on_str_chunk,
	.str_end = on_str_end,
	.prim = on_prim,
};

struct prompt_scan *prompt_scan_new(void)
{
	return calloc(1, sizeof(struct prompt_scan));
}

void prompt_scan_free(struct prompt_scan *s)
{
	int i;

	if (!s)
		return;
	for (i = 0; i < SEC_MAX; i++)
		block_list_free(&s->sec[i]);
	block_list_free(&s->msg);
	free(s);
}

void prompt_scan_begin(struct prompt_scan *s, enum prompt_family family, const struct prompt_limits *limits)
{
	struct block_list sec[SEC_MAX], msg = s->msg;
	const size_t keep = offsetof(struct prompt_scan, media), on = offsetof(struct prompt_scan, part_bag) + sizeof(s->part_bag);
	int i;

	memcpy(sec, s->sec, sizeof(sec));
	memset(s, 0, keep);
	memset((char *)s + on, 0, sizeof(*s) - on);
	bag_reset(&s->salt);
	bag_reset(&s->tmpl);
	bag_reset(&s->trailer);
	bag_reset(&s->msg_bag);
	bag_reset(&s->part_bag);
	s->family = family;
	s->lim.max_blocks = limits && limits->max_blocks ? limits->max_blocks : DEFAULT_MAX_BLOCKS;
	s->lim.max_cuts = limits && limits->max_cuts ? limits->max_cuts : DEFAULT_MAX_CUTS;
	if (limits) {
		s->lim.volatile_heads = limits->volatile_heads;
		s->lim.n_volatile_heads = limits->n_volatile_heads;
	}
	memcpy(s->sec, sec, sizeof(sec));
	s->msg = msg;
	for (i = 0; i < SEC_MAX; i++)
		block_list_reset(&s->sec[i], s->lim.max_blocks);
	block_list_reset(&s->msg, s->lim.max_blocks);
	s->max_new = s->max_old = -1;
	s->info.max_tokens = s->info.id_slot = -1;
	s->info.n = 1;
	json_begin(&s->js, &ops, s);
}

void prompt_scan_feed(struct prompt_scan *s, const void *data, size_t n)
{
	json_feed(&s->js, data, n);     /* what isn't JSON is remembered there, and asked for at the end */
}

void prompt_scan_end(struct prompt_scan *s, bool truncated)
{
	struct prompt_info *info = &s->info;

	info->truncated = truncated;
	info->json = json_complete(&s->js);
	if (!info->json && truncated && s->js.rc == 0 && s->nframes) {
		/* A body longer than what may be scanned: what is there is a valid start of the prompt. */
		info->json = true;
		s->cut = true;
		if (json_in_string(&s->js))
			on_str_end(s);
		while (s->gen_depth || s->nframes)
			on_end(s, false);
	}
	info->max_tokens = s->max_new >= 0 ? s->max_new : s->max_old;
	info->has_assistant = s->present[SEC_MESSAGES] && s->any_assistant;
	info->has_media = s->tmpl_media || (s->present[SEC_MESSAGES] && s->any_media);
	info->shape = PROMPT_SHAPE_NONE;
	if (!info->json)
		return;
	if (s->present[SEC_MESSAGES])
		info->shape = PROMPT_SHAPE_CHAT;
	else if (s->present[SEC_PROMPT])
		info->shape = s->saw_other || (s->saw_text && s->saw_ids) ? PROMPT_SHAPE_MIXED :
			      s->saw_ids ? PROMPT_SHAPE_TOKENS : PROMPT_SHAPE_TEXT;
}

const struct prompt_info *prompt_scan_info(const struct prompt_scan *s)
{
	return &s->info;
}
