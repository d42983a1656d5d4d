/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Every key of the schema has a value that is accepted and one that is refused;
 * a key added without both fails here. */
#include "help.h"

#include <stdbool.h>

#include "config/schema.h"

struct key_row {
	const char *path, *value;
	const char *message; /* NULL: accepted; else a part of the error */
};

#define LATER "not in this version"

static const struct key_row rows[] = {
	{ "listeners", "[]", "0 entries; allowed: 1..64" },
	{ "listeners", "['[::1]:80', {address: '*:81'}]", NULL },
	{ "listeners", "8080", "not a list" },
	{ "listeners[].address", "127.0.0.1:8081", NULL },
	{ "listeners[].address", "localhost:8081", NULL },
	{ "listeners[].address", "'[2001:db8::1]:65535'", NULL },
	{ "listeners[].address", "127.0.0.1", "no port" },
	{ "listeners[].address", "127.0.0.1:0", "not a port (1..65535)" },
	{ "listeners[].address", "127.0.0.1:65536", "not a port" },
	{ "listeners[].address", "'127.0.0.1: 80'", "not a port" },
	{ "listeners[].address", "example.org:80", "not an address" },
	{ "listeners[].address", "'::1:80'", "an IPv6 address needs brackets" },
	{ "listeners[].address", "'[::1:80'", "no ]" },
	{ "listeners[].address", "'[::1]80'", "not HOST:PORT" },
	{ "listeners[].address", "'[127.0.0.1]:80'", "not an address" },
	{ "listeners[].tls", "{}", LATER },
	{ "admin.address", "127.0.0.1:1", NULL },
	{ "admin.address", "off", NULL },
	{ "admin.address", "9090", "no port; allowed: ADDRESS:PORT, such as 127.0.0.1:8080 or [::]:8080, or off" },
	{ "admin.socket", "/tmp/x.sock", NULL },
	{ "admin.socket", "off", NULL },
	{ "admin.socket", "x.sock", "not absolute" },
	{ "admin.socket", "/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678", "too long" },
	{ "datapath", "auto", NULL },
	{ "datapath", "relay", NULL },
	{ "datapath", "splice", NULL },
	{ "datapath", "kernel", "unknown value; allowed: auto, relay, splice" },
	{ "workers", "auto", NULL },
	{ "workers", "64", NULL },
	{ "workers", "0", "out of range; allowed: 1..64, or auto" },
	{ "workers", "-1", "out of range" },
	{ "workers", "1.5", "not a whole number" },
	{ "workers", "99999999999999999999999", "out of range" },
	{ "log.access", "stdout", NULL },
	{ "log.access", "off", NULL },
	{ "log.access", "/var/log/x", NULL },
	{ "log.access", "stderr", "allowed: stdout, off, an absolute file name" },
	{ "log.format", "json", NULL },
	{ "log.format", "xml", "unknown value; allowed: kv, json" },
	{ "log.level", "debug", NULL },
	{ "log.level", "loud", "allowed: error, warn, info, debug" },
	{ "response_headers", "false", NULL },
	{ "response_headers", "no", "not a boolean; allowed: true, false" },
	{ "client_half_close", "deliver", NULL },
	{ "client_half_close", "ignore", "allowed: abort, deliver" },
	{ "trusted_proxies", "[10.0.0.0/8, '::1', 'fd00::/8', 0.0.0.0/0]", NULL },
	{ "trusted_proxies", "[10.0.0.0/33]", "prefix length out of range" },
	{ "trusted_proxies", "[10.0.0.0/]", "not a prefix length" },
	{ "trusted_proxies", "[10.0.0.0/+8]", "not a prefix length" },
	{ "trusted_proxies", "[10.0.0]", "not an address" },
	{ "trusted_proxies", "[proxy.example.org]", "not an address" },
	{ "allow_paths", "[/tokenize, /v2/]", NULL },
	{ "allow_paths", "[tokenize]", "not absolute" },
	{ "allow_paths", "['/a?b']", "a character that is not allowed" },
	{ "limits.scan", "64KiB", NULL },
	{ "limits.scan", "1048576", NULL },
	{ "limits.scan", "1.5MiB", NULL },
	{ "limits.scan", "63KiB", "out of range; allowed: 64KiB..256MiB" },
	{ "limits.scan", "8MB", "unknown unit (B, KiB, MiB, GiB)" },
	{ "limits.scan", "65536.5", "not a whole number of bytes" },
	{ "limits.scan", "1e6", "not a size" },
	{ "limits.body", "0", NULL },
	{ "limits.body", "512B", "out of range; allowed: 1KiB..1024GiB, or 0" },
	{ "limits.body", "99999999999GiB", "out of range" },
	{ "limits.head", "1MiB", NULL },
	{ "limits.head", "2MiB", "out of range" },
	{ "limits.headers", "8", NULL },
	{ "limits.headers", "7", "out of range; allowed: 8..1000" },
	{ "limits.connections", "1000000", NULL },
	{ "limits.connections", "0", "out of range" },
	{ "limits.client_buffer", "16KiB", NULL },
	{ "limits.client_buffer", "0", "out of range" },
	{ "timeouts.connect", "10ms", NULL },
	{ "timeouts.connect", "2", "a duration without a unit (us, ms, s, m, h); allowed: 10ms..60s" },
	{ "timeouts.connect", "61s", "out of range" },
	{ "timeouts.head", "5m", NULL },
	{ "timeouts.head", "5min", "unknown unit (us, ms, s, m, h)" },
	{ "timeouts.head_hold", "1.5s", NULL },
	{ "timeouts.head_hold", "-1s", "out of range" },
	{ "timeouts.first_token", "24h", NULL },
	{ "timeouts.first_token", "25h", "out of range; allowed: 100ms..24h" },
	{ "timeouts.stream_idle", "100ms", NULL },
	{ "timeouts.stream_idle", "99999us", "out of range" },
	{ "timeouts.keepalive", "1h", NULL },
	{ "timeouts.keepalive", "never", "not a duration" },
	{ "timeouts.upstream_idle", "0", NULL },
	{ "timeouts.upstream_idle", "0s", NULL },
	{ "timeouts.upstream_idle", "1ms", "out of range; allowed: 10ms..1h, or 0" },
	{ "timeouts.drain", "0", NULL },
	{ "timeouts.drain", "25h", "out of range" },
	{ "timeouts.handover", "1h", LATER },
	{ "bpf.pin", "/sys/fs/bpf/other", NULL },
	{ "bpf.pin", "bpf", "not absolute" },
	{ "bpf.instance", "blue", NULL },
	{ "bpf.instance", "''", "empty; allowed: 1..64 of letters" },
	{ "pools", "[]", "0 entries; allowed: 1..256" },
	{ "pools", "[{backends: ['http://h']}]", NULL },
	{ "pools[].name", "llama-3.1_70b", NULL },
	{ "pools[].name", "two words", "a character that is not allowed" },
	{ "pools[].name", "''", "empty; allowed: 1..64 of letters" },
	{ "pools[].models", "[meta-llama/Llama-3.1-70B, 'mit Leerzeichen und Ümlaut']", NULL },
	{ "pools[].models", "m", "not a list" },
	{ "pools[].models", "[[m]]", "not a name" },
	{ "pools[].models", "[\"a\\tb\"]", "a character that is not allowed" },
	{ "pools[].models", "[\"a\\0b\"]", "NUL" },
	{ "pools[].adapters", "[a]", "adapters need a base model" },
	{ "pools[].adapters", "[]", NULL },
	{ "pools[].aliases", "{}", NULL },
	{ "pools[].aliases", "{gpt-4o: m}", "not one of this pool's models or adapters" },
	{ "pools[].aliases", "[gpt-4o]", "not a map" },
	{ "pools[].rewrite_model", "true", NULL },
	{ "pools[].rewrite_model", "1", "not a boolean" },
	{ "pools[].default", "true", NULL },
	{ "pools[].default", "maybe", "not a boolean" },
	{ "pools[].policy", "cost", NULL },
	{ "pools[].policy", "prefix_aware", NULL },
	{ "pools[].policy", "session", NULL },
	{ "pools[].policy", "least_request", NULL },
	{ "pools[].policy", "round_robin", NULL },
	{ "pools[].policy", "weighted", NULL },
	{ "pools[].policy", "prefix", NULL },
	{ "pools[].policy", "kv", NULL },
	{ "pools[].policy", "round-robin", NULL },
	{ "pools[].policy", "random", "unknown value; allowed: cost, prefix_aware, session, least_request, round_robin, weighted, prefix, kv, round-robin" },
	{ "pools[].concurrency_threshold", "1024", NULL },
	{ "pools[].concurrency_threshold", "1025", "out of range; allowed: 1..1024" },
	{ "pools[].prefix_length", "4096", "only with policy: prefix_aware" },
	{ "pools[].prefix_length", "1023", "out of range; allowed: 1024..65536" },
	{ "pools[].session.headers", "[X-Session-Id, x-claude-code-session-id]", NULL },
	{ "pools[].session.headers", "[]", "0 entries; allowed: 1..16" },
	{ "pools[].session.headers", "['x id']", "a character that is not allowed" },
	{ "pools[].weights.queue", "2", NULL },
	{ "pools[].weights.queue", "-1", "out of range" },
	{ "pools[].weights.kv_cache", "0.5", NULL },
	{ "pools[].weights.kv_cache", "nan", "not a number" },
	{ "pools[].weights.prefix", "1000", NULL },
	{ "pools[].weights.prefix", "1001", "out of range; allowed: 0..1000" },
	{ "pools[].weights.running_requests", "0", NULL },
	{ "pools[].weights.running_requests", "inf", "not a number" },
	{ "pools[].weights.lora_affinity", "1.25", NULL },
	{ "pools[].weights.lora_affinity", "0x10", "not a number" },
	{ "pools[].weights.predicted_latency", "3", NULL },
	{ "pools[].weights.predicted_latency", "1e3", "not a number" },
	{ "pools[].queue.max_requests", "0", NULL },
	{ "pools[].queue.max_requests", "1000001", "out of range" },
	{ "pools[].queue.timeout", "1ms", NULL },
	{ "pools[].queue.timeout", "0s", "out of range" },
	{ "pools[].scrape.path", "/m/metrics", NULL },
	{ "pools[].scrape.path", "metrics", "not absolute" },
	{ "pools[].scrape.interval", "250ms", NULL },
	{ "pools[].scrape.interval", "249ms", "out of range; allowed: 250ms..1h" },
	{ "pools[].scrape.interval", "5s", "scrape.stale must be more than scrape.interval" },
	{ "pools[].scrape.stale", "2s", NULL },
	{ "pools[].scrape.stale", "1s", "scrape.stale must be more than scrape.interval" },
	{ "pools[].scrape.engine", "vllm", NULL },
	{ "pools[].scrape.engine", "llamacpp", NULL },
	{ "pools[].scrape.engine", "sglang", "not in this version; allowed: auto, vllm, llamacpp" },
	{ "pools[].scrape.engine", "tgi", "unknown value" },
	{ "pools[].profile.a_ms", "15", NULL },
	{ "pools[].profile.a_ms", "10001", "out of range" },
	{ "pools[].profile.b_us", "62.5", NULL },
	{ "pools[].profile.b_us", "0", "out of range; allowed: above 0, at most 1000000" },
	{ "pools[].profile.b_us", "'62,5'", "not a number" },
	{ "pools[].profile.c_us", "0", NULL },
	{ "pools[].profile.c_us", "x", "not a number" },
	{ "pools[].profile.d_ns", "17.8", NULL },
	{ "pools[].profile.d_ns", "17.", "not a number" },
	{ "pools[].profile.e_ns", "0.7", NULL },
	{ "pools[].profile.e_ns", ".7", "not a number" },
	{ "pools[].profile.batch_tokens", "16", NULL },
	{ "pools[].profile.batch_tokens", "15", "out of range" },
	{ "pools[].profile.max_seqs", "1", NULL },
	{ "pools[].profile.max_seqs", "0", "out of range" },
	{ "pools[].kv_tokens", "1024", NULL },
	{ "pools[].kv_tokens", "640k", "not a whole number" },
	{ "pools[].adapter_load", "1ms", NULL },
	{ "pools[].adapter_load", "11m", "out of range; allowed: 1ms..600s" },
	{ "pools[].on_abort", "drain", NULL },
	{ "pools[].on_abort", "keep", "allowed: close, drain" },
	{ "pools[].backends", "[]", "0 entries; allowed: 1..256" },
	{ "pools[].backends", "[http://a, {url: 'http://b'}]", NULL },
	{ "pools[].components", "[]", NULL },
	{ "pools[].components", "[a]", LATER },
	{ "pools[].discover", "{}", NULL },
	{ "pools[].discover", "{dns: x, port: 1}", LATER },
	{ "pools[].volatile_heads", "[]", NULL },
	{ "pools[].volatile_heads", "['Current date: *', '[request *] ']", NULL },
	{ "pools[].volatile_heads", "['**']", "would match everything" },
	{ "pools[].volatile_heads", "['']", "empty; allowed: 1..128 bytes of a line of text" },
	{ "pools[].volatile_heads", "[\"two\\nlines\"]", "has a character that is not allowed" },
	{ "pools[].request_splice", "off", NULL },
	{ "pools[].request_splice", "full", LATER },
	{ "pools[].cache_isolation", "off", NULL },
	{ "pools[].cache_isolation", "tenant", LATER },
	{ "pools[].forward_credentials", "true", LATER },
	{ "pools[].usage_sample", "0%", NULL },
	{ "pools[].usage_sample", "100%", NULL },
	{ "pools[].usage_sample", "5", "not a percentage such as 5%" },
	{ "pools[].usage_sample", "101%", "out of range" },
	{ "pools[].backends[].url", "http://127.0.0.1:9001", NULL },
	{ "pools[].backends[].url", "HTTP://gpu-1.internal/llm/a/", NULL },
	{ "pools[].backends[].url", "'http://[2001:db8::1]:9001'", NULL },
	{ "pools[].backends[].url", "https://127.0.0.1", "https: not in this version; allowed: http://HOST[:PORT][/PREFIX]" },
	{ "pools[].backends[].url", "127.0.0.1:9001", "not a URL of http" },
	{ "pools[].backends[].url", "http://", "no host" },
	{ "pools[].backends[].url", "http://h:0", "not a port" },
	{ "pools[].backends[].url", "'http://h:'", "not a port" },
	{ "pools[].backends[].url", "http://1.2.3", "not a host" },
	{ "pools[].backends[].url", "http://h_1,h2", "not a host" },
	{ "pools[].backends[].url", "'http://[h]'", "not a host" },
	{ "pools[].backends[].url", "'http://::1'", "an IPv6 address needs brackets" },
	{ "pools[].backends[].url", "http://u:p@h", "a URL with credentials" },
	{ "pools[].backends[].url", "'http://h/?x'", "a URL with a query" },
	{ "pools[].backends[].url", "http://h/a/../b", "not a path prefix" },
	{ "pools[].backends[].url", "http://h//b", "not a path prefix" },
	{ "pools[].backends[].url", "'http://h/a b'", "not a path prefix" },
	{ "pools[].backends[].url", "\"http://h/a\\r\\nX: y\"", "not a path prefix" },
	{ "pools[].backends[].url", "http://h/%2", "not a path prefix" },
	{ "pools[].backends[].name", "node-2", NULL },
	{ "pools[].backends[].name", "'node\"2'", "a character that is not allowed" },
	{ "pools[].backends[].concurrency_threshold", "1", NULL },
	{ "pools[].backends[].concurrency_threshold", "0", "out of range; allowed: 1..1024" },
	{ "pools[].backends[].extra_ms", "12.5", NULL },
	{ "pools[].backends[].extra_ms", "12ms", "not a number" },
};
#define N_ROWS (sizeof(rows) / sizeof(*rows))

