/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Every key of the configuration file. Order is the order of the reference page. */
#include "config/schema.h"

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MS NSEC_PER_MSEC
#define SEC NSEC_PER_SEC
#define HOUR (3600 * SEC)

/* A row whose field is member `f` of struct T, the struct of the table at hand. */
#define FIELD(f) .offset = offsetof(T, f), .size = sizeof(((T *)0)->f)
#define COUNT(f) .count_offset = offsetof(T, f)
#define RANGE(lo, hi) .min = (lo), .max = (hi)
#define LATER .flags = SCHEMA_LATER

const struct schema_value schema_policies[] = {
	{ "cost", CONFIG_POLICY_COST, 0, "predicted time to the first token plus the price of congestion" },
	{ "prefix_aware", CONFIG_POLICY_PREFIX_AWARE, 0, "hash of the first `prefix_length`, overflow to the "
	  "least busy" },
	{ "session", CONFIG_POLICY_SESSION, 0, "hash of the first header of `session.headers` that the "
	  "request has" },
	{ "least_request", CONFIG_POLICY_LEAST_REQUEST, 0, "fewest requests in flight" },
	{ "round_robin", CONFIG_POLICY_ROUND_ROBIN, 0, "each in turn, the baseline" },
	{ "weighted", CONFIG_POLICY_WEIGHTED, 0, "sum of six signals by `weights`" },
	{ "prefix", CONFIG_POLICY_COST, 0, "the same as `cost`" },
	{ "kv", CONFIG_POLICY_COST, 0, "the same as `cost`" },
	{ "round-robin", CONFIG_POLICY_ROUND_ROBIN, 0, "the same as `round_robin`" },
	{ NULL, 0, 0, NULL },
};
const struct schema_value schema_engines[] = {
	{ "auto", CONFIG_ENGINE_AUTO, 0, "recognised by the names of its metrics" },
	{ "vllm", CONFIG_ENGINE_VLLM, 0, NULL },
	{ "llamacpp", CONFIG_ENGINE_LLAMACPP, 0, NULL },
	{ "sglang", CONFIG_ENGINE_SGLANG, SCHEMA_LATER, NULL },
	{ "trtllm", CONFIG_ENGINE_TRTLLM, SCHEMA_LATER, NULL },
	{ "triton", CONFIG_ENGINE_TRITON, SCHEMA_LATER, NULL },
	{ NULL, 0, 0, NULL },
};
const struct schema_value schema_datapaths[] = {
	{ "auto", CONFIG_DATAPATH_AUTO, 0, "what this version trusts most: the relay" },
	{ "relay", CONFIG_DATAPATH_RELAY, 0, "the daemon carries every byte" },
	{ "splice", CONFIG_DATAPATH_SPLICE, 0,
	  "the kernel moves the answers' bytes (new in this version; no start without it)" },
	{ NULL, 0, 0, NULL },
};
static const struct schema_value log_formats[] = {
	{ "kv", CONFIG_LOG_KV, 0, "key=value" },
	{ "json", CONFIG_LOG_JSON, 0, "one object a line" },
	{ NULL, 0, 0, NULL },
};
static const struct schema_value log_levels[] = {
	{ "error", LOG_LVL_ERROR, 0, NULL },
	{ "warn", LOG_LVL_WARN, 0, NULL },
	{ "info", LOG_LVL_INFO, 0, NULL },
	{ "debug", LOG_LVL_DEBUG, 0, NULL },
	{ NULL, 0, 0, NULL },
};
static const struct schema_value half_closes[] = {
	{ "abort", CONFIG_HALF_CLOSE_ABORT, 0, "the client has gone, the request is aborted" },
	{ "deliver", CONFIG_HALF_CLOSE_DELIVER, 0, "the client has finished sending, the answer is delivered" },
	{ NULL, 0, 0, NULL },
};
static const struct schema_value on_aborts[] = {
	{ "close", CONFIG_ON_ABORT_CLOSE, 0, "its connection is closed, so that the engine stops computing" },
	{ "drain", CONFIG_ON_ABORT_DRAIN, 0, "the answer is read to its end and thrown away, for engines that "
	  "an abort hurts" },
	{ NULL, 0, 0, NULL },
};
static const struct schema_value splices[] = {
	{ "off", 0, 0, NULL },
	{ "body", 1, SCHEMA_LATER, NULL },
	{ "full", 2, SCHEMA_LATER, NULL },
	{ NULL, 0, 0, NULL },
};
static const struct schema_value isolations[] = {
	{ "off", 0, 0, NULL },
	{ "tenant", 1, SCHEMA_LATER, NULL },
	{ NULL, 0, 0, NULL },
};

