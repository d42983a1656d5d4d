/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/ask.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const commands[][2] = {
	{ "run", "one replay for each policy, workload and seed (the default)" },
	{ "regret", "how far each policy is from the oracle on each workload" },
	{ "capacity", "the largest rate with p99 TTFT below 2 s" },
	{ "scaling", "a node joins, a node leaves" },
	{ "check", "against the reference figures; exit code 1 if one is missed" },
	{ "picture", "TTFT against rate for each policy, as SVG (--out FILE)" },
	{ "list", "workloads and policies" },
};

enum { OPT_SEEDS = 256, OPT_TRACE, OPT_OUT, OPT_JSON, OPT_QUICK, OPT_WARMUP, OPT_PRECISION, OPT_HELP };

static const struct option options[] = {
	{ "policy", required_argument, NULL, 'p' },   { "workload", required_argument, NULL, 'w' },
	{ "rate", required_argument, NULL, 'r' },     { "seed", required_argument, NULL, 's' },
	{ "seeds", required_argument, NULL, OPT_SEEDS }, { "seconds", required_argument, NULL, 't' },
	{ "warmup", required_argument, NULL, OPT_WARMUP }, { "trace", required_argument, NULL, OPT_TRACE },
	{ "precision", required_argument, NULL, OPT_PRECISION }, { "out", required_argument, NULL, OPT_OUT },
	{ "json", no_argument, NULL, OPT_JSON },      { "quick", no_argument, NULL, OPT_QUICK },
	{ "help", no_argument, NULL, OPT_HELP },      { NULL, 0, NULL, 0 },
};

static void usage(FILE *f)
{
	fputs("usage: kvsteer-replay [COMMAND] [options]\n\n"
	      "Replays workloads on a simulated fleet of seven GPU nodes, with the daemon's policies and others.\n\n",
	      f);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(f, "  %-10s %s\n", commands[i][0], commands[i][1]);
	fputs("\n"
	      "  -p, --policy NAME[,NAME...]     default: the command's\n"
	      "  -w, --workload NAME[,NAME...]   default: the command's\n"
	      "  -r, --rate N                    requests a second, 0.01..100000 (default: the workload's)\n"
	      "  -s, --seed N                    the first seed, 0..2^63 (default 1)\n"
	      "      --seeds N                   how many, 1..99 (default: 1 for run, 3 for regret, 2 for capacity)\n"
	      "  -t, --seconds S                 measured time, 1..100000 (default: the workload's)\n"
	      "      --warmup S                  not measured before, 0.001..100000 (default: the workload's)\n"
	      "      --precision X               of capacities, 0.001..0.5 (default 0.01)\n"
	      "      --trace FILE                Mooncake trace, for mc-conv and het-mc\n"
	      "      --quick                     coarser and shorter\n"
	      "      --out FILE                  where the picture goes\n"
	      "      --json                      results as one JSON object\n",
	      f);
}

static int list(void)
{
	puts("workloads");
	for (uint32_t i = 0; i < replay_n_workloads; i++) {
		const struct replay_workload *w = &replay_workloads[i];

		printf("  %-16s %6.1f/s  %u gateway%s%s%s\n", w->name, w->rate, w->gateways,
		       w->gateways > 1 ? "s" : "", w->mixed ? ", three slow nodes" : "",
		       w->content == REPLAY_TRACE ? ", wants --trace" : "");
	}
	puts("policies");
	for (uint32_t i = 0; i < replay_n_policies; i++)
		printf("  %-20s %s\n", replay_policies[i].name, replay_policies[i].what);
	return 0;
}

static bool number(const char *name, const char *text, double least, double most, double *out)
{
	char *end;

	*out = strtod(text, &end);
	if (*text && !*end && *out >= least && *out <= most)
		return true;
	fprintf(stderr, "kvsteer-replay: --%s: \"%s\" is not a number from %g to %g\n", name, text, least, most);
	return false;
}

