/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which API a request speaks, by its path. The table is the list of paths
 * that the gateway forwards; what is not in it is refused there. */
#ifndef KVSTEER_PROMPT_FAMILY_H
#define KVSTEER_PROMPT_FAMILY_H
#include <stddef.h>
#include <stdint.h>

enum prompt_family {
	PROMPT_FAMILY_NONE,             /* not an inference path */
	PROMPT_FAMILY_CHAT,             /* /v1/chat/completions */
	PROMPT_FAMILY_COMPLETIONS,      /* /v1/completions */
	PROMPT_FAMILY_RESPONSES,        /* /v1/responses */
	PROMPT_FAMILY_MESSAGES,         /* Anthropic /v1/messages, and its count_tokens */
	PROMPT_FAMILY_INVOCATIONS,      /* SageMaker /invocations: any shape */
	PROMPT_FAMILY_GENERATE,         /* /generate, /generate_stream, /: TGI, LMI and SGLang by shape */
	PROMPT_FAMILY_TOKENS,           /* vLLM /inference/v1/generate */
	PROMPT_FAMILY_LLAMA,            /* llama.cpp /completion(s), /infill */
	PROMPT_FAMILY_OLLAMA,           /* /api/chat, /api/generate */
	PROMPT_FAMILY_EMBED,            /* embeddings, rerank, score, classify, pooling */
	PROMPT_FAMILY_MEDIA,            /* multipart audio, images, files, batches */
	PROMPT_FAMILY_META,             /* models, tokenize: no inference */
	PROMPT_FAMILY_MAX
};

#define PROMPT_FAM_KEYED     0x01u      /* the scanner finds a prompt key in the body */
#define PROMPT_FAM_LOAD_ONLY 0x02u      /* no KV affinity: route by model and load (no key) */
#define PROMPT_FAM_OPAQUE    0x04u      /* the body need not be JSON: neither scan nor buffer it */
#define PROMPT_FAM_ANTHROPIC 0x08u      /* errors have Anthropic's shape */
#define PROMPT_FAM_GET       0x10u      /* GET is allowed (and HEAD) */
#define PROMPT_FAM_POST      0x20u      /* POST is allowed */
#define PROMPT_FAM_INVOKE    0x40u      /* prefix_aware hashes raw body bytes, not message text */

/* Flags of a family (PROMPT_FAM_*); 0 for PROMPT_FAMILY_NONE. */
unsigned int prompt_family_flags(enum prompt_family family);

/* The family of `path[0..len)`: exact match, case-sensitive; a query string ("?...") is ignored.
 * Returns PROMPT_FAMILY_NONE where the table has no such path. `flags`, if not NULL, gets the
 * path's flags, which may be narrower than the family's. */
enum prompt_family prompt_family_of(const char *path, size_t len, unsigned int *flags);

/* The i-th path of the table, NULL after the last: for documentation and tests. */
const char *prompt_family_path(size_t i, enum prompt_family *family);
#endif
