/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The prompt room: from a request body, as it streams in, to what routing
 * needs: the model, a few fields, and the prompt key (a chain of block hashes
 * over the canonical prompt). Pure: no I/O, no clock, no globals. Nothing here
 * keeps or prints prompt text.
 *
 *     prompt_scan_begin(scan, family, &limits);
 *     while (body arrives)
 *             prompt_scan_feed(scan, p, n);
 *     prompt_scan_end(scan, truncated);
 *     info = prompt_scan_info(scan);               model -> pool, base, adapter
 *     prompt_key_build(scan, &params, iov, n, &key);
 *     ...
 *     prompt_key_free(&key);
 */
#ifndef KVSTEER_PROMPT_PROMPT_H
#define KVSTEER_PROMPT_PROMPT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "prompt/family.h"

#define PROMPT_BLOCK_BYTES 256          /* canonical bytes of a full block */
#define PROMPT_MAX_DEPTH   128          /* JSON nesting; deeper is keyed by its raw bytes */
#define PROMPT_MODEL_MAX   256          /* decoded bytes of a model name */

struct prompt_limits {
	uint32_t max_blocks;            /* blocks of a key; the rest is folded into the last. 0: 49152 */
	uint32_t max_cuts;              /* from this block on, messages share blocks of at least
	                                 * PROMPT_BLOCK_BYTES instead of starting their own. 0: 8192 */
	const char *const *volatile_heads; /* patterns of what the key leaves out at the start of the prompt's
	                                 * first texts (heads.h); must live until prompt_scan_end() */
	unsigned n_volatile_heads;
};

/* What the prompt looked like. */
enum prompt_shape {
	PROMPT_SHAPE_NONE,              /* no prompt found: the key is made of the raw bytes */
	PROMPT_SHAPE_CHAT,              /* messages, or items of a Responses input */
	PROMPT_SHAPE_TEXT,              /* one string */
	PROMPT_SHAPE_TOKENS,            /* token ids */
	PROMPT_SHAPE_MIXED,             /* llama.cpp: strings and ids in one array */
};

/* Valid from prompt_scan_end until the next begin (model fields: as soon as they were read). A hash
 * of 0 means: field absent. */
struct prompt_info {
	enum prompt_shape shape;
	bool json;                      /* one well-formed JSON object, or a truncated start of one */
	bool truncated;                 /* the body goes on beyond what was fed */
	bool has_assistant;             /* at least one assistant turn */
	bool has_media;                 /* image, audio, video or file parts */
	bool has_salt;                  /* cache_salt or extra_key: the key is salted with it */
	bool batch;                     /* several prompts: the key is the first one's */

	bool has_model;                 /* a string: model[0..model_len), decoded, NUL-terminated */
	bool model_too_long;            /* longer than PROMPT_MODEL_MAX, or with a NUL inside: has_model is false */
	char model[PROMPT_MODEL_MAX + 1];
	uint32_t model_len;
	uint64_t model_off;             /* its JSON text in the body, both quotes included: */
	uint64_t model_raw_len;         /* replace body[model_off .. +model_raw_len) to rewrite it */

	bool has_stream, stream;        /* `stream` is false where absent */
	bool include_usage;             /* stream_options.include_usage is true */
	int64_t max_tokens;             /* max_completion_tokens, max_tokens, max_output_tokens, max_new_tokens,
	                                 * n_predict, num_predict: -1 where absent or not a number */
	int64_t n;                      /* answers asked for; 1 where absent */
	int64_t id_slot;                /* llama.cpp's slot pin; -1 where absent */

	uint64_t cache_key_hash;        /* prompt_cache_key: may replace the placement key only */
	uint64_t user_hash;             /* user, or metadata.user_id */
	uint64_t session_hash;          /* SGLang session_params.id */
	uint64_t previous_hash;         /* previous_response_id or conversation: history lives in the backend;
	                                 * equals prompt_id_hash(id) */
};

struct prompt_scan;                     /* one request's scanner: 10 KiB, and 16 bytes a block */

