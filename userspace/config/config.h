/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The configuration as the daemon uses it: one immutable snapshot, made from a
 * YAML file by the table of config/schema.c. Strings, arrays and sockets'
 * addresses belong to the snapshot and die with its last reference.
 *
 * Units: *_ns are nanoseconds, *_bytes bytes, *_tokens tokens; 0 means what the
 * field's comment says and nothing else. Every field is filled: where the file is
 * silent, with the default of docs/configuration.md. */
#ifndef KVSTEER_CONFIG_CONFIG_H
#define KVSTEER_CONFIG_CONFIG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONFIG_MAX_LISTENERS 64
#define CONFIG_MAX_POOLS 256
#define CONFIG_MAX_BACKENDS 256 /* of one pool */
#define CONFIG_MAX_BACKENDS_TOTAL 1024 /* of all pools: rows of the backend table (kvsteer/backends_abi.h) */
#define CONFIG_MAX_NAMES 1024	/* entries of one list of names */
#define CONFIG_MAX_FILE_BYTES (4u << 20)
#define CONFIG_MAX_DEPTH 32	/* maps and lists inside each other; the schema needs 6 */

enum config_datapath { CONFIG_DATAPATH_AUTO, CONFIG_DATAPATH_RELAY, CONFIG_DATAPATH_SPLICE };
enum config_log_access { CONFIG_ACCESS_STDOUT, CONFIG_ACCESS_OFF, CONFIG_ACCESS_FILE };
enum config_log_format { CONFIG_LOG_KV, CONFIG_LOG_JSON };
enum config_half_close { CONFIG_HALF_CLOSE_ABORT, CONFIG_HALF_CLOSE_DELIVER };
enum config_on_abort { CONFIG_ON_ABORT_CLOSE, CONFIG_ON_ABORT_DRAIN };
enum config_policy {
	CONFIG_POLICY_COST,
	CONFIG_POLICY_PREFIX_AWARE,
	CONFIG_POLICY_SESSION,
	CONFIG_POLICY_LEAST_REQUEST,
	CONFIG_POLICY_ROUND_ROBIN,
	CONFIG_POLICY_WEIGHTED,
};
enum config_engine {
	CONFIG_ENGINE_AUTO,
	CONFIG_ENGINE_VLLM,
	CONFIG_ENGINE_LLAMACPP,
	CONFIG_ENGINE_SGLANG,
	CONFIG_ENGINE_TRTLLM,
	CONFIG_ENGINE_TRITON,
};

struct config_strings {
	const char *const *v; /* v[0..n-1], each NUL-terminated and not empty */
	unsigned n;
};

struct config_address {
	const char *text; /* as it stands in the file */
	struct sockaddr_storage sa;
	socklen_t sa_len; /* 0: none given (admin.address: off) */
	unsigned line, column; /* in the file, for messages; 0: a default */
};

struct config_listener {
	struct config_address address;
};

struct config_admin {
	struct config_address address; /* sa_len 0: no TCP admin server */
	const char *socket;	       /* path; "": no admin socket */
};

struct config_log {
	enum config_log_access access;
	const char *access_path; /* CONFIG_ACCESS_FILE only, else "" */
	enum config_log_format format;
	int level; /* enum log_level of base/log.h */
	unsigned line, column; /* of log.access in the file; 0: a default */
};

struct config_limits {
	uint64_t scan_bytes;   /* longest body that is kept for a retry and scanned as a whole */
	uint64_t body_bytes;   /* 0: no limit */
	uint64_t head_bytes;
	uint64_t headers;      /* header lines of one head */
	uint64_t connections;  /* client connections of the whole process */
	uint64_t client_buffer_bytes;
};

struct config_timeouts {
	uint64_t connect_ns, head_ns, head_hold_ns;
	uint64_t first_token_ns; /* streams; other answers have twice that until their head */
	uint64_t stream_idle_ns, keepalive_ns, upstream_idle_ns, drain_ns;
};

struct config_cidr {
	int family;	  /* AF_INET or AF_INET6 */
	uint8_t addr[16]; /* network order; AF_INET uses the first four */
	uint8_t bits;
};

struct config_backend {
	const char *url;
	const char *name;	 /* `name`, or host:port (plus the path prefix, if any) of the URL; unique in its pool */
	const char *address;	 /* "host:port" of the URL as text, IPv6 in brackets */
	const char *host;	 /* without brackets */
	const char *host_header; /* value for Host:, brackets kept, the port left out if it is 80 */
	const char *path_prefix; /* "" or "/x/y": no slash at the end */
	uint16_t port;
	uint32_t concurrency_threshold; /* own, else the pool's */
	double extra_ms;		/* added to this backend's predicted cost */
	struct sockaddr_storage sa;	/* filled by config_resolve(), at once where host is an address */
	socklen_t sa_len;		/* 0: not resolved */
	const char *unresolved;		/* why config_resolve() found no address; NULL: found, or not tried yet */
	unsigned line, column;		/* in the file, for messages */
};

struct config_alias {
	const char *alias, *model; /* model is one of the pool's models or adapters */
};

struct config_weights {
	double queue, kv_cache, prefix, running_requests, lora_affinity, predicted_latency;
};