#define T struct config_listener
static const struct schema_key listener_keys[] = {
	{ "address", SCHEMA_ADDRESS, .flags = SCHEMA_REQUIRED, FIELD(address),
	  .doc = "Where to listen: `127.0.0.1:8080`, `[::]:8080`, `*:8080` for every IPv4 address, `localhost:8080` for "
	  "127.0.0.1. No other name. An address that another process listens on is refused." },
	{ "tls", SCHEMA_MAP, LATER, .doc = "Certificate and key of an HTTPS listener." },
	{ NULL },
};
#undef T

#define T struct config_admin
static const struct schema_key admin_keys[] = {
	{ "address", SCHEMA_ADDRESS, .flags = SCHEMA_OFF, FIELD(address), .def = "127.0.0.1:9090",
	  .doc = "TCP listener of `/metrics`, `/healthz`, `/readyz` and the status page. Read only. `off`: "
	  "none." },
	{ "socket", SCHEMA_FILE, .flags = SCHEMA_OFF, FIELD(socket), RANGE(2, 107),
	  .def = "/run/kvsteer/admin.sock",
	  .doc = "Unix socket that kvsteerctl talks to, mode 0660. Where it can't be made, the daemon warns "
	  "and goes on without. `off`: none." },
	{ NULL },
};
#undef T

#define T struct config_log
static const struct schema_key log_keys[] = {
	{ "access", SCHEMA_ACCESS, .offset = 0, .size = sizeof(T), .def = "stdout",
	  .doc = "One line per request: `stdout`, `off`, or the absolute name of a file." },
	{ "format", SCHEMA_ENUM, FIELD(format), .values = log_formats, .def = "kv",
	  .doc = "Of the access log." },
	{ "level", SCHEMA_ENUM, FIELD(level), .values = log_levels, .def = "info",
	  .doc = "Of the daemon's own log on stderr." },
	{ NULL },
};
#undef T

#define T struct config_limits
static const struct schema_key limit_keys[] = {
	{ "scan", SCHEMA_SIZE, FIELD(scan_bytes), RANGE(64 * KIB, 256 * MIB), .def = "8MiB",
	  .doc = "Request bodies up to this length are kept until the answer begins, so that the request can "
	  "be sent again elsewhere; longer ones are forwarded as they arrive. At most `body`. The model must be named within it where there are several pools." },
	{ "body", SCHEMA_SIZE, .flags = SCHEMA_ZERO, FIELD(body_bytes), RANGE(1 * KIB, 1024 * GIB),
	  .def = "64MiB",
	  .doc = "Longest request body, else 413. 0: no limit." },
	{ "head", SCHEMA_SIZE, FIELD(head_bytes), RANGE(1 * KIB, 1 * MIB), .def = "32KiB",
	  .doc = "Longest head of a request or an answer, else 431 or 502." },
	{ "headers", SCHEMA_UINT, FIELD(headers), RANGE(8, 1000), .def = "100",
	  .doc = "Most header lines of one head." },
	{ "connections", SCHEMA_UINT, FIELD(connections), RANGE(1, 1000000), .def = "10000",
	  .doc = "Most client connections at a time; more are answered 503." },
	{ "client_buffer", SCHEMA_SIZE, FIELD(client_buffer_bytes), RANGE(16 * KIB, 64 * MIB), .def = "256KiB",
	  .doc = "Bytes of an answer that are held for a client that reads slowly; then its backend is read "
	  "no further." },
	{ NULL },
};
#undef T