/* A file with that one key, and what any file must have. Each row's key stands alone on its line. */
static void row_yaml(const struct key_row *r, char *buf, size_t len)
{
	static const char pool[] = "pools[].", backend[] = "pools[].backends[].", listener[] = "listeners[].";
	const char *p = r->path, *dot;

	if (!strncmp(p, backend, sizeof(backend) - 1)) {
		const char *k = p + sizeof(backend) - 1;

		snprintf(buf, len, "pools:\n  - backends:\n      - %s%s: %s\n", strcmp(k, "url") ? "url: http://h\n        " : "", k, r->value);
	} else if (!strncmp(p, pool, sizeof(pool) - 1)) {
		const char *k = p + sizeof(pool) - 1;

		dot = strchr(k, '.');
		snprintf(buf, len, "pools:\n  - %s%.*s:%s%s%s %s%s\n", strcmp(k, "backends") ? "backends: [http://127.0.0.1:9001]\n    " : "",
			 dot ? (int)(dot - k) : (int)strlen(k), k, dot ? " {" : "", dot ? dot + 1 : "", dot ? ":" : "", r->value, dot ? "}" : "");
	} else if (!strncmp(p, listener, sizeof(listener) - 1)) {
		const char *k = p + sizeof(listener) - 1;

		snprintf(buf, len, "listeners:\n  - %s%s: %s\npools:\n  - backends: [http://h]\n", strcmp(k, "address") ? "address: '*:1'\n    " : "",
			 k, r->value);
	} else if (!strcmp(p, "pools")) {
		snprintf(buf, len, "pools: %s\n", r->value);
	} else {
		dot = strchr(p, '.');
		snprintf(buf, len, "%.*s:%s%s%s %s%s\npools:\n  - backends: [http://h]\n", dot ? (int)(dot - p) : (int)strlen(p), p,
			 dot ? " {" : "", dot ? dot + 1 : "", dot ? ":" : "", r->value, dot ? "}" : "");
	}
}

