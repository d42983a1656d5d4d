/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvsteer/version.h"
#include "load/options_values.h"

static const char usage[] =
	"usage: kvsteer-load --url URL --model NAME --workload W (--rate R | --concurrency C)\n"
	"                    (--duration S | --requests N) [options]\n"
	"\n"
	"Sends LLM requests over HTTP/1.1 and measures the answers. With --rate the latencies\n"
	"count from the intended time of sending, so a stalled server can't hide behind a\n"
	"stalled client.\n"
	"\n"
	"  --url URL            http://HOST[:PORT][/PATH]\n"
	"  --model NAME         the model asked for\n"
	"  --workload W         " LOAD_KIND_LIST "\n"
	"  --api A              chat, completions or invocations (default chat)\n"
	"  --rate R             open loop: R requests/s\n"
	"  --poisson            exponential gaps (default: even gaps; burst is always Poisson)\n"
	"  --concurrency C      closed loop: C clients, 1..10000\n"
	"  --duration S         measure the requests of S seconds\n"
	"  --requests N         measure N requests\n"
	"  --warmup S           send, but don't count, for S seconds before (default 0)\n"
	"  --prefixes P         number of prompt prefixes (default 1000; long8k 400, lora 64, chat 1)\n"
	"  --prefix-tokens T    tokens of a prefix (default 3008; long8k 8000, chat 256)\n"
	"  --zipf Z             popularity of prefixes ~ 1/rank^Z (default 0.4; burst 0.8)\n"
	"  --question-tokens Q  mean tokens of a question (default 50; chat 120, sharegpt 161)\n"
	"  --output-tokens O    mean tokens of an answer (default 150; chat 250, long8k 200, sharegpt 338)\n"
	"  --sigma S            spread of both lognormal lengths, 0..3; 0: always the mean (default 0.5; sharegpt 1)\n"
	"  --stream 1|0         server-sent events or one JSON answer (default 1)\n"
	"  --time-scale X       trace stamps, think times and burst periods X times faster (default 1)\n"
	"  --timeout S          give up on an answer after S seconds without an event (default 300)\n"
	"  --adapters A,B       model names used in turn, one a prefix (default: lora adapter-0..adapter-31)\n"
	"  --seed N             of every random choice (default 1)\n"
	"  --json FILE          write the results as JSON, - for stdout\n"
	"  --header H           'Name: value' sent with each request, up to 16 times\n"
	"  --insecure           no certificate check; https itself is not in this version\n"
	"  --help, --version\n"
	"\n"
	"Exit code: 0 it ran (errors are in the report), 1 it could not run, 2 wrong usage.\n";

enum { OPT_URL = 256, OPT_MODEL, OPT_WORKLOAD, OPT_API, OPT_RATE, OPT_POISSON, OPT_CONCURRENCY, OPT_DURATION,
       OPT_REQUESTS, OPT_WARMUP, OPT_PREFIXES, OPT_PREFIX_TOKENS, OPT_ZIPF, OPT_QUESTION, OPT_OUTPUT, OPT_SIGMA,
       OPT_STREAM, OPT_TIME_SCALE, OPT_TIMEOUT, OPT_ADAPTERS, OPT_SEED, OPT_JSON, OPT_HEADER, OPT_INSECURE,
       OPT_HELP, OPT_VERSION };

static const struct option longopts[] = {
	{ "url", 1, NULL, OPT_URL }, { "model", 1, NULL, OPT_MODEL }, { "workload", 1, NULL, OPT_WORKLOAD },
	{ "api", 1, NULL, OPT_API }, { "rate", 1, NULL, OPT_RATE }, { "poisson", 0, NULL, OPT_POISSON },
	{ "concurrency", 1, NULL, OPT_CONCURRENCY }, { "duration", 1, NULL, OPT_DURATION },
	{ "requests", 1, NULL, OPT_REQUESTS }, { "warmup", 1, NULL, OPT_WARMUP },
	{ "prefixes", 1, NULL, OPT_PREFIXES }, { "prefix-tokens", 1, NULL, OPT_PREFIX_TOKENS },
	{ "zipf", 1, NULL, OPT_ZIPF }, { "question-tokens", 1, NULL, OPT_QUESTION },
	{ "output-tokens", 1, NULL, OPT_OUTPUT }, { "sigma", 1, NULL, OPT_SIGMA },
	{ "stream", 1, NULL, OPT_STREAM }, { "time-scale", 1, NULL, OPT_TIME_SCALE },
	{ "timeout", 1, NULL, OPT_TIMEOUT }, { "adapters", 1, NULL, OPT_ADAPTERS }, { "seed", 1, NULL, OPT_SEED },
	{ "json", 1, NULL, OPT_JSON }, { "header", 1, NULL, OPT_HEADER }, { "insecure", 0, NULL, OPT_INSECURE },
	{ "help", 0, NULL, OPT_HELP }, { "version", 0, NULL, OPT_VERSION }, { NULL, 0, NULL, 0 },
};

