/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scanner's inside, shared by scan.c (values), scan_field.c (the body's own
 * fields), scan_message.c (messages and their parts), scan_prompt.c (prompts
 * that are not messages) and key.c (the chain). */
#ifndef KVSTEER_PROMPT_SCAN_H
#define KVSTEER_PROMPT_SCAN_H
#include "prompt/bag.h"
#include "prompt/fields.h"
#include "prompt/heads.h"
#include "prompt/json.h"
#include "prompt/media.h"
#include "prompt/sink.h"

/* Structured containers that the scanner is inside of; everything else is a generic value. */
enum frame_type {
	FRAME_ROOT,             /* the body */
	FRAME_SUB,              /* an object with a table of its own (stream_options, ...) */
	FRAME_FLAT,             /* an object of unordered fields that go to a bag (chat_template_kwargs) */
	FRAME_MESSAGES, FRAME_MESSAGE, FRAME_PARTS, FRAME_PART,
	FRAME_MEDIA,            /* image_url: {url, detail} */
	FRAME_PROMPT,           /* array of strings, ids or arrays */
	FRAME_PROMPT_ITEM,      /* array inside that */
};

struct frame {
	uint8_t type;
	uint8_t slot;           /* of the field whose value is being read */
	uint8_t table;          /* FRAME_SUB: enum field_table */
	uint64_t parent;        /* FRAME_FLAT, FRAME_MEDIA: hash of the object's own key */
	uint64_t key;           /* hash of the field's key */
};

#define FRAMES_MAX 8            /* root, messages, message, parts, part, media: 6 */

enum value_type { VALUE_STRING, VALUE_PRIM, VALUE_OBJECT, VALUE_ARRAY };

/* What to do with a value that begins. */
enum action {
	ACT_SKIP,
	ACT_VALUE,              /* canonical with type marks, into s->gen */
	ACT_TEXT,               /* a string's bytes as they are, into s->gen */
	ACT_MEDIA,              /* a string that may be a URL or a data: URI, into s->dig */
	ACT_MODEL,
	ACT_ENTERED,            /* a frame was pushed for it */
};

/* The parts of the chain, in its order. */
enum section { SEC_TOOLS, SEC_FUNCTIONS, SEC_SYSTEM, SEC_SUFFIX, SEC_MESSAGES, SEC_PROMPT, SEC_MAX };

/* The streamed fields of a message, in the order in which templates print them. */
enum msg_field { MSG_REASONING, MSG_CONTENT, MSG_TOOL_CALLS, MSG_ARGUMENTS, MSG_OUTPUT, MSG_FIELDS };

struct msg_range {
	uint32_t start, end;    /* blocks of scan->msg */
	bool present;
};

#define MSG_FIRST_BLOCK 232     /* leaves a first block room for its message's header */
#define MSG_OVERHEAD    4       /* bytes that the template's own marks around a message weigh */
#define MEDIA_BYTES     2048    /* weight of an image or the like: 512 tokens */
#define HEAD_MAX        32      /* start of a text that is looked at for volatile heads */

struct prompt_scan {
	struct json_scan js;
	enum prompt_family family;
	struct prompt_limits lim;
	struct prompt_info info;
	int64_t max_new, max_old;
	bool cut;               /* closing what a truncated body left open */

	struct frame frame[FRAMES_MAX];
	int nframes;

	/* the value being read */
	uint32_t gen_depth;     /* containers open inside a generic value */
	bool hidden;            /* a key inside it is being ignored */
	struct sink *gen;       /* where it goes; NULL: nowhere */
	struct sink *gen_saved;
	enum action str_act;    /* for the current string */
	bool str_inner;         /* the string is inside a generic value */
	bool main_open;         /* s->main has an unfinished stream */

	struct sink main;       /* blocks of the chain */
	struct sink dig;        /* digests */