#define T struct config_timeouts
static const struct schema_key timeout_keys[] = {
	{ "connect", SCHEMA_DURATION, FIELD(connect_ns), RANGE(10 * MS, 60 * SEC), .def = "2s",
	  .doc = "TCP connect to a backend." },
	{ "head", SCHEMA_DURATION, FIELD(head_ns), RANGE(100 * MS, 300 * SEC), .def = "10s",
	  .doc = "From the first byte of a request's head to its end, else 408." },
	{ "head_hold", SCHEMA_DURATION, FIELD(head_hold_ns), RANGE(100 * MS, 300 * SEC), .def = "10s",
	  .doc = "For a body's bytes to go on arriving, and for the model's name to be seen in it, else 408. "
	  "Also the longest that the head of a stream's answer, or of a 503, is held back for what follows it: "
	  "then it goes out, and there is no retry." },
	{ "first_token", SCHEMA_DURATION, FIELD(first_token_ns), RANGE(100 * MS, 24 * HOUR), .def = "300s",
	  .doc = "From the request sent to the first event of a stream, else 504. Answers that don't stream "
	  "have twice that until their head." },
	{ "stream_idle", SCHEMA_DURATION, FIELD(stream_idle_ns), RANGE(100 * MS, 24 * HOUR), .def = "300s",
	  .doc = "Longest silence of a backend inside an answer." },
	{ "keepalive", SCHEMA_DURATION, FIELD(keepalive_ns), RANGE(100 * MS, 24 * HOUR), .def = "60s",
	  .doc = "How long an idle client connection stays open." },
	{ "upstream_idle", SCHEMA_DURATION, .flags = SCHEMA_ZERO, FIELD(upstream_idle_ns),
	  RANGE(10 * MS, 1 * HOUR), .def = "3s",
	  .doc = "How long an idle backend connection is kept for reuse; below the engine's own limit "
	  "(uvicorn 5 s). 0: no reuse." },
	{ "drain", SCHEMA_DURATION, .flags = SCHEMA_ZERO, FIELD(drain_ns), RANGE(100 * MS, 24 * HOUR),
	  .def = "30s",
	  .doc = "After SIGTERM: how long requests in flight may go on. 0: no time." },
	{ "handover", SCHEMA_DURATION, LATER, RANGE(1 * SEC, 168 * HOUR),
	  .doc = "How long an old process may go on with its streams after an upgrade." },
	{ NULL },
};
#undef T

static const struct schema_key model_item = { "", SCHEMA_MODEL, .size = sizeof(char *), RANGE(1, 256) };
static const struct schema_key adapter_item = { "", SCHEMA_MODEL, .size = sizeof(char *), RANGE(1, 127) };
static const struct schema_key pattern_item = { "", SCHEMA_PATTERN, .size = sizeof(char *), RANGE(1, 128) };
static const struct schema_key urlpath_item = { "", SCHEMA_URLPATH, .size = sizeof(char *), RANGE(1, 256) };
static const struct schema_key header_item = { "", SCHEMA_HEADER, .size = sizeof(char *), RANGE(1, 128) };
static const struct schema_key cidr_item = { "", SCHEMA_CIDR, .size = sizeof(struct config_cidr) };