/* Numeric flags: their range, and which field they set. */
struct number {
	int opt;
	double min, max;
	bool whole;
	const char *allowed;
};

static const struct number numbers[] = {
	{ OPT_RATE, 0.001, 100000, false, "0.001..100000 requests/s" },
	{ OPT_CONCURRENCY, 1, LOAD_MAX_CONNECTIONS, true, "a whole number 1..10000" },
	{ OPT_DURATION, 0.1, 1e6, false, "0.1..1000000 seconds" },
	{ OPT_REQUESTS, 1, 1e12, true, "a whole number 1..1000000000000" },
	{ OPT_WARMUP, 0, 1e6, false, "0..1000000 seconds" },
	{ OPT_PREFIXES, 1, 1000000, true, "a whole number 1..1000000" },
	{ OPT_PREFIX_TOKENS, 1, 262144, true, "a whole number 1..262144" },
	{ OPT_ZIPF, 0, 10, false, "0..10" },
	{ OPT_QUESTION, 1, 262144, true, "a whole number 1..262144" },
	{ OPT_OUTPUT, 1, 262144, true, "a whole number 1..262144" },
	{ OPT_SIGMA, 0, 3, false, "0..3" },
	{ OPT_STREAM, 0, 1, true, "1 or 0" },
	{ OPT_TIME_SCALE, 0.001, 1000, false, "0.001..1000" },
	{ OPT_TIMEOUT, 0.1, 1e6, false, "0.1..1000000 seconds" },
	{ OPT_SEED, 0, 9e15, true, "a whole number" },
};

static int lora_names(struct load_options *o)
{
	enum { N = 32, LEN = 24 };

	o->adapter_names = malloc(N * LEN);
	if (!o->adapter_names)
		return -ENOMEM;
	for (int i = 0; i < N; i++) {
		snprintf(o->adapter_names + i * LEN, LEN, "adapter-%d", i);
		o->models[i] = o->adapter_names + i * LEN;
	}
	o->n_models = N;
	return 0;
}

/* A numeric flag, checked against its row. */
static int parse_number(int opt, const char *name, const char *arg, double *out, FILE *err)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		const struct number *n = &numbers[i];
		char *end;
		double v;

		if (n->opt != opt)
			continue;
		errno = 0;
		v = strtod(arg, &end);
		if (end == arg || *end || errno || !(v >= n->min && v <= n->max) || (n->whole && v != floor(v)))
			return load_option_fail(err, "--%s %s: must be %s", name, arg, n->allowed);
		*out = v;
		return 0;
	}
	return -ENOENT;
}

int load_options_parse(struct load_options *o, int argc, char **argv, FILE *out, FILE *err)
{
	struct load_shape set = { 0 };
	bool seen[OPT_VERSION - OPT_URL + 1] = { false };
	const char *model = NULL;
	int opt, index = 0, rc;
	double v = 0;

	*o = (struct load_options){ .stream = true, .time_scale = 1, .timeout_s = 300, .seed = 1 };
	optind = 0;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":", longopts, &index)) != -1) {
		if (opt == ':')
			return load_option_fail(err, "%s needs a value", argv[optind - 1]);
		if (opt < OPT_URL)
			return load_option_fail(err, "unknown flag %s", argv[optind - 1]);
		if (opt == OPT_HELP || opt == OPT_VERSION) {
			fputs(opt == OPT_HELP ? usage : "kvsteer-load " KVSTEER_VERSION "\n", out);
			return 1;
		}
		seen[opt - OPT_URL] = true;
		rc = parse_number(opt, longopts[index].name, optarg, &v, err);
		if (rc && rc != -ENOENT)
			return rc;
		rc = 0;
		switch (opt) {
		case OPT_URL: rc = load_option_url(o, optarg, err); break;
		case OPT_MODEL: model = optarg; break;
		case OPT_WORKLOAD: rc = load_option_workload(o, optarg, err); break;
		case OPT_API:
			if (!strcmp(optarg, "chat"))
				o->api = LOAD_API_CHAT;
			else if (!strcmp(optarg, "completions"))
				o->api = LOAD_API_COMPLETIONS;
			else if (!strcmp(optarg, "invocations"))
				o->api = LOAD_API_INVOCATIONS;
			else
				rc = load_option_fail(err, "--api %s: must be chat, completions or invocations", optarg);
			break;
		case OPT_RATE: o->rate = v; break;
		case OPT_POISSON: o->poisson = true; break;
		case OPT_CONCURRENCY: o->concurrency = (uint32_t)v; break;
		case OPT_DURATION: o->duration_s = v; break;
		case OPT_REQUESTS: o->requests = (uint64_t)v; break;
		case OPT_WARMUP: o->warmup_s = v; break;
		case OPT_PREFIXES: set.prefixes = (uint32_t)v; break;
		case OPT_PREFIX_TOKENS: set.prefix_tokens = (uint32_t)v; break;
		case OPT_ZIPF: set.zipf = v; break;
		case OPT_QUESTION: set.question_tokens = (uint32_t)v; break;
		case OPT_OUTPUT: set.output_tokens = (uint32_t)v; break;
		case OPT_SIGMA: set.sigma = v; break;
		case OPT_STREAM: o->stream = v != 0; break;
		case OPT_TIME_SCALE: o->time_scale = v; break;
		case OPT_TIMEOUT: o->timeout_s = v; break;
		case OPT_ADAPTERS: rc = load_option_adapters(o, optarg, err); break;
		case OPT_SEED: o->seed = (uint64_t)v; break;
		case OPT_JSON: o->json_file = optarg; break;
		case OPT_HEADER: rc = load_option_header(o, optarg, err); break;
		}
		if (rc)
			return rc;
	}