	/* large, and not cleared between requests: media_begin() and bag_reset() are enough */
	struct media media;
	uint8_t first[HEADS_TEXT_MAX];  /* start of a text that may have volatile heads */
	struct bag salt, tmpl, trailer, msg_bag, part_bag;

	struct block_list sec[SEC_MAX];
	bool present[SEC_MAX];
	uint8_t prompt_rank;    /* which of several prompt fields won */

	/* messages */
	struct block_list msg;
	struct msg_range field[MSG_FIELDS];
	bool msg_open;
	bool msg_assistant, any_assistant;
	bool msg_media, any_media, tmpl_media;
	uint64_t fold_hash;     /* messages that share a block (limits.max_cuts) */
	uint32_t fold_bytes;
	uint8_t fold_flags;

	/* parts of a content */
	uint32_t nparts;
	bool part_text, part_has_media;
	bool in_system;
	struct sink_pos part_start;     /* behind the separator */
	struct sink_pos part_before;    /* before it */

	/* start of a system text */
	uint8_t head[HEAD_MAX];
	uint32_t head_n;
	bool head_on;

	/* start of a text that may have volatile heads of the configured kind */
	bool first_on;
	uint32_t first_n;
	bool first_message;     /* the message being read is the first one */
	uint32_t nmessages;

	/* prompts */
	uint32_t items;                 /* top-level items so far */
	uint32_t first_end;             /* blocks of the first item */
	bool run_open;
	bool saw_text, saw_ids, saw_other;
	uint32_t run_start;
};

/* scan.c */
struct frame *scan_push(struct prompt_scan *s, enum frame_type type);
static inline struct frame *scan_top(struct prompt_scan *s)
{
	return &s->frame[s->nframes - 1];
}
void scan_main_begin(struct prompt_scan *s, struct block_list *list, enum block_kind kind, uint32_t first);
void scan_main_end(struct prompt_scan *s);
/* Resets s->dig and makes it the target of the value that begins. */
enum action scan_digest(struct prompt_scan *s);
void scan_section_reset(struct prompt_scan *s, enum section sec);
/* True where s->main holds nothing but an empty array. */
bool scan_main_is_empty_array(const struct prompt_scan *s);
/* True where s->dig is the string `text`. */
bool scan_digest_is(const struct prompt_scan *s, const char *text);

/* scan_field.c: values that begin and end in FRAME_ROOT and FRAME_SUB */
enum action field_value(struct prompt_scan *s, enum value_type t, enum json_prim kind, const struct json_token *num);
void field_value_done(struct prompt_scan *s);

/* scan_message.c: values that begin and end inside FRAME_MESSAGES, MESSAGE, PARTS, PART, MEDIA */
void message_begin(struct prompt_scan *s);
void message_end(struct prompt_scan *s);
void messages_begin(struct prompt_scan *s);
void messages_end(struct prompt_scan *s);
enum action message_value(struct prompt_scan *s, enum value_type t, bool null);
void message_value_done(struct prompt_scan *s);
void message_text_field(struct prompt_scan *s, enum msg_field f);
void message_field_done(struct prompt_scan *s, enum msg_field f);
void message_role(struct prompt_scan *s, const char *role);
void parts_begin(struct prompt_scan *s, bool in_system);
void part_end(struct prompt_scan *s);
void system_text_begin(struct prompt_scan *s);
bool system_text_is_volatile(const struct prompt_scan *s);

/* The string that begins is one of the prompt's first texts: its start is kept back until it is known
 * whether it has volatile heads. */
static inline void scan_first_text(struct prompt_scan *s)
{
	s->first_on = s->lim.n_volatile_heads > 0;
	s->first_n = 0;
}

/* scan_prompt.c */
enum action prompt_value(struct prompt_scan *s, enum value_type t, const struct json_token *number);
void prompt_value_done(struct prompt_scan *s);
void prompt_begin(struct prompt_scan *s);
void prompt_end(struct prompt_scan *s);
#endif
