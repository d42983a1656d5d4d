/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the generator wants to know from an answer: usage, the text (for the
 * next turn of a conversation), errors inside a stream. The JSON is searched
 * for keys, not parsed: inside a JSON string every quote is escaped, so the
 * bytes `"usage":` can only be a key. Some 30,000 events a second pass here. */
#ifndef KVSTEER_LOAD_ANSWER_H
#define KVSTEER_LOAD_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_ANSWER_TEXT_MAX (1u << 20)

struct load_answer {
	int64_t prompt_tokens; /* -1 until reported */
	int64_t output_tokens;
	int64_t cached_tokens;
	bool error;       /* an "error" object in place of a token */
	bool keep_text;   /* collect the text */
	bool text_cut;    /* it was longer than LOAD_ANSWER_TEXT_MAX or memory ran out */
	char *text;       /* owned; still escaped as in the JSON, so fit to be put back into one */
	size_t text_len;
	size_t text_cap;
};

/* Makes a used (or zeroed) answer ready and keeps its memory. */
void load_answer_reset(struct load_answer *a, bool keep_text);
void load_answer_free(struct load_answer *a);
/* Reads one JSON text: a stream's event or the whole answer. Returns whether it carried
 * a non-empty piece of the generated text. */
bool load_answer_scan(struct load_answer *a, const char *json, size_t len);
#endif
