/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* kvsteerd: arguments only; control/daemon.c runs. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/schema.h"
#include "control/daemon.h"
#include "kvsteer/version.h"

static const struct {
	struct option opt;
	const char *arg, *help;
} options[] = {
	{ { "config", required_argument, NULL, 'c' }, "FILE", "the configuration (see docs/configuration.md)" },
	{ { "check", no_argument, NULL, 'k' }, NULL, "check the configuration and exit: 0 good, 2 faulty" },
	{ { "config-reference", no_argument, NULL, 'r' }, NULL, "print the reference page of the configuration" },
	{ { "version", no_argument, NULL, 'V' }, NULL, "print the version" },
	{ { "help", no_argument, NULL, 'h' }, NULL, "print this text" },
};
#define N_OPTIONS (sizeof(options) / sizeof(*options))

static void usage(FILE *out)
{
	fputs("Usage: kvsteerd -c FILE [--check]\n       kvsteerd --config-reference | --version | "
	      "--help\n\nOptions:\n",
	      out);
	for (size_t i = 0; i < N_OPTIONS; i++) {
		char name[64];
		int c = options[i].opt.val;

		snprintf(name, sizeof(name), "--%s%s%s", options[i].opt.name, options[i].arg ? " " : "",
			 options[i].arg ? options[i].arg : "");
		if (strchr("chV", c))
			fprintf(out, "  -%c, %-22s %s\n", c, name, options[i].help);
		else
			fprintf(out, "      %-22s %s\n", name, options[i].help);
	}
	fputs("\nSignals: SIGHUP reloads, SIGTERM and SIGINT drain (a second one ends at once).\n"
	      "Exit: 0 good or drained, 1 failed, 2 wrong usage or configuration.\n",
	      out);
}

static void say_warning(void *ctx, const char *text)
{
	fprintf(stderr, "kvsteerd: warning: %s\n", text);
}

static int check(const char *file)
{
	struct config_error err;
	struct config *cfg;
	unsigned backends = 0;
	char text[1024];
	int r = config_load_file(file, &cfg, &err);

	if (r) {
		fprintf(stderr, "kvsteerd: %s\n", config_error_text(&err, text, sizeof(text)));
		return 2;
	}
	for (unsigned i = 0; i < cfg->n_pools; i++)
		backends += cfg->pools[i].n_backends;
	printf("%s: good: %u listener%s, %u pool%s, %u backend%s\n", file, cfg->n_listeners,
	       cfg->n_listeners == 1 ? "" : "s", cfg->n_pools, cfg->n_pools == 1 ? "" : "s", backends,
	       backends == 1 ? "" : "s");
	config_warnings(cfg, say_warning, NULL);
	config_unref(cfg);
	return 0;
}

int main(int argc, char **argv)
{
	struct option longopts[N_OPTIONS + 1] = { 0 };
	const char *file = NULL;
	bool only_check = false;
	int c;

	for (size_t i = 0; i < N_OPTIONS; i++)
		longopts[i] = options[i].opt;
	while ((c = getopt_long(argc, argv, "c:hV", longopts, NULL)) != -1) {
		switch (c) {
		case 'c':
			if (file) {
				fprintf(stderr, "kvsteerd: two configurations, \"%s\" and \"%s\"; one is read\n", file, optarg);
				return 2;
			}
			file = optarg;
			break;
		case 'k': only_check = true; break;
		case 'r': schema_write_reference(stdout); return fflush(stdout) ? 1 : 0;
		case 'V': puts("kvsteerd " KVSTEER_VERSION); return 0;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "kvsteerd: unexpected argument \"%s\"\n", argv[optind]);
		usage(stderr);
		return 2;
	}
	if (!file) {
		fputs("kvsteerd: no configuration; give one with -c FILE\n", stderr);
		return 2;
	}
	return only_check ? check(file) : daemon_run(file, argc, argv);
}