static void test_rows(void **state)
{
	char yaml[1024], text[1024];

	for (size_t i = 0; i < N_ROWS; i++) {
		row_yaml(&rows[i], yaml, sizeof(yaml));
		if (!rows[i].message) {
			config_unref(load_good(yaml));
			continue;
		}
		load_bad(yaml, text, sizeof(text));
		if (!strstr(text, rows[i].message))
			fail_msg("%s: %s: \"%s\" does not say \"%s\"", rows[i].path, rows[i].value, text, rows[i].message);
	}
}

static bool row_exists(const char *path, bool good)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (!strcmp(rows[i].path, path) && !rows[i].message == good)
			return true;
	return false;
}

static unsigned walk(const char *path, const struct schema_key *keys)
{
	unsigned n = 0;

	for (const struct schema_key *k = keys; k && k->name; k++) {
		const struct schema_key *sub = k->type == SCHEMA_MAP ? k->sub : k->type == SCHEMA_LIST ? k->item->sub : NULL;
		bool later = k->flags & SCHEMA_LATER;
		char child[128];

		snprintf(child, sizeof(child), "%s%s%s", path, *path ? "." : "", k->name);
		assert_non_null(k->doc);
		if (k->type != SCHEMA_MAP || later) {
			if (!row_exists(child, false))
				fail_msg("%s: no value that is refused", child);
			/* adapters, prefix_length: accepted together with other keys only, see test_load.c */
			if ((!later || k->neutral) && strcmp(child, "pools[].prefix_length") && !row_exists(child, true))
				fail_msg("%s: no value that is accepted", child);
			n++;
		}
		if (sub && !later) {
			if (k->type == SCHEMA_LIST)
				strcat(child, "[]");
			n += walk(child, sub);
		}
		/* a value of a later version is refused by name */
		for (const struct schema_value *v = k->values; v && v->name; v++)
			assert_true(!(v->flags & SCHEMA_LATER) || row_exists(child, false));
	}
	return n;
}