#define T struct config_pool
static const struct schema_key session_keys[] = {
	{ "headers", SCHEMA_LIST, FIELD(session_headers.v), COUNT(session_headers.n), .item = &header_item,
	  .def = "x-session-id", RANGE(1, 16),
	  .doc = "Request headers that name the session, the first present counts. Read by `session` always; "
	  "other policies may place a cold prompt by them." },
	{ NULL },
};
static const struct schema_key queue_keys[] = {
	{ "max_requests", SCHEMA_UINT, FIELD(queue_max_requests), RANGE(0, 1000000), .def = "1000",
	  .doc = "Requests that wait when every backend is at its cap; more are answered 429. 0: no queue." },
	{ "timeout", SCHEMA_DURATION, FIELD(queue_timeout_ns), RANGE(1 * MS, 1 * HOUR), .def = "30s",
	  .doc = "Longest wait, then 429." },
	{ NULL },
};
#undef T

#define T struct config_weights
static const struct schema_key weight_keys[] = {
	{ "queue", SCHEMA_NUMBER, FIELD(queue), RANGE(0, 1000), .def = "2", .doc = "Few requests waiting." },
	{ "kv_cache", SCHEMA_NUMBER, FIELD(kv_cache), RANGE(0, 1000), .def = "2", .doc = "KV cache free." },
	{ "prefix", SCHEMA_NUMBER, FIELD(prefix), RANGE(0, 1000), .def = "3",
	  .doc = "Share of the prompt that is cached." },
	{ "running_requests", SCHEMA_NUMBER, FIELD(running_requests), RANGE(0, 1000), .def = "0",
	  .doc = "Few requests in flight." },
	{ "lora_affinity", SCHEMA_NUMBER, FIELD(lora_affinity), RANGE(0, 1000), .def = "1",
	  .doc = "Adapter resident." },
	{ "predicted_latency", SCHEMA_NUMBER, FIELD(predicted_latency), RANGE(0, 1000), .def = "0",
	  .doc = "Low predicted time to the first token." },
	{ NULL },
};
#undef T

#define T struct config_profile
static const struct schema_key profile_keys[] = {
	{ "a_ms", SCHEMA_NUMBER, FIELD(a_ms), RANGE(0, 10000), .def = "15",
	  .doc = "Fixed time of a step, ms." },
	{ "b_us", SCHEMA_NUMBER, .flags = SCHEMA_ABOVE, FIELD(b_us), RANGE(0, 1000000), .def = "62.5",
	  .doc = "Per prefill token, us." },
	{ "c_us", SCHEMA_NUMBER, FIELD(c_us), RANGE(0, 1000000), .def = "35",
	  .doc = "Per decoding sequence, us." },
	{ "d_ns", SCHEMA_NUMBER, FIELD(d_ns), RANGE(0, 1000000), .def = "17.8",
	  .doc = "Per token of decoded context, ns." },
	{ "e_ns", SCHEMA_NUMBER, FIELD(e_ns), RANGE(0, 1000000), .def = "0.7",
	  .doc = "Per prefill token and token of its context, ns." },
	{ "batch_tokens", SCHEMA_UINT, FIELD(batch_tokens), RANGE(16, 1048576), .def = "8192",
	  .doc = "Token budget of a step." },
	{ "max_seqs", SCHEMA_UINT, FIELD(max_seqs), RANGE(1, 65536), .def = "256",
	  .doc = "Sequences that run at a time." },
	{ NULL },
};
#undef T

#define T struct config_scrape
static const struct schema_key scrape_keys[] = {
	{ "path", SCHEMA_URLPATH, FIELD(path), RANGE(2, 256), .def = "/metrics",
	  .doc = "Of the engine's Prometheus page, below the backend's path prefix." },
	{ "interval", SCHEMA_DURATION, FIELD(interval_ns), RANGE(250 * MS, 1 * HOUR), .def = "1s",
	  .doc = "Mean time between two reads of a backend." },
	{ "stale", SCHEMA_DURATION, FIELD(stale_ns), RANGE(500 * MS, 24 * HOUR), .def = "5s",
	  .doc = "Counters older than this are unknown, not bad: the backend keeps its traffic by kvsteer's "
	  "own counts. More than `interval`." },
	{ "engine", SCHEMA_ENUM, FIELD(engine), .values = schema_engines, .def = "auto",
	  .doc = "Which engine's metric names to expect." },
	{ NULL },
};
#undef T