/* A new scanner, or NULL without memory. Reusable for any number of requests; not shared by threads. */
struct prompt_scan *prompt_scan_new(void);
void prompt_scan_free(struct prompt_scan *scan);
/* Starts a body of `family` (flags PROMPT_FAM_KEYED or LOAD_ONLY; others scan the model only).
 * `limits` may be NULL. Drops everything of the request before; large buffers are given back. */
void prompt_scan_begin(struct prompt_scan *scan, enum prompt_family family, const struct prompt_limits *limits);
/* The next `n` bytes of the body, split anywhere. Keeps no pointer to them. Never fails: what isn't JSON
 * is found out here and keyed by its raw bytes later. */
void prompt_scan_feed(struct prompt_scan *scan, const void *data, size_t n);
/* The end of the body; `truncated` where more of it will be forwarded unseen (limits.scan). */
void prompt_scan_end(struct prompt_scan *scan, bool truncated);
/* What was found; owned by the scanner. */
const struct prompt_info *prompt_scan_info(const struct prompt_scan *scan);

#define PROMPT_BLOCK_MESSAGE_START 0x01u /* first block of a message (or of the prompt) */
#define PROMPT_BLOCK_ASSISTANT     0x02u /* the block belongs to an assistant turn */
#define PROMPT_BLOCK_TRAILER       0x04u /* last block of things after the prompt (response_format): not a
                                          * part of the next turn's chain; never insert answers behind it */

/* The chain. hash[i] covers blocks 0..i, the model, salt and hint: equal hashes mean equal prompts up to
 * and with block i. bytes[i] estimates the block's size (4 bytes a token for token ids, a nominal size
 * for media); the arrays share one allocation. */
struct prompt_key {
	uint32_t nblocks;               /* at least 1 */
	bool raw;                       /* made of the body's raw bytes */
	uint8_t class_id;               /* 1: the prompt has assistant turns, else 0 (routing's pi[class]) */
	uint64_t total_bytes;           /* sum of bytes[] */
	uint64_t *hash;
	uint16_t *bytes;
	uint8_t *flags;                 /* PROMPT_BLOCK_* */
};

struct prompt_key_params {
	const char *model;              /* canonical: the adapter's or base model's name after aliases; or NULL */
	const void *hint;               /* X-Amzn-SageMaker-Prefix-Aware-Id; salts every hash; NULL if none */
	size_t hint_len;
	const void *tenant;             /* cache_isolation: tenant; salts every hash; NULL if none */
	size_t tenant_len;
};

/* Builds the key of a body after prompt_scan_end. Where the scan found no prompt in it (not JSON, no known
 * shape), the key is made of the raw bytes in `iov`, the body or its start (may be NULL with niov 0: then
 * one block that stands for the model alone). Returns 0 or -ENOMEM; on error *out is zeroed. Free with
 * prompt_key_free. May be called again with other params. */
int prompt_key_build(const struct prompt_scan *scan, const struct prompt_key_params *params,
                     const struct iovec *iov, int niov, struct prompt_key *out);
/* The raw-bytes key alone. `max_blocks` 0: the default of struct prompt_limits. */
int prompt_key_build_raw(const struct iovec *iov, int niov, const struct prompt_key_params *params,
                         uint32_t max_blocks, struct prompt_key *out);
void prompt_key_free(struct prompt_key *key);

/* The single hash of policy prefix_aware (SageMaker's semantics): the first `prefix_length` bytes of the raw
 * body on the Invoke path (PROMPT_FAM_INVOKE), else the first `prefix_length` characters (code points) of
 * the prompt's text: contents of the messages, system, instructions, prompt, input, in document order. A
 * body without such text is hashed by its raw bytes. Stops reading as soon as it has enough. `hint` salts. */
uint64_t prompt_prefix_hash(const struct iovec *iov, int niov, enum prompt_family family,
                            uint32_t prefix_length, const void *hint, size_t hint_len);

/* The hash of an id as in prompt_info: for tables keyed by response, session or cache ids. Never 0. */
uint64_t prompt_id_hash(const void *id, size_t len);
#endif
