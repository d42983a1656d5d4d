/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "signals/refusal.h"

#include <string.h>
#include <strings.h>

static const struct {
	const char *text;
	enum refusal meaning;
} messages[] = {
	{ "loading model", REFUSAL_LOADING },          /* llama.cpp */
	{ "model is loading", REFUSAL_LOADING },
	{ "currently busy", REFUSAL_BUSY },            /* vLLM: "The engine is currently busy and cannot accept ..." */
	{ "no slot available", REFUSAL_BUSY },         /* llama.cpp */
	{ "queue is full", REFUSAL_BUSY },             /* SGLang: "The request queue is full." */
	{ "model is overloaded", REFUSAL_BUSY },       /* TGI */
	{ "too many requests", REFUSAL_BUSY },
};

enum refusal refusal_of_503(const char *body, size_t len)
{
	for (unsigned i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		size_t n = strlen(messages[i].text);

		for (size_t at = 0; at + n <= len; at++)
			if (!strncasecmp(body + at, messages[i].text, n))
				return messages[i].meaning;
	}
	return REFUSAL_BROKEN;
}