#define T struct config_backend
static const struct schema_key backend_keys[] = {
	{ "url", SCHEMA_URL, .flags = SCHEMA_REQUIRED, .offset = 0, .size = sizeof(T),
	  .doc = "`http://HOST[:PORT][/PREFIX]`, HOST a name, an IPv4 address or an IPv6 address in brackets; "
	  "PORT 80 by default. Names are resolved when the daemon starts and when it reloads, never by "
	  "`--check`: all at once, for 12 s at most. A backend whose name has no address gets no request; the daemon warns, goes on, and "
	  "asks again every 10 s. A reload keeps the address of a name that can't be resolved just then." },
	{ "name", SCHEMA_LABEL, FIELD(name), RANGE(1, 127),
	  .doc = "In headers, logs, metrics and kvsteerctl. Unique in the file. Default: `HOST:PORT` and the "
	  "path prefix, after `POOL/` where several pools have the same." },
	{ "concurrency_threshold", SCHEMA_UINT, FIELD(concurrency_threshold), RANGE(1, 1024),
	  .doc = "Hard cap on requests in flight. Default: the pool's." },
	{ "extra_ms", SCHEMA_NUMBER, FIELD(extra_ms), RANGE(0, 1000000), .def = "0",
	  .doc = "Added to the predicted cost, for a backend that is far away." },
	{ NULL },
};
#undef T
static const struct schema_key backend_item = { "", SCHEMA_MAP, .size = sizeof(struct config_backend),
	  .sub = backend_keys, .shorthand = "url" };
static const struct schema_key listener_item = { "", SCHEMA_MAP, .size = sizeof(struct config_listener),
	  .sub = listener_keys, .shorthand = "address" };

