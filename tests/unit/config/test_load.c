/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whole files: where a fault is, keys that belong together, values and defaults. */
#include "help.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "config/schema.h"

#define ONE "pools:\n  - backends: [http://127.0.0.1:9001]\n"

static const struct {
	const char *yaml, *error; /* the whole error, or its beginning */
} faults[] = {
	/* syntax */
	{ "", "t:1:1: the file is empty" },
	{ "# nothing\n", "t:1:1: the file is empty" },
	{ "pools: [", "t:2:1: not YAML: did not find expected node content" },
	{ "pools:\n\t- x", "t:2:1: not YAML: found character that cannot start any token" },
	{ "a: \"\xff\"\n", "t:1:1: not YAML: invalid leading UTF-8 octet" },
	{ ONE "---\n" ONE, "t:3:1: a second document" },
	{ "just text", "t:1:1: \"just text\": not a map" },
	{ "[1, 2]", "t:1:1: \"a list\": not a map" },
	{ "? [a]\n: 1\n", "t:1:3: \"a list\": a key must be a plain word" },
	{ "? ~\n: 1\n", "t:1:3: ~: \"~\": unknown key" },
	/* keys */
	{ "workrs: 3\n" ONE, "t:1:1: workrs: \"workrs\": unknown key; did you mean \"workers\"?" },
	{ "timeouts: {conect: 2s}\n" ONE, "t:1:12: timeouts.conect: \"conect\": unknown key; did you mean \"connect\"?" },
	{ "admin:\n  adress: x\n" ONE, "t:2:3: admin.adress: \"adress\": unknown key; did you mean \"address\"?" },
	{ "admin:\n  zzz: x\n" ONE, "t:2:3: admin.zzz: \"zzz\": unknown key; allowed: address, socket" },
	{ "<<: {workers: 2}\n" ONE, "t:1:1: <<: \"<<\": unknown key" },
	{ "workers: 2\nworkers: 3\n" ONE, "t:2:1: workers: \"workers\": duplicate key; first at line 1" },
	{ "log: {level: info, format: kv, level: warn}\n" ONE, "t:1:32: log.level: \"level\": duplicate key; first at line 1" },
	{ "pools:\n  - models: [a]\n    aliases: {x: a, x: a}\n    backends: [http://h]\n", "t:3:21: pools[0].aliases.x: \"x\": duplicate key" },
	{ "workers: 2\n", "t:1:1: \"pools\" is missing" },
	{ "pools:\n  - name: a\n", "t:2:5: pools[0]: \"backends\" is missing" },
	{ "pools:\n  - backends:\n      - name: a\n", "t:3:9: pools[0].backends[0]: \"url\" is missing" },
	{ "listeners: [{}]\n" ONE, "t:1:13: listeners[0]: \"address\" is missing" },
	{ "workers:\n" ONE, "t:1:9: workers: no value; allowed: 1..64, or auto" },
	{ "pools:\n", "t:1:7: pools: no value; allowed: a list of 1..256" },
	{ "workers: [2]\n" ONE, "t:1:10: workers: \"a list\": not a whole number" },
	{ "limits: 3\n" ONE, "t:1:9: limits: \"3\": not a map; allowed: a map" },
	{ "listeners: 8080\n" ONE, "t:1:12: listeners: \"8080\": not a list; allowed: a list of 1..64" },
	{ "pools:\n  - {models: m, backends: [http://h]}\n", "t:2:14: pools[0].models: \"m\": not a list; allowed: a list of 0..1024" },
	{ "pools:\n  - {aliases: m, backends: [http://h]}\n", "t:2:15: pools[0].aliases: \"m\": not a map; allowed: a map of names to models" },
	{ "workers: [2]\n" ONE, "t:1:10: workers: \"a list\": not a whole number; allowed: 1..64, or auto" },
	/* a word that is none of ours is not taken for one that it hardly resembles; what there is, is listed whole */
	{ "logs2: 1\n" ONE, "t:1:1: logs2: \"logs2\": unknown key; allowed: listeners, admin, datapath, workers, log," },
	{ "pools:\n  - {burst: 1, backends: [http://h]}\n",
	  "t:2:6: pools[0].burst: \"burst\": unknown key; allowed: name, models, adapters, aliases, rewrite_model, default, policy, "
	  "concurrency_threshold, prefix_length, session, weights, queue, scrape, profile, kv_tokens, adapter_load, volatile_heads, on_abort, backends" },
	/* numbers below 0 are numbers; 0 is a duration */
	{ "workers: -1\n" ONE, "t:1:10: workers: \"-1\": out of range; allowed: 1..64, or auto" },
	{ "limits: {body: -1}\n" ONE, "t:1:16: limits.body: \"-1\": out of range; allowed: 1KiB..1024GiB, or 0" },
	{ "timeouts: {connect: -2s}\n" ONE, "t:1:21: timeouts.connect: \"-2s\": out of range" },
	{ "pools:\n  - {weights: {queue: -.5}, backends: [http://h]}\n", "t:2:23: pools[0].weights.queue: \"-.5\": not a number" },
	{ "pools:\n  - {weights: {queue: -0.5}, backends: [http://h]}\n", "t:2:23: pools[0].weights.queue: \"-0.5\": out of range; allowed: 0..1000" },
	{ "pools:\n  - {queue: {timeout: 0}, backends: [http://h]}\n", "t:2:23: pools[0].queue.timeout: \"0\": out of range; allowed: 1ms..1h" },
	{ "pools:\n  - {profile: {b_us: 0}, backends: [http://h]}\n", "t:2:22: pools[0].profile.b_us: \"0\": out of range; allowed: above 0, at most 1000000" },
	{ "limits: {scan: 8MiB, body: 1MiB}\n" ONE, "t:1:16: limits.scan: \"8MiB\": more than limits.body, which is 1048576 bytes" },
	{ "allow_paths: [/a/../b]\n" ONE, "t:1:15: allow_paths[0]: \"/a/../b\": has . or .. for a segment; allowed: a path" },
	{ "allow_paths: [/a/.]\n" ONE, "t:1:15: allow_paths[0]: \"/a/.\": has . or .. for a segment" },
	{ "listeners: ['gateway:80']\n" ONE, "t:1:13: listeners[0]: \"gateway:80\": not an address (a name is not enough to listen on)" },
	/* positions */
	{ "pools:\n  - name: a\n    backends:\n      - url: http://h\n        concurrency_threshold: 5000\n",
	  "t:5:32: pools[0].backends[0].concurrency_threshold: \"5000\": out of range; allowed: 1..1024" },
	{ "pools:\n  - backends: [http://h, {url: 'http://h2', extra_ms: x}]\n", "t:2:55: pools[0].backends[1].extra_ms: \"x\": not a number" },
	/* keys that belong together */
	{ "pools:\n  - {name: a, models: [x], backends: [http://h]}\n  - {name: a, models: [y], backends: [http://i]}\n",
	  "t:3:12: pools[1].name: \"a\": pool name \"a\" is already taken by pools[0].name at line 2" },
	{ "pools:\n  - {name: a, models: [x], backends: [http://h]}\n  - {models: [y], backends: [http://i]}\n",
	  "t:3:29: pools[1].backends: \"a list\": its pool needs a \"name\", there are 2 pools" },
	{ "pools:\n  - {name: a, models: [x], backends: [http://h]}\n  - {name: b, models: [y, x], backends: [http://i]}\n",
	  "t:3:27: pools[1].models[1]: \"x\": model name \"x\" is already taken by pools[0].models[0] at line 2" },
	{ "pools:\n  - {name: a, models: [x], adapters: [x], backends: [http://h]}\n",
	  "t:2:39: pools[0].adapters[0]: \"x\": model name \"x\" is already taken by pools[0].models[0]" },
	{ "pools:\n  - {name: a, models: [x], backends: [http://h]}\n  - {name: b, models: [y], aliases: {x: y}, backends: [http://i]}\n",
	  "t:3:38: pools[1].aliases.x: \"x\": model name \"x\" is already taken" },
	{ "pools:\n  - {name: a, backends: [http://h]}\n  - {name: b, backends: [http://i]}\n",
	  "t:3:25: pools[1].backends: \"a list\": its pool needs \"models\": pool \"a\" takes every model already" },
	{ "pools:\n  - {name: a, models: [x], default: true, backends: [http://h]}\n  - {name: b, models: [y], default: true, backends: [http://i]}\n",
	  "t:3:37: pools[1].default: \"true\": pool \"a\" is the default already" },
	{ "pools:\n  - models: [x]\n    aliases: {y: z}\n    backends: [http://h]\n",
	  "t:3:18: pools[0].aliases.y: \"z\": not one of this pool's models or adapters; allowed: x" },
	{ "pools:\n  - models: [x, x2]\n    adapters: [a]\n    aliases: {y: z}\n    backends: [http://h]\n",
	  "t:4:18: pools[0].aliases.y: \"z\": not one of this pool's models or adapters; allowed: x, x2, a" },
	{ "pools:\n  - aliases: {y: z}\n    backends: [http://h]\n",
	  "t:2:18: pools[0].aliases.y: \"z\": not one of this pool's models or adapters; it has none" },
	{ "pools:\n  - adapters: [x]\n    backends: [http://h]\n", "t:2:15: pools[0].adapters: \"a list\": adapters need a base model" },
	{ "pools:\n  - prefix_length: 4096\n    policy: round-robin\n    backends: [http://h]\n",
	  "t:2:20: pools[0].prefix_length: \"4096\": only with policy: prefix_aware; this pool's policy is round_robin" },
	{ "pools:\n  - policy: weighted\n    weights: {queue: 0, kv_cache: 0, prefix: 0, lora_affinity: 0}\n    backends: [http://h]\n",
	  "t:2:13: pools[0].policy: \"weighted\": needs a weight above 0" },
	{ "pools:\n  - backends: [http://h, http://h/]\n", "t:2:26: pools[0].backends[1]: \"http://h/\": backend name \"h:80\" is already taken by pools[0].backends[0] at line 2" },
	{ "pools:\n  - backends: [{url: 'http://h', name: n}, {url: 'http://i', name: n}]\n",
	  "t:2:68: pools[0].backends[1].name: \"n\": backend name \"n\" is already taken by pools[0].backends[0].name" },
	{ "pools:\n  - backends: [http://h, {url: 'http://i', name: 'h:80'}]\n", "t:2:50: pools[0].backends[1].name: \"h:80\": backend name" },
	{ "listeners: ['*:80', '0.0.0.0:80']\n" ONE, "t:1:21: listeners[1]: \"0.0.0.0:80\": the same as listeners[0].address" },
	{ "listeners: [127.0.0.1:9090]\n" ONE, "t:1:13: listeners[0]: \"127.0.0.1:9090\": a listener and admin.address are the same" },
	{ "admin: {address: 127.0.0.1:8080}\n" ONE, "t:1:18: admin.address: \"127.0.0.1:8080\": a listener and admin.address are the same" },
};

