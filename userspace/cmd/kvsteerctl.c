/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* kvsteerctl [-s SOCKET] [-j] NOUN VERB: finds the row of the command and runs it. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cmd/ctl.h"
#include "kvsteer/version.h"

static const struct {
	struct option opt;
	const char *arg, *help;
} options[] = {
	{ { "socket", required_argument, NULL, 's' }, "SOCKET", "the daemon's admin socket (default " CTL_SOCKET ")" },
	{ { "json", no_argument, NULL, 'j' }, NULL, "print JSON, also for errors" },
	{ { "header", required_argument, NULL, 'H' }, "'NAME: VALUE'", "a header of the request that route explain is about; more than once" },
	{ { "version", no_argument, NULL, 'V' }, NULL, "print the version" },
	{ { "help", no_argument, NULL, 'h' }, NULL, "print this text" },
};
#define N_OPTIONS (sizeof(options) / sizeof(*options))

static const struct ctl_command *const tables[] = { ctl_status_commands, ctl_backend_commands, ctl_route_commands,
						    ctl_daemon_commands };
#define N_TABLES (sizeof(tables) / sizeof(*tables))

static void usage(FILE *out)
{
	char text[64];

	fputs("Usage: kvsteerctl [-s SOCKET] [-j] NOUN [VERB] [ARGUMENT]\n\nCommands:\n", out);
	for (size_t t = 0; t < N_TABLES; t++)
		for (const struct ctl_command *c = tables[t]; c->noun; c++) {
			snprintf(text, sizeof(text), "%s%s%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "",
				 c->args ? " " : "", c->args ? c->args : "");
			fprintf(out, "  %-28s %s\n", text, c->help);
		}
	fputs("\nOptions:\n", out);
	for (size_t i = 0; i < N_OPTIONS; i++) {
		snprintf(text, sizeof(text), "--%s%s%s", options[i].opt.name, options[i].arg ? " " : "",
			 options[i].arg ? options[i].arg : "");
		fprintf(out, "  -%c, %-24s %s\n", options[i].opt.val, text, options[i].help);
	}
	fputs("\nExit: 0 done, 1 failed, 2 wrong usage.\n", out);
}

#define HEADER_ALLOWED "allowed is 'NAME: VALUE', neither empty, and no field of the connection or of the body's length"

static bool header_ok(const char *s)
{
	static const char *const ours[] = { "host", "connection", "content-length", "content-type", "transfer-encoding", "expect",
					    "te", "upgrade", "trailer" };
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!#$%&'*+^`|~");

	if (!n || s[n] != ':' || !s[n + 1 + strspn(s + n + 1, " \t")])
		return false;
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < ' ' && *p != '\t')
			return false;
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (strlen(ours[i]) == n && !strncasecmp(s, ours[i], n))
			return false;
	return true;
}

/* The noun is right, its verb is not or is missing: those that there are. */
static int no_verb(const struct ctl *ctl, int argc, char **argv)
{
	char verbs[256] = "";

	for (size_t t = 0; t < N_TABLES; t++)
		for (const struct ctl_command *c = tables[t]; c->noun; c++) {
			size_t n = strlen(verbs);

			if (!strcmp(c->noun, argv[0]) && c->verb)
				snprintf(verbs + n, sizeof(verbs) - n, "%s%s%s%s", n ? " | " : "", c->verb, c->args ? " " : "",
					 c->args ? c->args : "");
		}
	if (argc > 1)
		return ctl_error(ctl, CTL_USAGE, "usage", "%s: no verb of %s; usage: kvsteerctl %s %s", argv[1], argv[0], argv[0],
				 verbs);
	return ctl_error(ctl, CTL_USAGE, "usage", "usage: kvsteerctl %s %s", argv[0], verbs);
}

/* argv[0] is the noun. */
static int run(const struct ctl *ctl, int argc, char **argv)
{
	const struct ctl_command *noun = NULL;

	for (size_t t = 0; t < N_TABLES; t++)
		for (const struct ctl_command *c = tables[t]; c->noun; c++) {
			int skip = c->verb ? 2 : 1, args = argc - skip;

			if (strcmp(c->noun, argv[0]))
				continue;
			noun = c;
			if (c->verb && (argc < 2 || strcmp(c->verb, argv[1])))
				continue;
			if (ctl->headers[0] && strcmp(c->noun, "route"))
				return ctl_error(ctl, CTL_USAGE, "usage", "--header is for route explain");
			if (args < c->min_args || args > c->max_args)
				return ctl_error(ctl, CTL_USAGE, "usage", "usage: kvsteerctl %s%s%s%s%s", c->noun,
						 c->verb ? " " : "", c->verb ? c->verb : "", c->args ? " " : "",
						 c->args ? c->args : "");
			return c->fn(ctl, args, argv + skip);
		}
	if (noun)
		return no_verb(ctl, argc, argv);
	return ctl_error(ctl, CTL_USAGE, "usage", "%s: no such command; see kvsteerctl --help", argv[0]);
}

int main(int argc, char **argv)
{
	struct option longopts[N_OPTIONS + 1] = { 0 };
	struct ctl ctl = { .socket = CTL_SOCKET };
	unsigned n_headers = 0;
	int c, r;

	for (size_t i = 0; i < N_OPTIONS; i++)
		longopts[i] = options[i].opt;
	while ((c = getopt_long(argc, argv, "s:jH:Vh", longopts, NULL)) != -1) {
		switch (c) {
		case 's': ctl.socket = optarg; break;
		case 'j': ctl.json = true; break;
		case 'H':
			if (n_headers == CTL_HEADERS_MAX || !header_ok(optarg))
				return ctl_error(&ctl, CTL_USAGE, "usage", "--header %s: %s", optarg,
						 n_headers == CTL_HEADERS_MAX ? "16 of them at most" : HEADER_ALLOWED);
			ctl.headers[n_headers++] = optarg;
			break;
		case 'V': puts("kvsteerctl " KVSTEER_VERSION); return 0;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return CTL_USAGE;
		}
	}
	if (optind == argc) {
		if (!ctl.json) {
			usage(stderr);
			return CTL_USAGE;
		}
		return ctl_error(&ctl, CTL_USAGE, "usage", "no command; see kvsteerctl --help");
	}
	r = run(&ctl, argc - optind, argv + optind);
	if (fflush(stdout) && r == CTL_OK)
		r = CTL_FAILED;
	return r;
}