static bool add_name(struct replay_ask *a, bool policy, const char *name)
{
	uint32_t *n = policy ? &a->policies : &a->workloads;
	const struct replay_policy *p = policy ? replay_policy_find(name) : NULL;
	const struct replay_workload *w = policy ? NULL : replay_workload_find(name);

	if (!p && !w) {
		fprintf(stderr, "kvsteer-replay: no %s named \"%s\" (see kvsteer-replay list)\n",
			policy ? "policy" : "workload", name);
		return false;
	}
	if (*n == REPLAY_LIST_MAX) {
		fprintf(stderr, "kvsteer-replay: more than %d names\n", REPLAY_LIST_MAX);
		return false;
	}
	if (policy)
		a->policy[(*n)++] = p;
	else
		a->workload[(*n)++] = w;
	return true;
}

static bool add_names(struct replay_ask *a, bool policy, const char *text)
{
	char name[64];

	while (*text) {
		size_t n = strcspn(text, ",");

		if (snprintf(name, sizeof(name), "%.*s", (int)n, text) >= (int)sizeof(name))
			n = sizeof(name) - 1; /* no such name */
		if (!add_name(a, policy, name))
			return false;
		text += n + (text[n] == ',');
	}
	return true;
}

static bool take_option(struct replay_ask *a, int c)
{
	double v = 0;

	switch (c) {
	case 'p':
	case 'w':
		return add_names(a, c == 'p', optarg);
	case 'r':
		return number("rate", optarg, 0.01, 1e5, &a->rate);
	case 't':
		return number("seconds", optarg, 1, 1e5, &a->seconds);
	case OPT_WARMUP:
		return number("warmup", optarg, 0.001, 1e5, &a->warmup);
	case OPT_PRECISION:
		return number("precision", optarg, 0.001, 0.5, &a->precision);
	case 's':
		if (!number("seed", optarg, 0, 9.2e18, &v))
			return false;
		a->seed = strtoull(optarg, NULL, 10);
		return true;
	case OPT_SEEDS:
		if (!number("seeds", optarg, 1, 99, &v))
			return false;
		a->seeds = (uint32_t)v;
		return true;
	case OPT_TRACE:
		a->trace = optarg;
		return true;
	case OPT_OUT:
		a->out = optarg;
		return true;
	case OPT_JSON:
		a->json = true;
		return true;
	case OPT_QUICK:
		a->quick = true;
		return true;
	}
	return false;
}

const char *replay_ask_parse(int argc, char **argv, struct replay_ask *a, int *code)
{
	const char *command = "run";
	int c;

	*a = (struct replay_ask){ .seed = 1, .precision = 0.01 };
	*code = 2;
	if (argc > 1 && argv[1][0] != '-') {
		command = argv[1];
		argv++;
		argc--;
	}
	optind = 1;
	while ((c = getopt_long(argc, argv, "p:w:r:s:t:h", options, NULL)) != -1) {
		if (c == 'h' || c == OPT_HELP) {
			usage(stdout);
			*code = 0;
			return NULL;
		}
		if (!take_option(a, c))
			return NULL;
	}
	if (optind < argc) {
		fprintf(stderr, "kvsteer-replay: \"%s\" is one word too many\n", argv[optind]);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(command, commands[i][0]))
			goto known;
	fprintf(stderr, "kvsteer-replay: no command \"%s\" (see --help)\n", command);
	return NULL;
known:
	if (!strcmp(command, "list")) {
		*code = list();
		return NULL;
	}
	return command;
}

void replay_ask_defaults(struct replay_ask *a, const char *const *policies, const char *const *workloads)
{
	if (!a->policies)
		for (; *policies; policies++)
			add_name(a, true, *policies);
	if (!a->workloads)
		for (; *workloads; workloads++)
			add_name(a, false, *workloads);
}

struct replay_run replay_ask_run(const struct replay_ask *a, const struct replay_workload *w,
				 const struct replay_policy *p)
{
	return (struct replay_run){ .w = w, .policy = p, .rate = a->rate, .seed = a->seed, .warmup_s = a->warmup,
				    .measure_s = a->seconds, .trace = a->trace };
}

bool replay_ask_skips(const struct replay_ask *a, const struct replay_workload *w)
{
	if (w->content != REPLAY_TRACE || a->trace)
		return false;
	fprintf(stderr, "kvsteer-replay: %s left out: no --trace FILE\n", w->name);
	return true;
}

void replay_progress(uint32_t done, uint32_t all, const char *format, ...)
{
	va_list ap;

	if (!isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r\033[K[%u/%u] ", done, all);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fflush(stderr);
}

void replay_progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}
