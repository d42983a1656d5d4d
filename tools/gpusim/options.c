/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gpusim/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvsteer/version.h"

static const char *const fault_name[SIM_FAULT_KINDS] = {
	[SIM_FAULT_REFUSE] = "refuse", [SIM_FAULT_HANG] = "hang", [SIM_FAULT_RESET] = "reset",
	[SIM_FAULT_5XX] = "5xx", [SIM_FAULT_SLOW_METRICS] = "slow-metrics", [SIM_FAULT_BYTE] = "byte",
	[SIM_FAULT_BUSY] = "busy", [SIM_FAULT_BUSY_STREAM] = "busy-stream", [SIM_FAULT_LOADING] = "loading",
	[SIM_FAULT_STALL] = "stall", [SIM_FAULT_RESTART] = "restart",
};

struct parse {
	struct sim_options *o;
	char *err;
	size_t err_size;
	bool have_model;
};

static int refuse(struct parse *p, const char *flag, const char *value, const char *allowed)
{
	snprintf(p->err, p->err_size, "%s: \"%s\" is not allowed; give %s", flag, value, allowed);
	return -EINVAL;
}

static bool number(const char *s, double min, double max, double *out)
{
	char *end;
	double v;

	if (!*s || strchr(" \t\n+", *s))
		return false;
	errno = 0;
	v = strtod(s, &end);
	if (*end || errno || !isfinite(v) || v < min || v > max)
		return false;
	*out = v;
	return true;
}

static int whole(struct parse *p, const char *flag, const char *s, double min, double max, double *out)
{
	char allowed[80];

	if (number(s, min, max, out) && *out == floor(*out))
		return 0;
	snprintf(allowed, sizeof(allowed), "a whole number from %.0f to %.0f", min, max);
	return refuse(p, flag, s, allowed);
}

/* -- one function a flag -- */

static int set_nodes(struct parse *p, const char *flag, const char *s)
{
	double v;
	int ret = whole(p, flag, s, 1, SIM_MAX_NODES, &v);

	if (!ret)
		p->o->nodes = (int)v;
	return ret;
}

static int set_port(struct parse *p, const char *flag, const char *s)
{
	double v;
	int ret = whole(p, flag, s, 1, 65535, &v);

	if (!ret)
		p->o->port = (int)v;
	return ret;
}

static int set_model(struct parse *p, const char *flag, const char *s)
{
	if (!*s || strlen(s) > 200)
		return refuse(p, flag, s, "a name of 1 to 200 bytes");
	p->o->model = s;
	p->have_model = true;
	return 0;
}

static int set_adapters(struct parse *p, const char *flag, const char *s)
{
	for (const char *at = s; ; at++) {
		size_t len = strcspn(at, ",");

		if (!len || len > 200 || p->o->adapters == SIM_MAX_ADAPTERS)
			return refuse(p, flag, s, "up to 64 names of 1 to 200 bytes, parted by commas");
		for (int i = 0; i < p->o->adapters; i++)
			if (!strncmp(p->o->adapter[i], at, len) && !p->o->adapter[i][len])
				return refuse(p, flag, s, "every name once");
		p->o->adapter[p->o->adapters] = strndup(at, len);
		if (!p->o->adapter[p->o->adapters])
			return -ENOMEM;
		p->o->adapters++;
		at += len;
		if (!*at)
			return 0;
	}
}

static int set_speed(struct parse *p, const char *flag, const char *s)
{
	int n = 0;

	for (const char *at = s; ; at++) {
		size_t len = strcspn(at, ",");
		char one[32];
		double v;

		if (len >= sizeof(one) || n == SIM_MAX_NODES)
			return refuse(p, flag, s, "numbers from 0.01 to 100, parted by commas");
		memcpy(one, at, len);
		one[len] = '\0';
		if (!number(one, 0.01, 100, &v))
			return refuse(p, flag, s, "numbers from 0.01 to 100, parted by commas");
		p->o->speed[n++] = v;
		at += len;
		if (!*at)
			break;
	}
	while (n < SIM_MAX_NODES) {	/* fewer than nodes: the last one repeats */
		p->o->speed[n] = p->o->speed[n - 1];
		n++;
	}
	return 0;
}

static int set_kv_tokens(struct parse *p, const char *flag, const char *s)
{
	double v;
	int ret = whole(p, flag, s, 1024, 100e6, &v);

	if (!ret)
		p->o->kv_tokens = (uint32_t)v;
	return ret;
}

static int set_time_scale(struct parse *p, const char *flag, const char *s)
{
	if (!number(s, 0.01, 100, &p->o->time_scale))
		return refuse(p, flag, s, "a number from 0.01 to 100 (2 runs twice as fast)");
	return 0;
}

