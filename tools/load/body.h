/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Bytes of requests. The prefixes are written once; a request shares them by
 * iovec and formats only its head and its question. */
#ifndef KVSTEER_LOAD_BODY_H
#define KVSTEER_LOAD_BODY_H
#include <stddef.h>
#include <stdint.h>

#include "load/call.h"
#include "load/options.h"

#define LOAD_NO_PREFIX UINT32_MAX

struct load_body {
	const struct load_options *o;
	char *prefix_text;    /* owned: prefixes one after the other */
	size_t prefix_bytes;  /* of one */
	char *head;           /* owned: request line and fields up to the content length */
	size_t head_len;
	/* JSON between the texts, by API and workload */
	const char *open_system, *open_user, *next_user, *next_assistant, *tail;
};

struct load_prompt {
	uint32_t model;          /* index into the options' models */
	uint32_t prefix;         /* or LOAD_NO_PREFIX */
	uint32_t output_tokens;
	/* The rest of the prompt, one of three: */
	const char *history;     /* a conversation so far, kept by the caller until the call ends */
	size_t history_len;
	uint32_t question_tokens;
	uint64_t question_key;
	const uint64_t *blocks;  /* a trace's ids; text of the last one is cut */
	uint32_t block_tokens;   /* tokens of all of them */
};

/* Writes the prefixes. Keeps `o`. Returns 0 or -ENOMEM. */
int load_body_init(struct load_body *b, const struct load_options *o);
void load_body_free(struct load_body *b);
/* Gives the call its bytes. Returns 0 or -ENOMEM. */
int load_body_make(const struct load_body *b, const struct load_prompt *p, struct load_call *call);
#endif
