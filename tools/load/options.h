/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The command line of kvsteer-load. */
#ifndef KVSTEER_LOAD_OPTIONS_H
#define KVSTEER_LOAD_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LOAD_MAX_CONNECTIONS 10000u
#define LOAD_MAX_HEADERS 16
#define LOAD_MAX_MODELS 256
#define LOAD_NAME_MAX 256

enum load_kind {
	LOAD_SUPPORT,
	LOAD_LONG8K,
	LOAD_CHAT,
	LOAD_HOT,
	LOAD_BURST,
	LOAD_SHAREGPT,
	LOAD_LORA,
	LOAD_TRACE,
};

enum load_api { LOAD_API_CHAT, LOAD_API_COMPLETIONS, LOAD_API_INVOCATIONS };

/* The shape of a workload; every value can be set by a flag. Token counts are means. */
struct load_shape {
	uint32_t prefixes;       /* 0: prompts share nothing */
	uint32_t prefix_tokens;
	double zipf;
	double hot_share;        /* of the requests go to prefix 0, the rest by Zipf to the others */
	uint32_t question_tokens;
	uint32_t output_tokens;
	double sigma;            /* of both lognormal lengths; 0: always the mean */
	double turns;            /* of a conversation (geometric); 0: single requests */
	double think_s;          /* mean pause between turns */
};

struct load_options {
	char host[LOAD_NAME_MAX];
	char port[8];
	char path[LOAD_NAME_MAX];    /* before the API's path, without a trailing slash or /v1 */
	const char *models[LOAD_MAX_MODELS]; /* the model, or the adapters */
	uint32_t n_models;
	enum load_kind kind;
	const char *workload;        /* its name as given */
	const char *trace_file;
	enum load_api api;
	struct load_shape shape;
	double rate;                 /* requests/s; 0: closed loop, or the trace's own stamps */
	bool poisson;
	uint32_t concurrency;        /* clients of the closed loop; 0: open loop */
	double duration_s;           /* 0: not bounded by time */
	uint64_t requests;           /* 0: not bounded by number */
	double warmup_s;
	bool stream;
	double time_scale;
	double timeout_s;
	uint64_t seed;
	const char *json_file;
	const char *headers[LOAD_MAX_HEADERS];
	uint32_t n_headers;
	char *adapter_names;         /* owned: what models[] points into */
};

/* The default shape of a workload. */
struct load_shape load_shape_default(enum load_kind kind);
/* Returns 0; 1 when --help or --version was served on `out`; -EINVAL after a message on `err`
 * that names the flag, what was given and what is allowed. Keeps pointers into argv. */
int load_options_parse(struct load_options *o, int argc, char **argv, FILE *out, FILE *err);
void load_options_free(struct load_options *o);
#endif