static int set_seed(struct parse *p, const char *flag, const char *s)
{
	double v;
	int ret = whole(p, flag, s, 0, 4294967295.0, &v);

	if (!ret)
		p->o->seed = (uint64_t)v;
	return ret;
}

static int set_max_seqs(struct parse *p, const char *flag, const char *s)
{
	double v;
	int ret = whole(p, flag, s, 1, 8192, &v);

	if (!ret)
		p->o->max_seqs = (uint32_t)v;
	return ret;
}

static int set_max_queued(struct parse *p, const char *flag, const char *s)
{
	double v;
	int ret = whole(p, flag, s, 0, 65536, &v);

	if (!ret)
		p->o->max_queued = (uint32_t)v;
	return ret;
}

static int set_fault(struct parse *p, const char *flag, const char *s)
{
	char why[256];

	if (p->o->faults == SIM_MAX_FAULTS)
		return refuse(p, flag, s, "at most 64 faults");
	if (sim_fault_parse(&p->o->fault[p->o->faults], s, why, sizeof(why)))
		return refuse(p, flag, s, why);
	p->o->faults++;
	return 0;
}

static const struct {
	const char *name, *value, *text;
	int (*set)(struct parse *p, const char *flag, const char *value);
} flags[] = {
	{ "--nodes", "N", "GPU nodes to simulate, 1 to 256 (1)", set_nodes },
	{ "--port", "P", "node i listens on 127.0.0.1:P+i (9001)", set_port },
	{ "--model", "NAME", "the served model (required)", set_model },
	{ "--adapters", "A,B,...", "LoRA adapters, served by name beside the model", set_adapters },
	{ "--speed", "S,S,...", "speed of each node against the reference GPU; the last repeats (1)", set_speed },
	{ "--kv-tokens", "T", "KV cache of each node in tokens (640000)", set_kv_tokens },
	{ "--time-scale", "X", "the model's clock runs X times as fast (1)", set_time_scale },
	{ "--seed", "N", "answers' texts and lengths depend on it (1)", set_seed },
	{ "--max-seqs", "N", "running requests a node (256)", set_max_seqs },
	{ "--max-queued", "N", "running + waiting requests a node before it answers 503; 0: no limit (0)", set_max_queued },
	{ "--fault", "SPEC", "NODE:KIND[@START[+SECONDS]], from START seconds after ready; may be repeated", set_fault },
};

void sim_options_help(FILE *to)
{
	fputs("Usage: kvsteer-gpusim --model NAME [OPTION]...\n\n"
	      "Simulates GPU nodes that speak vLLM's HTTP API, with a model of its scheduler and prefix cache,\n"
	      "in real time. Prints one line when all nodes listen. SIGTERM ends it.\n\n", to);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		fprintf(to, "  %-12s %-8s %s\n", flags[i].name, flags[i].value, flags[i].text);
	fputs("  --help, --version\n\nKinds of fault:\n"
	      "  refuse        the port is closed            hang          accepts, never answers\n"
	      "  reset         RST in the middle of answers  5xx           inference answers 500 at once\n"
	      "  slow-metrics  /metrics takes 3 s            byte          answers are written byte by byte\n"
	      "  busy          503, engine busy              busy-stream   streams: 200, an error event, [DONE]\n"
	      "  loading       503 on every path             stall         no tokens, only comment lines\n"
	      "  restart       requests fail, the port closes for SECONDS (default 0), the cache is empty\n\n"
	      "NODE counts from 0. Example: --fault 2:refuse@10+5 closes node 2 from second 10 to second 15.\n", to);
}

