/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Questions to a snapshot: trusted peers, allowed paths, names, references. */
#include "help.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>

#define POOL "pools:\n  - backends: [http://127.0.0.1:9001]\n"

static bool trusted(const struct config *cfg, const char *addr)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	if (strchr(addr, ':')) {
		assert_int_equal(inet_pton(AF_INET6, addr, &in6.sin6_addr), 1);
		return config_trusted(cfg, (struct sockaddr *)&in6);
	}
	assert_int_equal(inet_pton(AF_INET, addr, &in.sin_addr), 1);
	return config_trusted(cfg, (struct sockaddr *)&in);
}

static void test_trusted(void **state)
{
	struct config *cfg = load_good("trusted_proxies: [10.1.2.3/9, 192.168.7.7, 'fd00::/7', '2001:db8::1']\n" POOL), *all;
	struct sockaddr un = { .sa_family = AF_UNIX };

	assert_true(trusted(cfg, "10.0.0.1"));
	assert_true(trusted(cfg, "10.127.255.255"));
	assert_false(trusted(cfg, "10.128.0.0"));
	assert_false(trusted(cfg, "11.0.0.1"));
	assert_true(trusted(cfg, "192.168.7.7"));
	assert_false(trusted(cfg, "192.168.7.6"));
	/* a listener on [::] sees IPv4 clients so */
	assert_true(trusted(cfg, "::ffff:10.0.0.1"));
	assert_false(trusted(cfg, "::ffff:11.0.0.1"));
	assert_true(trusted(cfg, "fc12::1"));
	assert_false(trusted(cfg, "fe80::1"));
	assert_true(trusted(cfg, "2001:db8::1"));
	assert_false(trusted(cfg, "2001:db8::2"));
	assert_false(config_trusted(cfg, &un));
	config_unref(cfg);

	all = load_good("trusted_proxies: [0.0.0.0/0]\n" POOL);
	assert_true(trusted(all, "255.1.2.3"));
	assert_false(trusted(all, "::1"));
	config_unref(all);
}

static bool allowed(const struct config *cfg, const char *path)
{
	return config_path_allowed(cfg, path, strlen(path));
}

static void test_allow_paths(void **state)
{
	static const char *const yes[] = { "/tokenize", "/v2/", "/v2/x", "/v2/x/y.z", "/v2/a..b/c", "/v2/%41" };
	static const char *const no[] = {
		"/", "/tokenize/", "/tokenizer", "/Tokenize", "/v2", "/v3/x", "/v2/..", "/v2/../admin", "/v2/./x", "/v2/.", "/v2/%2e%2e/admin",
		"/v2/%2E./admin", "/v2/..%2fadmin", "/v2/..%5cadmin", "/v2/..\\admin", "/v2/..;/admin", "/v2/x%00", "/v2/%2",
	};
	struct config *cfg = load_good("allow_paths: [/tokenize, /v2/]\n" POOL), *none = load_good(POOL);

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++) {
		if (!allowed(cfg, yes[i]))
			fail_msg("%s is not allowed", yes[i]);
		assert_false(allowed(none, yes[i]));
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		if (allowed(cfg, no[i]))
			fail_msg("%s is allowed", no[i]);
	config_unref(cfg);
	config_unref(none);
}

static void test_resolve(void **state)
{
	struct config *cfg = load_good("pools:\n  - backends: [http://127.0.0.1:1, 'http://localhost:9002']\n");
	const struct config_backend *b = cfg->pools[0].backends;
	struct config_error err;
	char text[1024];

	assert_int_equal(b[1].sa_len, 0);
	assert_int_equal(config_resolve(cfg, &err), 0);
	assert_true(b[1].sa_len > 0);
	if (b[1].sa.ss_family == AF_INET)
		assert_int_equal(ntohs(((const struct sockaddr_in *)&b[1].sa)->sin_port), 9002);
	else
		assert_int_equal(ntohs(((const struct sockaddr_in6 *)&b[1].sa)->sin6_port), 9002);
	config_unref(cfg);

	/* RFC 6761 section 6.4: .invalid never resolves */
	cfg = load_good("pools:\n  - backends: [http://127.0.0.1:1, 'http://no-such-host.invalid:9002', 'http://localhost:9003']\n");
	assert_int_equal(config_resolve(cfg, &err), -EHOSTUNREACH);
	config_error_text(&err, text, sizeof(text));
	if (strncmp(text, "t:2:36: pools[0].backends[1].url: \"http://no-such-host.invalid:9002\": host cannot be resolved: ", 95))
		fail_msg("%s", text);
	/* one name in vain is no reason to leave the others */
	assert_non_null(cfg->pools[0].backends[1].unresolved);
	assert_null(cfg->pools[0].backends[2].unresolved);
	assert_true(cfg->pools[0].backends[2].sa_len > 0);
	assert_int_equal(config_resolve(cfg, &err), 0); /* tried once */
	config_unref(cfg);
}

static void *take_and_drop(void *arg)
{
	for (int i = 0; i < 20000; i++)
		config_unref(config_ref(arg));
	config_unref(arg);
	return NULL;
}

/* The last of several threads frees, once: the sanitizers' builds would tell. */
static void test_references(void **state)
{
	struct config *cfg = load_good(POOL);
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, take_and_drop, config_ref(cfg)), 0);
	config_unref(cfg);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_null(config_ref(NULL));
	config_unref(NULL);
}

static void test_names(void **state)
{
	assert_string_equal(config_policy_name(CONFIG_POLICY_ROUND_ROBIN), "round_robin");
	assert_string_equal(config_policy_name(CONFIG_POLICY_COST), "cost");
	assert_string_equal(config_engine_name(CONFIG_ENGINE_LLAMACPP), "llamacpp");
	assert_string_equal(config_datapath_name(CONFIG_DATAPATH_RELAY), "relay");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trusted),	   cmocka_unit_test(test_allow_paths), cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_references), cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
