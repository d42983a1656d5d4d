/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What inference engines call their load counters, and how one document of
 * /metrics becomes one `struct signal_sample`. Pure: no sockets, no clock. */
#ifndef KVSTEER_SIGNALS_ENGINE_H
#define KVSTEER_SIGNALS_ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "signals/prom_text.h"

enum engine_kind {
	ENGINE_AUTO, /* not known (yet): recognised from the metric names */
	ENGINE_VLLM,
	ENGINE_SGLANG,
	ENGINE_TRTLLM, /* trtllm-serve */
	ENGINE_TRITON, /* Triton with the TensorRT-LLM backend */
	ENGINE_LLAMACPP,
	ENGINE_KINDS,
};

/* "auto", "vllm", "sglang", "trtllm", "triton", "llamacpp". */
const char *engine_kind_name(enum engine_kind kind);
/* The kind named `name` ("llama.cpp" too), or -EINVAL. */
int engine_kind_from_name(const char *name);

#define SIGNAL_ADAPTERS_MAX 64
#define SIGNAL_ADAPTER_NAME_MAX 128 /* with the NUL; a longer name is left out and `adapters_partial` set */

struct signal_adapter {
	char name[SIGNAL_ADAPTER_NAME_MAX];
	bool running; /* else waiting; one that is both is running */
};

/* One reading of a backend. Counts are summed over the engine's ranks (the
 * data-parallel `engine="0"`, `engine="1"` series), kv_used is their mean. */
struct signal_sample {
	enum engine_kind engine;
	bool has_load;               /* waiting and running were both there */
	uint32_t waiting;            /* requests queued in the engine */
	uint32_t running;            /* requests being served */
	double kv_used;              /* share of the KV cache in use, 0..1; < 0: the engine does not say */
	uint64_t kv_capacity_tokens; /* 0: not known */
	bool kv_capacity_bound;      /* the figure is the most it may be, not what it is (llama.cpp) */
	uint32_t block_size_tokens;  /* granularity of cache hits; 0: not known */
	bool adapters_known;         /* the engine reports adapters at all */
	bool adapters_partial;       /* more than fit here */
	uint32_t n_adapters;
	struct signal_adapter adapters[SIGNAL_ADAPTERS_MAX]; /* in use now: absence is not "not loaded" */
	uint32_t max_lora;           /* adapters resident at once; 0: not known */
	bool has_prefix_counters;
	double prefix_queries_tokens; /* counters since the engine's start */
	double prefix_hits_tokens;
	bool restarted;              /* the engine's process is another one than at the reading before: cache empty */
};

/* What must be remembered of one backend from reading to reading. Zeroed = nothing known. */
struct engine_memory {
	enum engine_kind kind;    /* once recognised */
	bool has_progress;
	double progress;          /* sum of the engine's own monotonic counters */
	double process_start;     /* process_start_time_seconds, 0 when absent */
	uint64_t props_capacity_tokens; /* from /props (llama.cpp) */
};

/* One document being read. About 30 KiB: one per target, on the heap. */
struct engine_reader {
	struct prom_parser parser;
	enum engine_kind hint;
	/* private to engine.c */
	enum engine_kind seen;
	struct engine_sums {
		double waiting, running, kv, prefix_queries, prefix_hits, progress, start;
		double blocks, capacity_tokens;
		unsigned n_waiting, n_running, n_kv, n_queries, n_hits, n_progress;
		uint32_t block_size;
		double lora_stamp;
		bool lora_seen;
	} sums[ENGINE_KINDS];
	struct signal_sample sample;
};

/* Begins a document. `hint`: the configured engine, or ENGINE_AUTO. */
void engine_reader_init(struct engine_reader *r, enum engine_kind hint);
/* The next bytes of the answer's body, cut anywhere. */
void engine_reader_feed(struct engine_reader *r, const char *data, size_t len);
/* The end of the body: fills *out and updates *memory. Returns 0; -EBADMSG when
 * this is no metrics document; -ENOENT when it holds none of the load counters
 * of a known engine (or of the hinted one). On failure *memory is untouched. */
int engine_reader_finish(struct engine_reader *r, struct engine_memory *memory, struct signal_sample *out);

/* True when `kind` tells its KV capacity on /props only, and memory has none yet. */
bool engine_wants_props(const struct engine_memory *memory);
/* Reads the JSON body of llama.cpp's /props into *memory. Returns 0 or -EBADMSG. */
int engine_props_read(struct engine_memory *memory, const char *json, size_t len);
#endif