static void test_faults(void **state)
{
	unsigned wrong = 0;
	char text[1024];

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		load_bad(faults[i].yaml, text, sizeof(text));
		if (strncmp(text, faults[i].error, strlen(faults[i].error))) {
			print_error("%s\n got: %s\nwant: %s\n", faults[i].yaml, text, faults[i].error);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

static void test_one_pool_is_enough(void **state)
{
	struct config *cfg = load_good(ONE);
	const struct config_pool *p = &cfg->pools[0];
	const struct sockaddr_in *in = (const struct sockaddr_in *)&p->backends[0].sa;

	assert_int_equal(cfg->n_listeners, 1);
	assert_string_equal(cfg->listeners[0].address.text, "127.0.0.1:8080");
	assert_string_equal(cfg->admin.address.text, "127.0.0.1:9090");
	assert_string_equal(cfg->admin.socket, "/run/kvsteer/admin.sock");
	assert_int_equal(cfg->datapath, CONFIG_DATAPATH_AUTO);
	assert_int_equal(cfg->workers, 0);
	assert_int_equal(cfg->log.access, CONFIG_ACCESS_STDOUT);
	assert_int_equal(cfg->log.level, LOG_LVL_INFO);
	assert_true(cfg->response_headers);
	assert_int_equal(cfg->limits.scan_bytes, 8 << 20);
	assert_int_equal(cfg->limits.body_bytes, 64 << 20);
	assert_int_equal(cfg->limits.head_bytes, 32 << 10);
	assert_int_equal(cfg->limits.headers, 100);
	assert_int_equal(cfg->limits.connections, 10000);
	assert_int_equal(cfg->limits.client_buffer_bytes, 256 << 10);
	assert_true(cfg->timeouts.connect_ns == 2000000000ull);
	assert_true(cfg->timeouts.first_token_ns == 300000000000ull);
	assert_int_equal(cfg->n_pools, 1);
	assert_string_equal(p->name, "default");
	assert_true(p->any_model);
	assert_true(p->is_default);
	assert_int_equal(p->policy, CONFIG_POLICY_COST);
	assert_int_equal(p->concurrency_threshold, 256);
	assert_int_equal(p->prefix_length, 4096);
	assert_int_equal(p->session_headers.n, 1);
	assert_string_equal(p->session_headers.v[0], "x-session-id");
	assert_true(p->weights.prefix == 3 && p->weights.predicted_latency == 0);
	assert_true(p->profile.b_us == 62.5 && p->profile.e_ns == 0.7);
	assert_int_equal(p->profile.batch_tokens, 8192);
	assert_int_equal(p->kv_tokens, 640000);
	assert_true(p->adapter_load_ns == 150000000ull);
	assert_true(p->scrape.interval_ns == 1000000000ull && p->scrape.stale_ns == 5000000000ull);
	assert_int_equal(p->n_backends, 1);
	assert_string_equal(p->backends[0].name, "127.0.0.1:9001");
	assert_string_equal(p->backends[0].host_header, "127.0.0.1:9001");
	assert_string_equal(p->backends[0].path_prefix, "");
	assert_int_equal(p->backends[0].concurrency_threshold, 256);
	assert_int_equal(p->backends[0].sa_len, sizeof(*in));
	assert_int_equal(ntohs(in->sin_port), 9001);
	assert_int_equal(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
	config_unref(cfg);
}

static void test_values(void **state)
{
	struct config *cfg = load_good(
		"limits: {scan: 1.5MiB, body: 0, head: 4096}\n"
		"timeouts: {connect: 15000us, drain: 0, first_token: 2m}\n"
		"workers: 3\nlog: {access: /var/log/kvsteer.log, level: error}\n"
		"pools:\n"
		"  - name: a\n"
		"    models: [base, other]\n"
		"    adapters: [lora]\n"
		"    aliases: {gpt-4o: lora}\n"
		"    policy: kv\n"
		"    concurrency_threshold: 10\n"
		"    session: {headers: [X-One, x-two]}\n"
		"    queue: {max_requests: 0}\n"
		"    backends:\n"
		"      - {url: 'http://[2001:db8::1]/v/', concurrency_threshold: 64}\n"
		"      - {url: 'http://gpu-1.internal:9000/', name: g, extra_ms: 2.5}\n"
		"  - {name: b, backends: [http://10.0.0.1]}\n");
	const struct config_backend *b = cfg->pools[0].backends;
	const struct config_pool *p = cfg->pools;

	assert_int_equal(cfg->limits.scan_bytes, 3 << 19);
	assert_int_equal(cfg->limits.body_bytes, 0);
	assert_int_equal(cfg->limits.head_bytes, 4096);
	assert_int_equal(cfg->timeouts.connect_ns, 15000000);
	assert_int_equal(cfg->timeouts.drain_ns, 0);
	assert_true(cfg->timeouts.first_token_ns == 120000000000ull);
	assert_int_equal(cfg->workers, 3);
	assert_int_equal(cfg->log.access, CONFIG_ACCESS_FILE);
	assert_string_equal(cfg->log.access_path, "/var/log/kvsteer.log");
	assert_int_equal(cfg->log.level, LOG_LVL_ERROR);
	assert_int_equal(p->policy, CONFIG_POLICY_COST);
	assert_string_equal(config_policy_name(p->policy), "cost");
	assert_false(p->any_model);
	assert_false(p->is_default);
	assert_string_equal(p->models.v[1], "other");
	assert_string_equal(p->aliases[0].alias, "gpt-4o");
	assert_string_equal(p->aliases[0].model, "lora");
	assert_string_equal(p->session_headers.v[0], "x-one");
	assert_int_equal(p->queue_max_requests, 0);
	assert_string_equal(b[0].name, "[2001:db8::1]:80/v");
	assert_string_equal(b[0].address, "[2001:db8::1]:80");
	assert_string_equal(b[0].host, "2001:db8::1");
	assert_string_equal(b[0].host_header, "[2001:db8::1]");
	assert_string_equal(b[0].path_prefix, "/v");
	assert_int_equal(b[0].concurrency_threshold, 64);
	assert_int_equal(b[0].sa.ss_family, AF_INET6);
	assert_string_equal(b[1].name, "g");
	assert_string_equal(b[1].host_header, "gpu-1.internal:9000");
	assert_string_equal(b[1].path_prefix, "");
	assert_int_equal(b[1].concurrency_threshold, 10);
	assert_true(b[1].extra_ms == 2.5);
	assert_int_equal(b[1].sa_len, 0);
	/* takes every model that no other pool has, and requests without one */
	assert_true(cfg->pools[1].any_model);
	assert_true(cfg->pools[1].is_default);
	config_unref(cfg);
}

/* The same node in two pools: metrics and commands know backends by their names
 * alone, so each name then says its pool, whatever the order in the file. */
static void test_shared_backends_are_told_apart(void **state)
{
	struct config *cfg = load_good("pools:\n  - {name: a, models: [x], backends: [http://h:1, http://h:2]}\n"
				       "  - {name: b, models: [y], backends: [http://h:1, {url: 'http://h:2', name: two}]}\n");

	assert_string_equal(cfg->pools[0].backends[0].name, "a/h:1");
	assert_string_equal(cfg->pools[1].backends[0].name, "b/h:1");
	assert_string_equal(cfg->pools[0].backends[1].name, "h:2");
	assert_string_equal(cfg->pools[1].backends[1].name, "two");
	config_unref(cfg);
}

/* An explicit default wins over the pool that takes every model, wherever it stands. */
static void test_explicit_default_wins(void **state)
{
	struct config *cfg = load_good("pools:\n  - {name: any, backends: [http://h]}\n"
				       "  - {name: b, models: [y], default: true, backends: [http://i]}\n");

	assert_false(cfg->pools[0].is_default);
	assert_true(cfg->pools[1].is_default);
	config_unref(cfg);
}

/* A body that is refused need not be kept. */
static void test_scan_at_most_body(void **state)
{
	struct config *cfg = load_good("limits: {body: 1MiB}\n" ONE);

	assert_int_equal(cfg->limits.scan_bytes, 1 << 20);
	config_unref(cfg);
}

static void test_prefix_length_with_prefix_aware(void **state)
{
	struct config *cfg = load_good("pools:\n  - prefix_length: 65536\n    policy: prefix_aware\n    backends: [http://h]\n");

	assert_int_equal(cfg->pools[0].prefix_length, 65536);
	config_unref(cfg);
}

/* The interface's example: what it shows is accepted, but for the features that this
 * version lacks and for a key that goes with another policy; those are refused by name. */
static const struct {
	const char *line, *refused; /* refused NULL: accepted */
} interface_lines[] = {
	{ "listeners:\n  - address: 127.0.0.1:8080\n", NULL },
	{ "admin:\n  address: 127.0.0.1:9090\n  socket: /run/kvsteer/admin.sock\n", NULL },
	{ "datapath: auto\n", NULL },
	{ "workers: auto\n", NULL },
	{ "log: {access: stdout, format: kv, level: info}\n", NULL },
	{ "response_headers: true\n", NULL },
	{ "client_half_close: abort\n", NULL },
	{ "trusted_proxies: []\n", NULL },
	{ "allow_paths: []\n", NULL },
	{ "limits: {scan: 8MiB, body: 64MiB, head: 32KiB, headers: 100, connections: 10000, client_buffer: 256KiB}\n", NULL },
	{ "timeouts: {connect: 2s, head: 10s, head_hold: 10s, first_token: 300s, stream_idle: 300s, keepalive: 60s, upstream_idle: 3s, drain: 30s}\n", NULL },
	{ "bpf: {pin: /sys/fs/bpf/kvsteer, instance: default}\n", NULL },
	{ "pools:\n  - name: llama\n", NULL },
	{ "    models: [llama-3.1-70b]\n", NULL },
	{ "    adapters: [support-de, support-fr]\n", NULL },
	{ "    aliases: {gpt-4o: llama-3.1-70b}\n", NULL },
	{ "    rewrite_model: false\n", NULL },
	{ "    default: false\n", NULL },
	{ "    policy: cost\n", NULL },
	{ "    concurrency_threshold: 256\n", NULL },
	{ "    prefix_length: 4096\n", "prefix_length: \"4096\": only with policy: prefix_aware" },
	{ "    session: {headers: [x-session-id]}\n", NULL },
	{ "    weights: {queue: 2, kv_cache: 2, prefix: 3, running_requests: 0, lora_affinity: 1, predicted_latency: 0}\n", NULL },
	{ "    queue: {max_requests: 1000, timeout: 30s}\n", NULL },
	{ "    scrape: {path: /metrics, interval: 1s, stale: 5s, engine: auto}\n", NULL },
	{ "    profile: {a_ms: 15, b_us: 62.5, c_us: 35, d_ns: 17.8, e_ns: 0.7, batch_tokens: 8192, max_seqs: 256}\n", NULL },
	{ "    kv_tokens: 640000\n", NULL },
	{ "    adapter_load: 150ms\n", NULL },
	{ "    on_abort: close\n", NULL },
	{ "    components: []\n", NULL },
	{ "    discover: {}\n", NULL },
	{ "    volatile_heads: []\n", NULL },
	{ "    request_splice: off\n", NULL },
	{ "    cache_isolation: off\n", NULL },
	{ "    forward_credentials: false\n", "forward_credentials: \"false\": not in this version" },
	{ "    usage_sample: 5%\n", NULL },
	{ "    backends:\n      - url: http://127.0.0.1:9001\n"
	  "      - {url: \"http://127.0.0.1:9002\", concurrency_threshold: 64, name: node-2}\n", NULL },
};
#define N_LINES (sizeof(interface_lines) / sizeof(*interface_lines))

static void interface_yaml(char *buf, size_t len, size_t with)
{
	size_t n = 0;

	for (size_t i = 0; i < N_LINES; i++)
		if (!interface_lines[i].refused || i == with)
			n += (size_t)snprintf(buf + n, len - n, "%s", interface_lines[i].line);
	assert_true(n < len);
}

static void test_interface_example(void **state)
{
	char yaml[8192], text[1024];
	struct config *cfg;

	interface_yaml(yaml, sizeof(yaml), N_LINES);
	cfg = load_good(yaml);
	assert_string_equal(cfg->pools[0].backends[1].name, "node-2");
	config_unref(cfg);
	for (size_t i = 0; i < N_LINES; i++) {
		if (!interface_lines[i].refused)
			continue;
		interface_yaml(yaml, sizeof(yaml), i);
		load_bad(yaml, text, sizeof(text));
		if (!strstr(text, interface_lines[i].refused))
			fail_msg("%s: %s", interface_lines[i].line, text);
	}
}

/* docs/kvsteer.example.yaml is good and shows every key. */
static void shown(const char *text, const struct schema_key *keys)
{
	for (const struct schema_key *k = keys; k && k->name; k++) {
		char key[64];

		if (k->flags & SCHEMA_LATER)
			continue;
		snprintf(key, sizeof(key), "%s:", k->name);
		if (!strstr(text, key))
			fail_msg("the example does not show %s", k->name);
		if (k->type == SCHEMA_MAP || k->type == SCHEMA_LIST)
			shown(text, k->type == SCHEMA_MAP ? k->sub : k->item->sub);
	}
}

static char *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "re");
	char *text = calloc(1, 1 << 20);

	if (!f)
		fail_msg("%s: %s (tests run from the top of the tree)", path, strerror(errno));
	*len = fread(text, 1, (1 << 20) - 1, f);
	fclose(f);
	return text;
}

static void test_example_file(void **state)
{
	const char *path = "docs/kvsteer.example.yaml";
	struct config_error err;
	struct config *cfg;
	char text[1024], *yaml;
	size_t len;

	if (config_load_file(path, &cfg, &err))
		fail_msg("%s", config_error_text(&err, text, sizeof(text)));
	assert_string_equal(cfg->file, path);
	config_unref(cfg);
	yaml = read_file(path, &len);
	shown(yaml, schema_root.sub);
	free(yaml);
}

/* docs/configuration.md is what the schema says now. */
static void test_reference_page_is_current(void **state)
{
	char *page, *made = NULL;
	size_t len, made_len;
	FILE *f = open_memstream(&made, &made_len);

	assert_non_null(f);
	schema_write_reference(f);
	fclose(f);
	page = read_file("docs/configuration.md", &len);
	if (len != made_len || memcmp(page, made, len))
		fail_msg("docs/configuration.md is not what `kvsteerd --config-reference` prints");
	free(page);
	free(made);
}

static void test_unreadable_files(void **state)
{
	struct config_error err;
	struct config *cfg;
	char text[1024];

	assert_int_equal(config_load_file("/nonexistent/x", &cfg, &err), -ENOENT);
	assert_string_equal(config_error_text(&err, text, sizeof(text)), "/nonexistent/x: cannot be read: No such file or directory");
	assert_null(cfg);
	assert_int_equal(config_load_file("/", &cfg, &err), -EISDIR);
	assert_null(cfg);
	/* endless: read up to the limit, then refused */
	assert_int_equal(config_load_file("/dev/zero", &cfg, &err), -EINVAL);
	assert_non_null(strstr(err.message, "larger than"));
}

/* Anchors that repeat or contain themselves neither recurse nor explode. */
static void test_anchors(void **state)
{
	struct config *cfg;
	char text[1024];

	load_bad("&a [*a]", text, sizeof(text));
	load_bad("pools: &a\n  - backends: *a\n", text, sizeof(text));
	load_bad("&a pools: *a", text, sizeof(text));
	cfg = load_good("pools:\n  - {name: a, models: [x], weights: &w {queue: 5}, backends: [http://h]}\n"
			"  - {name: b, models: [y], weights: *w, backends: [http://i]}\n");
	assert_true(cfg->pools[1].weights.queue == 5);
	config_unref(cfg);
}

/* Every cut of a good file is refused or accepted, without a fault of memory; with
 * sanitizers this says something. */
static void test_every_truncation(void **state)
{
	char *yaml;
	size_t len;

	yaml = read_file("docs/kvsteer.example.yaml", &len);
	for (size_t n = 0; n < len; n++) {
		struct config_error err;
		struct config *cfg;
		int r = config_load_buffer(yaml, n, "t", &cfg, &err);

		assert_true(r == 0 || r == -EINVAL);
		assert_true(r == 0 || (*err.message && err.line));
		config_unref(cfg);
	}
	free(yaml);
}

static void test_most_backends(void **state)
{
	size_t cap = 1 << 20, n = 0;
	char *yaml = malloc(cap), text[1024];
	struct config *cfg;

	for (unsigned pools = 4; pools <= 5; pools++) {
		n = (size_t)snprintf(yaml, cap, "pools:\n");
		for (unsigned p = 0; p < pools; p++) {
			n += (size_t)snprintf(yaml + n, cap - n, "  - name: p%u\n    models: [m%u]\n    backends:\n", p, p);
			for (unsigned b = 0; b < (p < 4 ? 256 : 1); b++)
				n += (size_t)snprintf(yaml + n, cap - n, "      - http://10.%u.%u.1:9000\n", p, b);
		}
		if (pools == 4) {
			cfg = load_good(yaml);
			assert_int_equal(cfg->pools[3].n_backends, 256);
			assert_string_equal(cfg->pools[3].backends[255].name, "10.3.255.1:9000");
			config_unref(cfg);
		} else {
			load_bad(yaml, text, sizeof(text));
			assert_non_null(strstr(text, "1025 backends in all pools together; allowed: at most 1024"));
		}
	}
	n = (size_t)snprintf(yaml, cap, "pools:\n  - backends:\n");
	for (unsigned b = 0; b < 257; b++)
		n += (size_t)snprintf(yaml + n, cap - n, "      - http://h%u\n", b);
	load_bad(yaml, text, sizeof(text));
	assert_non_null(strstr(text, "pools[0].backends: 257 entries; allowed: 1..256"));
	free(yaml);
}

/* A file of brackets alone took 20 s to refuse: the square of its length. */
static void test_depth_is_bounded(void **state)
{
	const size_t n = 100000;
	char *yaml = malloc(n + 1), text[1024];
	struct timespec t0, t1;

	memset(yaml, '[', n);
	yaml[n] = 0;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
	load_bad(yaml, text, sizeof(text));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
	assert_string_equal(text, "t:1:33: maps and lists inside each other deeper than 32 levels");
	assert_true(t1.tv_sec - t0.tv_sec < 2);
	free(yaml);
}

static void keep_text(void *ctx, const char *text)
{
	snprintf(ctx, 1024, "%s", text);
}

/* Aliases that stay in the body are allowed, and most often not what was meant. */
static void test_alias_without_rewrite_warns(void **state)
{
	struct config *cfg = load_good("pools:\n  - models: [x]\n    aliases: {gpt-4o: x}\n    backends: [http://h]\n");
	char text[1024] = "";

	assert_int_equal(config_warnings(cfg, keep_text, text), 1);
	assert_ptr_equal(strstr(text, "t:3:14: pools[0].aliases: without \"rewrite_model: true\""), text);
	assert_non_null(strstr(text, "\"gpt-4o\""));
	config_unref(cfg);
	cfg = load_good("pools:\n  - models: [x]\n    aliases: {gpt-4o: x}\n    rewrite_model: true\n    backends: [http://h]\n");
	assert_int_equal(config_warnings(cfg, keep_text, text), 0);
	config_unref(cfg);
}

/* The only pool takes requests without a model, and says so; `default: false` is obeyed. */
static void test_only_pool_is_the_default(void **state)
{
	struct config *cfg = load_good("pools:\n  - {models: [x], backends: [http://h]}\n");

	assert_true(cfg->pools[0].is_default);
	config_unref(cfg);
	cfg = load_good("pools:\n  - {models: [x], default: false, backends: [http://h]}\n");
	assert_false(cfg->pools[0].is_default);
	config_unref(cfg);
	cfg = load_good("pools:\n  - {name: a, models: [x], backends: [http://h]}\n  - {name: b, models: [y], backends: [http://i]}\n");
	assert_false(cfg->pools[0].is_default || cfg->pools[1].is_default);
	config_unref(cfg);
}

/* Where a refused address or file stands: the start names line and key. */
static void test_places_of_what_the_system_may_refuse(void **state)
{
	struct config *cfg = load_good("log: {access: /x/y}\nadmin:\n  address: 127.0.0.1:9\nlisteners: [127.0.0.1:8]\n" ONE);
	struct config_error e;
	char text[1024];

	assert_int_equal(cfg->listeners[0].address.line, 4);
	assert_int_equal(cfg->listeners[0].address.column, 13);
	assert_int_equal(cfg->admin.address.line, 3);
	assert_int_equal(cfg->log.line, 1);
	config_error_system(&e, cfg, "log.access", cfg->log.access_path, cfg->log.line, cfg->log.column, "cannot be opened", EACCES);
	assert_string_equal(config_error_text(&e, text, sizeof(text)),
			    "t:1:15: log.access: \"/x/y\": cannot be opened: Permission denied");
	config_unref(cfg);
	cfg = load_good(ONE);
	assert_int_equal(cfg->listeners[0].address.line, 0);
	config_unref(cfg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_one_pool_is_enough),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_shared_backends_are_told_apart),
		cmocka_unit_test(test_explicit_default_wins),
		cmocka_unit_test(test_scan_at_most_body),
		cmocka_unit_test(test_prefix_length_with_prefix_aware),
		cmocka_unit_test(test_interface_example),
		cmocka_unit_test(test_example_file),
		cmocka_unit_test(test_reference_page_is_current),
		cmocka_unit_test(test_unreadable_files),
		cmocka_unit_test(test_anchors),
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_most_backends),
		cmocka_unit_test(test_depth_is_bounded),
		cmocka_unit_test(test_alias_without_rewrite_warns),
		cmocka_unit_test(test_only_pool_is_the_default),
		cmocka_unit_test(test_places_of_what_the_system_may_refuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