int sim_options_parse(struct sim_options *o, int argc, char **argv, char *err, size_t err_size)
{
	struct parse p = { .o = o, .err = err, .err_size = err_size };

	memset(o, 0, sizeof(*o));
	o->nodes = 1;
	o->port = 9001;
	o->kv_tokens = 640000;
	o->time_scale = 1;
	o->seed = 1;
	o->max_seqs = 256;
	for (int i = 0; i < SIM_MAX_NODES; i++)
		o->speed[i] = 1;
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i], *eq = strchr(arg, '='), *value;
		size_t len = eq ? (size_t)(eq - arg) : strlen(arg), k = 0;
		int ret;

		if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
			o->help = true;
			return 0;
		}
		if (!strcmp(arg, "--version")) {
			o->version = true;
			return 0;
		}
		while (k < sizeof(flags) / sizeof(flags[0]) &&
		       (strlen(flags[k].name) != len || strncmp(flags[k].name, arg, len)))
			k++;
		if (k == sizeof(flags) / sizeof(flags[0])) {
			snprintf(err, err_size, "\"%s\" is not a flag; --help lists them", arg);
			return -EINVAL;
		}
		value = eq ? eq + 1 : argv[++i];
		if (!value) {
			snprintf(err, err_size, "%s: needs a value (%s): %s", flags[k].name, flags[k].value, flags[k].text);
			return -EINVAL;
		}
		ret = flags[k].set(&p, flags[k].name, value);
		if (ret)
			return ret;
	}
	if (!p.have_model) {
		snprintf(err, err_size, "--model is required: the name of the served model");
		return -EINVAL;
	}
	if (o->port + o->nodes - 1 > 65535) {
		snprintf(err, err_size, "--port: %d with %d nodes ends beyond 65535", o->port, o->nodes);
		return -EINVAL;
	}
	for (int i = 0; i < o->adapters; i++) {
		if (strcmp(o->adapter[i], o->model))
			continue;
		snprintf(err, err_size, "--adapters: \"%s\" is the model's own name; give another", o->model);
		return -EINVAL;
	}
	for (int i = 0; i < o->faults; i++) {
		if (o->fault[i].node < o->nodes)
			continue;
		snprintf(err, err_size, "--fault: node %d does not exist; give 0 to %d", o->fault[i].node, o->nodes - 1);
		return -EINVAL;
	}
	return 0;
}

void sim_options_free(struct sim_options *o)
{
	for (int i = 0; i < o->adapters; i++)
		free(o->adapter[i]);
	o->adapters = 0;
}

int sim_fault_parse(struct sim_fault *f, const char *spec, char *err, size_t err_size)
{
	const char *colon = strchr(spec, ':'), *kind = colon ? colon + 1 : "", *at = strchr(kind, '@');
	size_t len = at ? (size_t)(at - kind) : strlen(kind);
	char copy[64], *plus;
	double start = 0, seconds = -1, node;

	memset(f, 0, sizeof(*f));
	if (!colon || (size_t)(colon - spec) >= sizeof(copy)) {
		snprintf(err, err_size, "NODE:KIND[@START[+SECONDS]]");
		return -EINVAL;
	}
	memcpy(copy, spec, (size_t)(colon - spec));
	copy[colon - spec] = '\0';
	if (!number(copy, 0, SIM_MAX_NODES - 1, &node) || node != floor(node)) {
		snprintf(err, err_size, "a NODE from 0 to the number of nodes - 1 before the colon");
		return -EINVAL;
	}
	f->node = (int)node;
	for (f->kind = 0; f->kind < SIM_FAULT_KINDS; f->kind++)
		if (strlen(fault_name[f->kind]) == len && !strncmp(fault_name[f->kind], kind, len))
			break;
	if (f->kind == SIM_FAULT_KINDS) {
		size_t n = (size_t)snprintf(err, err_size, "a KIND out of");

		for (int i = 0; i < SIM_FAULT_KINDS && n < err_size; i++)
			n += (size_t)snprintf(err + n, err_size - n, " %s", fault_name[i]);
		return -EINVAL;
	}
	if (at) {
		snprintf(copy, sizeof(copy), "%s", at + 1);
		plus = strchr(copy, '+');
		if (plus)
			*plus++ = '\0';
		if (!number(copy, 0, 1e6, &start) || (plus && !number(plus, 0, 1e6, &seconds))) {
			snprintf(err, err_size, "seconds from 0 to 1000000 after @ and +");
			return -EINVAL;
		}
	}
	f->start_ns = (uint64_t)(start * 1e9);
	f->end_ns = seconds >= 0 ? f->start_ns + (uint64_t)(seconds * 1e9) : UINT64_MAX;
	if (f->kind == SIM_FAULT_RESTART && seconds < 0)
		f->end_ns = f->start_ns;	/* back at once */
	return 0;
}

uint32_t sim_faults_at(const struct sim_options *o, int node, uint64_t t_ns)
{
	uint32_t mask = 0;

	for (int i = 0; i < o->faults; i++)
		if (o->fault[i].node == node && o->fault[i].start_ns <= t_ns && t_ns < o->fault[i].end_ns)
			mask |= 1u << o->fault[i].kind;
	return mask;
}

uint64_t sim_faults_next(const struct sim_options *o, uint64_t t_ns)
{
	uint64_t next = UINT64_MAX;

	for (int i = 0; i < o->faults; i++) {
		if (o->fault[i].start_ns > t_ns && o->fault[i].start_ns < next)
			next = o->fault[i].start_ns;
		if (o->fault[i].end_ns > t_ns && o->fault[i].end_ns < next)
			next = o->fault[i].end_ns;
	}
	return next;
}