static void test_every_key_has_rows(void **state)
{
	unsigned n = walk("", schema_root.sub);

	assert_true(n > 60);
}

/* Each default, written out, is a value that its own row accepts. */
static void check_defaults(const struct schema_key *keys)
{
	for (const struct schema_key *k = keys; k && k->name; k++) {
		if (k->type == SCHEMA_MAP || k->type == SCHEMA_LIST)
			check_defaults(k->type == SCHEMA_MAP ? k->sub : k->item->sub);
		if (k->def && k->type != SCHEMA_LIST) {
			struct arena a = { 0 };
			char base[4096] = { 0 }, why[320];

			if (schema_parse_scalar(k, k->def, base, &a, why, sizeof(why)))
				fail_msg("%s: default %s: %s", k->name, k->def, why);
			arena_free(&a);
		}
	}
}

static void test_defaults_are_valid(void **state)
{
	check_defaults(schema_root.sub);
}

/* What a message says is allowed is what the parser allows: both ends of every numeric range. */
static void check_ranges(const struct schema_key *keys)
{
	for (const struct schema_key *k = keys; k && k->name; k++) {
		uint64_t edge[4] = { k->min, k->max, k->min - 1, k->max + 1 };

		if (k->type == SCHEMA_MAP || k->type == SCHEMA_LIST)
			check_ranges(k->type == SCHEMA_MAP ? k->sub : k->item->sub);
		if (k->type != SCHEMA_UINT && k->type != SCHEMA_SIZE && k->type != SCHEMA_DURATION)
			continue;
		for (unsigned i = 0; i < 4; i++) {
			char base[4096] = { 0 }, why[320], text[64];
			struct arena a = { 0 };
			int r;

			if (i == 2 && (!k->min || (k->min == 1 && k->flags & SCHEMA_ZERO)))
				continue;
			if (k->type == SCHEMA_DURATION) {
				/* a range's ends are whole milliseconds: a microsecond beyond is outside */
				uint64_t us = edge[i < 2 ? i : i - 2] / 1000 + (i == 3) - (i == 2);

				snprintf(text, sizeof(text), "%lluus", (unsigned long long)us);
			} else {
				snprintf(text, sizeof(text), "%llu", (unsigned long long)edge[i]);
			}
			r = schema_parse_scalar(k, text, base, &a, why, sizeof(why));
			if ((r == 0) != (i < 2))
				fail_msg("%s: %s: %s", k->name, text, r ? why : "accepted");
			if (!r && k->type != SCHEMA_DURATION) {
				uint64_t v = 0;

				memcpy(&v, base + k->offset, k->size);
				assert_int_equal(v, edge[i]);
			}
			arena_free(&a);
		}
	}
}

static void test_range_ends(void **state)
{
	check_ranges(schema_root.sub);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_every_key_has_rows),
		cmocka_unit_test(test_defaults_are_valid),
		cmocka_unit_test(test_range_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