struct config_profile { /* step time of a node, see docs/configuration.md */
	double a_ms, b_us, c_us, d_ns, e_ns;
	uint64_t batch_tokens, max_seqs;
};

struct config_scrape {
	const char *path;
	uint64_t interval_ns, stale_ns;
	enum config_engine engine;
};

struct config_pool {
	const char *name;
	struct config_strings models;
	struct config_strings adapters; /* served with the weights of models.v[0] */
	const struct config_alias *aliases;
	unsigned n_aliases;
	unsigned aliases_line, aliases_column; /* in the file, for messages */
	bool rewrite_model;
	bool any_model; /* no models, adapters or aliases: takes every model name that no other pool claims */
	bool is_default;
	enum config_policy policy;
	uint32_t concurrency_threshold;
	uint32_t prefix_length; /* prefix_aware only */
	struct config_strings session_headers; /* lower case, in order of preference */
	struct config_weights weights;
	uint64_t queue_max_requests; /* 0: no queue, 429 at the cap */
	uint64_t queue_timeout_ns;
	struct config_scrape scrape;
	struct config_profile profile;
	uint64_t kv_tokens;
	uint64_t adapter_load_ns;
	struct config_strings volatile_heads; /* patterns, see prompt/heads.h */
	enum config_on_abort on_abort;
	double usage_sample; /* share of the answers, 0..1 */
	const struct config_backend *backends;
	unsigned n_backends;
};

struct config_bpf {
	const char *pin;
	const char *instance;
};

struct config {
	const char *file; /* "" where it came from a buffer without a name */
	const struct config_listener *listeners;
	unsigned n_listeners;
	struct config_admin admin;
	enum config_datapath datapath;
	struct config_bpf bpf;
	unsigned workers; /* 0: one per core */
	struct config_log log;
	bool response_headers;
	enum config_half_close client_half_close;
	const struct config_cidr *trusted_proxies;
	unsigned n_trusted_proxies;
	struct config_strings allow_paths; /* see config_path_allowed() */
	struct config_limits limits;
	struct config_timeouts timeouts;
	const struct config_pool *pools;
	unsigned n_pools;
};

/* What is wrong and where. line and column count from 1; 0: no position (the file
 * can't be read). */
struct config_error {
	char file[256];
	unsigned line, column;
	char key[160];	   /* "pools[0].backends[1].concurrency_threshold"; "" if none */
	char given[80];	   /* the value found, cut; "" if none */
	char message[800]; /* what is wrong and what is allowed */
};

/* Reads, checks and completes the file `path` (`config_load_buffer`: `len` bytes
 * at `text`, named `name` in errors). No network, no privilege: host names of
 * backends stay unresolved. 0 and a snapshot with one reference in *out, or
 * negative errno (-EINVAL: the content, -ENOMEM, else from open/read) with *err
 * filled and *out NULL. */
int config_load_file(const char *path, struct config **out, struct config_error *err);
int config_load_buffer(const char *text, size_t len, const char *name, struct config **out, struct config_error *err);

/* Fills config_backend.sa of every backend whose host is a name, with getaddrinfo:
 * blocks, so call it once after loading and before the snapshot is shared. The
 * first address of the resolver's order is taken. All names are asked for at the same time,
 * and for NAME_LOOKUP_PATIENCE_NS at the most. A name is tried once: where that fails,
 * config_backend.unresolved says why, and the others are resolved all the same.
 * 0, -EHOSTUNREACH and *err for the first name that has no address, or -ENOMEM. */
int config_resolve(struct config *cfg, struct config_error *err);

/* Calls fn with one line of text for each thing that is allowed and most likely not
 * meant, "FILE:LINE:COLUMN: KEY: MESSAGE". Returns how many. */
unsigned config_warnings(const struct config *cfg, void (*fn)(void *ctx, const char *text), void *ctx);

/* *err for a value of the configuration that the system refuses: `key` with `given`, at
 * line and column of the file (0: a default), and strerror(error) behind `what`. */
void config_error_system(struct config_error *err, const struct config *cfg, const char *key, const char *given,
			 unsigned line, unsigned column, const char *what, int error);

/* One more / one less reference; the last one frees. NULL is allowed. Any thread. */
struct config *config_ref(struct config *cfg);
void config_unref(struct config *cfg);

/* "FILE:LINE:COLUMN: KEY: MESSAGE" into buf (cut to len). Returns buf. */
const char *config_error_text(const struct config_error *err, char *buf, size_t len);

/* True if the peer `sa` lies in one of trusted_proxies (IPv4-mapped IPv6 counts as IPv4). */
bool config_trusted(const struct config *cfg, const struct sockaddr *sa);

/* True if allow_paths lets the `len` bytes at `path` (no query) through: an entry
 * that ends in '/' allows everything below it, any other just itself. Paths with
 * dot segments, encoded or not, or with encoded slashes never match a prefix. */
bool config_path_allowed(const struct config *cfg, const char *path, size_t len);

/* The name in the file of an enum's value: "cost", "vllm", ... */
const char *config_policy_name(enum config_policy policy);
const char *config_engine_name(enum config_engine engine);
const char *config_datapath_name(enum config_datapath datapath);
#endif