#define T struct config_pool
static const struct schema_key pool_keys[] = {
	{ "name", SCHEMA_LABEL, FIELD(name), RANGE(1, 64),
	  .doc = "Of the pool, unique. Default where there is just one pool: `default`." },
	{ "models", SCHEMA_LIST, FIELD(models.v), COUNT(models.n), .item = &model_item,
	  RANGE(0, CONFIG_MAX_NAMES),
	  .doc = "Values of the request's `model` that this pool serves. One pool may go without models, "
	  "adapters and aliases: it takes all that no other claims." },
	{ "adapters", SCHEMA_LIST, FIELD(adapters.v), COUNT(adapters.n), .item = &adapter_item,
	  RANGE(0, CONFIG_MAX_NAMES),
	  .doc = "LoRA adapters, served by their own name with the weights of the first of `models`." },
	{ "aliases", SCHEMA_ALIASES, FIELD(aliases), COUNT(n_aliases), RANGE(0, CONFIG_MAX_NAMES),
	  .doc = "Other names for models or adapters of this pool, also listed by `/v1/models`. An alias "
	  "chooses the pool; the body stays as it is, so that without `rewrite_model` the backends must know "
	  "the alias too, or they answer 404." },
	{ "rewrite_model", SCHEMA_BOOL, FIELD(rewrite_model), .def = "false",
	  .doc = "An alias in the body is replaced by the model it stands for." },
	{ "default", SCHEMA_BOOL, FIELD(is_default),
	  .doc = "Takes requests without a model; at most one pool. Default: `true` for the only pool and for "
	  "one that takes every model, else `false`. Where no pool does, they are answered 404." },
	{ "policy", SCHEMA_ENUM, FIELD(policy), .values = schema_policies, .def = "cost",
	  .doc = "How a backend is chosen." },
	{ "concurrency_threshold", SCHEMA_UINT, FIELD(concurrency_threshold), RANGE(1, 1024), .def = "256",
	  .doc = "Hard cap on requests in flight per backend." },
	{ "prefix_length", SCHEMA_UINT, FIELD(prefix_length), RANGE(1024, 65536), .def = "4096",
	  .doc = "Only with `policy: prefix_aware`. Bytes of the raw body on `/invocations`, characters of "
	  "message text on OpenAI paths." },
	{ "session", SCHEMA_MAP, .sub = session_keys, .doc = "Where a session's name is found." },
	{ "weights", SCHEMA_MAP, FIELD(weights), .sub = weight_keys, .doc = "Used by `policy: weighted`." },
	{ "queue", SCHEMA_MAP, .sub = queue_keys, .doc = "For requests that no backend has room for." },
	{ "scrape", SCHEMA_MAP, FIELD(scrape), .sub = scrape_keys,
	  .doc = "Reading the engines' load counters." },
	{ "profile", SCHEMA_MAP, FIELD(profile), .sub = profile_keys,
	  .doc = "Speed of a node, the prior of the cost model; real speed is learned. The default is Llama "
	  "3.1 70B on eight H100." },
	{ "kv_tokens", SCHEMA_UINT, FIELD(kv_tokens), RANGE(1024, 1000000000), .def = "640000",
	  .doc = "KV cache of a node, until its own figure is known. llama.cpp reports a bound, the slots times "
	  "their context: there a smaller value stays." },
	{ "adapter_load", SCHEMA_DURATION, FIELD(adapter_load_ns), RANGE(1 * MS, 600 * SEC), .def = "150ms",
	  .doc = "Stall of a node that loads an adapter." },
	{ "volatile_heads", SCHEMA_LIST, FIELD(volatile_heads.v), COUNT(volatile_heads.n), .item = &pattern_item, RANGE(0, 16),
	  .doc = "What clients put in front of their prompts anew each time (`\"Current date: *\"`, `\"[request *] \"`) and "
	  "the key leaves out, so that such prompts still look alike; the body goes on as it came. Looked for at the beginning "
	  "of each line in the first 1024 bytes of `system`, `instructions`, the first message and a plain prompt; `*` stands for "
	  "anything up to what follows it, at the end up to the end of the line. Not for `policy: prefix_aware`." },
	{ "on_abort", SCHEMA_ENUM, FIELD(on_abort), .values = on_aborts, .def = "close",
	  .doc = "What a client's abort does to the backend's request." },
	{ "backends", SCHEMA_LIST, .flags = SCHEMA_REQUIRED, FIELD(backends), COUNT(n_backends),
	  .item = &backend_item,
	  RANGE(1, CONFIG_MAX_BACKENDS), .doc = "The nodes: maps, or just URLs." },
	{ "components", SCHEMA_LIST, LATER, .neutral = "", .item = &model_item,
	  .doc = "Values of X-Amzn-SageMaker-Inference-Component that this pool serves." },
	{ "discover", SCHEMA_MAP, LATER, .neutral = "", .doc = "Backends from a file or from DNS." },
	{ "request_splice", SCHEMA_ENUM, LATER, .neutral = "off", .values = splices,
	  .doc = "Requests' bodies moved by the kernel." },
	{ "cache_isolation", SCHEMA_ENUM, LATER, .neutral = "off", .values = isolations,
	  .doc = "Keys salted per tenant." },
	{ "forward_credentials", SCHEMA_BOOL, LATER,
	  .doc = "Whether a credential that kvsteer consumed goes on to the backend. This version consumes "
	  "none: the client's Authorization header is always forwarded." },
	{ "usage_sample", SCHEMA_PERCENT, FIELD(usage_sample), RANGE(0, 100), .def = "5%",
	  .doc = "Share of the answers whose `usage` is read, to compare predicted with real hits and to learn bytes per token. "
	  "These are relayed by the daemon. Requests are never changed for it: answers without usage teach nothing." },
	{ NULL },
};
#undef T
static const struct schema_key pool_item = { "", SCHEMA_MAP, .size = sizeof(struct config_pool),
	  .sub = pool_keys };