#define SEEN(x) seen[(x) - OPT_URL]
	if (optind < argc)
		return load_option_fail(err, "unexpected argument %s", argv[optind]);
	if (!SEEN(OPT_URL))
		return load_option_fail(err, "--url is missing");
	if (!model)
		return load_option_fail(err, "--model is missing");
	if (!load_option_plain_name(model))
		return load_option_fail(err, "--model: must be up to 255 printable ASCII characters without quote or backslash");
	if (!o->workload)
		return load_option_fail(err, "--workload is missing: " LOAD_KIND_LIST);

	o->shape = load_shape_default(o->kind);
	if (SEEN(OPT_PREFIXES))
		o->shape.prefixes = set.prefixes;
	if (SEEN(OPT_PREFIX_TOKENS))
		o->shape.prefix_tokens = set.prefix_tokens;
	if (SEEN(OPT_ZIPF))
		o->shape.zipf = set.zipf;
	if (SEEN(OPT_QUESTION))
		o->shape.question_tokens = set.question_tokens;
	if (SEEN(OPT_OUTPUT))
		o->shape.output_tokens = set.output_tokens;
	if (SEEN(OPT_SIGMA))
		o->shape.sigma = set.sigma;

	if (o->kind == LOAD_TRACE || o->kind == LOAD_SHAREGPT)
		for (int f = OPT_PREFIXES; f <= (o->kind == LOAD_TRACE ? OPT_SIGMA : OPT_ZIPF); f++)
			if (SEEN(f))
				return load_option_fail(err, "--%s has no meaning with --workload %s",
					    longopts[f - OPT_URL].name, o->kind == LOAD_TRACE ? "trace" : "sharegpt");
	if (o->shape.hot_share > 0 && o->shape.prefixes < 2)
		return load_option_fail(err, "--prefixes %u: hot needs 2 at least", o->shape.prefixes);
	if ((uint64_t)o->shape.prefixes * o->shape.prefix_tokens > (1ull << 29))
		return load_option_fail(err, "--prefixes %u with --prefix-tokens %u: more than 2 GiB of text", o->shape.prefixes,
			    o->shape.prefix_tokens);
	if (SEEN(OPT_RATE) && SEEN(OPT_CONCURRENCY))
		return load_option_fail(err, "--rate and --concurrency exclude each other");
	if (o->kind == LOAD_TRACE && SEEN(OPT_RATE))
		return load_option_fail(err, "--rate: a trace has its own times, use --time-scale");
	if (o->kind == LOAD_BURST && SEEN(OPT_CONCURRENCY))
		return load_option_fail(err, "--concurrency: burst is an open loop, use --rate");
	if (o->kind != LOAD_TRACE && !SEEN(OPT_RATE) && !SEEN(OPT_CONCURRENCY))
		return load_option_fail(err, "--rate or --concurrency is missing");
	if (SEEN(OPT_POISSON) && SEEN(OPT_CONCURRENCY))
		return load_option_fail(err, "--poisson: a closed loop has no arrivals of its own");
	if (SEEN(OPT_DURATION) && SEEN(OPT_REQUESTS))
		return load_option_fail(err, "--duration and --requests exclude each other");
	if (o->kind != LOAD_TRACE && !SEEN(OPT_DURATION) && !SEEN(OPT_REQUESTS))
		return load_option_fail(err, "--duration or --requests is missing");
	if (!o->n_models) {
		o->models[0] = model;
		o->n_models = 1;
		if (o->kind == LOAD_LORA && lora_names(o))
			return load_option_fail(err, "out of memory");
	}
	return 0;
}

void load_options_free(struct load_options *o)
{
	free(o->adapter_names);
	o->adapter_names = NULL;
}
