/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "prompt/family.h"

#include <string.h>

#define KEYED  (PROMPT_FAM_KEYED | PROMPT_FAM_POST)
#define LOAD   (PROMPT_FAM_LOAD_ONLY | PROMPT_FAM_POST)
#define OPAQUE (PROMPT_FAM_LOAD_ONLY | PROMPT_FAM_OPAQUE | PROMPT_FAM_POST)

static const unsigned int families[PROMPT_FAMILY_MAX] = {
	[PROMPT_FAMILY_CHAT] = KEYED,
	[PROMPT_FAMILY_COMPLETIONS] = KEYED,
	[PROMPT_FAMILY_RESPONSES] = KEYED,
	[PROMPT_FAMILY_MESSAGES] = KEYED | PROMPT_FAM_ANTHROPIC,
	[PROMPT_FAMILY_INVOCATIONS] = KEYED | PROMPT_FAM_INVOKE,
	[PROMPT_FAMILY_GENERATE] = KEYED,
	[PROMPT_FAMILY_TOKENS] = KEYED,
	[PROMPT_FAMILY_LLAMA] = KEYED,
	[PROMPT_FAMILY_OLLAMA] = KEYED,
	[PROMPT_FAMILY_EMBED] = LOAD,
	[PROMPT_FAMILY_MEDIA] = OPAQUE,
	[PROMPT_FAMILY_META] = PROMPT_FAM_LOAD_ONLY | PROMPT_FAM_POST | PROMPT_FAM_GET,
};

static const struct path {
	const char *path;
	enum prompt_family family;
	unsigned int flags;             /* 0: the family's */
} paths[] = {
	{ "/v1/chat/completions", PROMPT_FAMILY_CHAT, 0 },
	{ "/v1/completions", PROMPT_FAMILY_COMPLETIONS, 0 },
	{ "/v1/responses", PROMPT_FAMILY_RESPONSES, 0 },
	{ "/v1/messages", PROMPT_FAMILY_MESSAGES, 0 },
	/* Counts tokens and computes nothing: any node will do. */
	{ "/v1/messages/count_tokens", PROMPT_FAMILY_MESSAGES, LOAD | PROMPT_FAM_ANTHROPIC },
	{ "/invocations", PROMPT_FAMILY_INVOCATIONS, 0 },
	{ "/generate", PROMPT_FAMILY_GENERATE, 0 },
	{ "/generate_stream", PROMPT_FAMILY_GENERATE, 0 },
	{ "/", PROMPT_FAMILY_GENERATE, 0 },
	{ "/inference/v1/generate", PROMPT_FAMILY_TOKENS, 0 },
	{ "/completion", PROMPT_FAMILY_LLAMA, 0 },
	{ "/completions", PROMPT_FAMILY_LLAMA, 0 },
	{ "/infill", PROMPT_FAMILY_LLAMA, 0 },
	{ "/api/chat", PROMPT_FAMILY_OLLAMA, 0 },
	{ "/api/generate", PROMPT_FAMILY_OLLAMA, 0 },
	{ "/v1/embeddings", PROMPT_FAMILY_EMBED, 0 },
	{ "/v1/rerank", PROMPT_FAMILY_EMBED, 0 },
	{ "/v2/rerank", PROMPT_FAMILY_EMBED, 0 },
	{ "/rerank", PROMPT_FAMILY_EMBED, 0 },
	{ "/v1/score", PROMPT_FAMILY_EMBED, 0 },
	{ "/score", PROMPT_FAMILY_EMBED, 0 },
	{ "/classify", PROMPT_FAMILY_EMBED, 0 },
	{ "/v1/classify", PROMPT_FAMILY_EMBED, 0 },
	{ "/pooling", PROMPT_FAMILY_EMBED, 0 },
	{ "/v1/moderations", PROMPT_FAMILY_EMBED, 0 },
	{ "/v1/audio/transcriptions", PROMPT_FAMILY_MEDIA, 0 },
	{ "/v1/audio/translations", PROMPT_FAMILY_MEDIA, 0 },
	{ "/v1/audio/speech", PROMPT_FAMILY_EMBED, 0 },
	{ "/v1/images/generations", PROMPT_FAMILY_EMBED, 0 },
	{ "/v1/images/edits", PROMPT_FAMILY_MEDIA, 0 },
	{ "/v1/files", PROMPT_FAMILY_MEDIA, OPAQUE | PROMPT_FAM_GET },
	{ "/v1/batches", PROMPT_FAMILY_MEDIA, OPAQUE | PROMPT_FAM_GET },
	{ "/v1/models", PROMPT_FAMILY_META, PROMPT_FAM_LOAD_ONLY | PROMPT_FAM_GET },
	{ "/tokenize", PROMPT_FAMILY_META, LOAD },
	{ "/detokenize", PROMPT_FAMILY_META, LOAD },
};

unsigned int prompt_family_flags(enum prompt_family family)
{
	return (unsigned int)family < PROMPT_FAMILY_MAX ? families[family] : 0;
}

enum prompt_family prompt_family_of(const char *path, size_t len, unsigned int *flags)
{
	const char *query = len ? memchr(path, '?', len) : NULL;
	size_t i;

	if (query)
		len = (size_t)(query - path);
	if (flags)
		*flags = 0;
	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const struct path *e = &paths[i];

		if (strlen(e->path) != len || memcmp(e->path, path, len) != 0)
			continue;
		if (flags)
			*flags = e->flags ? e->flags : families[e->family];
		return e->family;
	}
	return PROMPT_FAMILY_NONE;
}

const char *prompt_family_path(size_t i, enum prompt_family *family)
{
	if (i >= sizeof(paths) / sizeof(paths[0]))
		return NULL;
	if (family)
		*family = paths[i].family;
	return paths[i].path;
}