#define T struct config_bpf
static const struct schema_key bpf_keys[] = {
	{ "pin", SCHEMA_FILE, FIELD(pin), RANGE(2, 100), .def = "/sys/fs/bpf/kvsteer",
	  .doc = "Directory on a BPF file system. Where that is not possible the maps have no names there, and a "
	  "warning says so." },
	{ "instance", SCHEMA_LABEL, FIELD(instance), RANGE(1, 64), .def = "default",
	  .doc = "The pins lie in `pin`/`instance`/v1/: one for each kvsteerd of a host." },
	{ NULL },
};
#undef T

#define T struct config
static const struct schema_key root_keys[] = {
	{ "listeners", SCHEMA_LIST, FIELD(listeners), COUNT(n_listeners), .item = &listener_item,
	  .def = "127.0.0.1:8080",
	  RANGE(1, CONFIG_MAX_LISTENERS), .doc = "Where clients connect: maps, or just addresses." },
	{ "admin", SCHEMA_MAP, FIELD(admin), .sub = admin_keys, .doc = "Metrics, health, kvsteerctl." },
	{ "datapath", SCHEMA_ENUM, FIELD(datapath), .values = schema_datapaths, .def = "auto",
	  .doc = "How an answer's bytes move." },
	{ "workers", SCHEMA_UINT, .flags = SCHEMA_AUTO, FIELD(workers), RANGE(1, 64), .def = "auto",
	  .doc = "Threads that carry connections; `auto`: one per core." },
	{ "log", SCHEMA_MAP, FIELD(log), .sub = log_keys,
	  .doc = "No log ever holds prompt text or a credential." },
	{ "response_headers", SCHEMA_BOOL, FIELD(response_headers), .def = "true",
	  .doc = "`x-kvsteer-backend` and `x-kvsteer-reason` on answers." },
	{ "client_half_close", SCHEMA_ENUM, FIELD(client_half_close), .values = half_closes, .def = "abort",
	  .doc = "What a client's FIN means while its answer is due." },
	{ "trusted_proxies", SCHEMA_LIST, FIELD(trusted_proxies), COUNT(n_trusted_proxies),
	  .item = &cidr_item, RANGE(0, CONFIG_MAX_NAMES),
	  .doc = "Networks (`10.0.0.0/8`, `fd00::/8`) or addresses whose X-Forwarded-For is appended to, and "
	  "whose x-kvsteer-priority may be above 0. The queue is fair between the clients that it names, read "
	  "from the right up to the first address that is not one of these. Others' X-Forwarded-For is overwritten." },
	{ "allow_paths", SCHEMA_LIST, FIELD(allow_paths.v), COUNT(allow_paths.n), .item = &urlpath_item,
	  RANGE(0, CONFIG_MAX_NAMES),
	  .doc = "Paths to forward beside those of the inference APIs; all else is 403. One that ends in `/` "
	  "allows everything below it." },
	{ "limits", SCHEMA_MAP, FIELD(limits), .sub = limit_keys, .doc = "Nothing is unbounded." },
	{ "timeouts", SCHEMA_MAP, FIELD(timeouts), .sub = timeout_keys,
	  .doc = "Each has its answer to the client." },
	{ "bpf", SCHEMA_MAP, FIELD(bpf), .sub = bpf_keys, .doc = "The kernel datapath's maps." },
	{ "pools", SCHEMA_LIST, .flags = SCHEMA_REQUIRED, FIELD(pools), COUNT(n_pools), .item = &pool_item,
	  RANGE(1, CONFIG_MAX_POOLS),
	  .doc = "Sets of backends that serve the same models." },
	{ NULL },
};
#undef T

const struct schema_key schema_root = { "", SCHEMA_MAP, .size = sizeof(struct config), .sub = root_keys };
