/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Checks the node model (tools/node) against reference figures of an independent
 * simulator of the same model: a fleet of 7 nodes, driven offline by events, cold
 * at the start, under round-robin and under a sticky choice by rendezvous hashing.
 *
 *	node_reference [CASE...]	all cases without an argument
 *
 * Exit status 1 if a figure is further from its reference than allowed: 10 %,
 * p99 20 %. Median of seeds 1..3.
 *
 * Lengths are lognormal of the given mean with sigma 0.5: that spread gives the
 * reference's end-to-end medians (sigma 1 would put the median of a 150-token
 * answer at 91, sigma 0 at 150; the reference needs 132). */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/node.h"

#define NODES 7
#define SIGMA 0.5
#define SEEDS 3

struct ref_case {
	const char *name, *policy;	/* round_robin | sticky */
	const char *workload;		/* support | chat */
	double rate;			/* Poisson, requests a second; 0: closed loop */
	uint32_t clients;		/* closed loop */
	uint32_t prefixes, prefix_tokens;
	double zipf, question, answer;
	double warmup_s, measure_s;
	/* reference; 0: none */
	double hit, p50, p90, p99, e2e, rps, itl_ms;
};

static const struct ref_case cases[] = {
	{ "support-38", "round_robin", "support", 38, 0, 1000, 3008, .4, 50, 150, 100, 300,
	  .245, .318, .759, 1.25, 14.9, 0, 0 },
	{ "support-38-sticky", "sticky", "support", 38, 0, 1000, 3008, .4, 50, 150, 100, 300, 0, 0, 0, 0, 0, 0, 0 },
	{ "closed-70", "round_robin", "support", 0, 70, 1000, 3008, .4, 50, 150, 100, 300,
	  .252, .217, .225, .231, 0, 18.1, 24.9 },
	{ "closed-70-sticky", "sticky", "support", 0, 70, 1000, 3008, .4, 50, 150, 100, 300, 0, 0, 0, 0, 0, 0, 0 },
	{ "long8k-10", "round_robin", "support", 10, 0, 400, 8000, .4, 50, 200, 200, 600,
	  .241, .551, .689, .948, 0, 0, 0 },
	{ "chat-80", "round_robin", "chat", 80, 0, 0, 256, 0, 120, 250, 200, 300,
	  .346, .083, .254, .543, 6.82, 0, 0 },
};

/* -- random numbers: splitmix64, the same on every machine -- */

static uint64_t rng_next(uint64_t *s)
{
	uint64_t z = (*s += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static double rng_unit(uint64_t *s)
{
	return (double)(rng_next(s) >> 11) * 0x1p-53;
}

static double rng_exp(uint64_t *s, double mean)
{
	return -mean * log1p(-rng_unit(s));
}

static double rng_normal(uint64_t *s)
{
	return sqrt(-2 * log1p(-rng_unit(s))) * cos(2 * M_PI * rng_unit(s));
}

static uint32_t rng_length(uint64_t *s, double mean)
{
	double v = mean * exp(SIGMA * rng_normal(s) - SIGMA * SIGMA / 2);

	return v < 1 ? 1 : (uint32_t)lround(v);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t s = a ^ b * 0x9e3779b97f4a7c15ull;

	return rng_next(&s);
}

/* -- growing arrays of figures -- */

struct series {
	double *v;
	size_t n, room;
};

static void *must(void *p)
{
	if (!p) {
		perror("node_reference");
		exit(2);
	}
	return p;
}

static void series_add(struct series *s, double v)
{
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 4096;
		s->v = must(realloc(s->v, s->room * sizeof(*s->v)));
	}
	s->v[s->n++] = v;
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double series_quantile(struct series *s, double q)
{
	if (!s->n)
		return NAN;
	qsort(s->v, s->n, sizeof(*s->v), cmp_double);
	return s->v[(size_t)(q * (double)(s->n - 1) + .5)];
}

/* -- the fleet -- */

struct request {
	uint64_t arrive_ns, first_ns;
	uint32_t prompt, output, cached;
	struct talk *talk;
};

/* A conversation: its tokens so far are a chain of blocks that all turns share. */
struct talk {
	uint64_t id;
	uint32_t tokens;
	uint64_t due_ns;	/* next turn */
};

struct fleet {
	const struct ref_case *c;
	struct node *node[NODES];
	uint64_t end_ns[NODES];
	uint64_t rng, serial, rr;
	double *cdf;
	struct talk **heap;	/* waiting for their next turn, by due_ns */
	size_t heap_n, heap_room;
	uint64_t hash[8192];
	struct series ttft, e2e, itl;
	uint64_t prompt_tokens, cached_tokens, done;
	uint64_t from_ns, to_ns;
};

static void heap_push(struct fleet *f, struct talk *t)
{
	size_t i = f->heap_n++;

	if (f->heap_n > f->heap_room) {
		f->heap_room = f->heap_room ? 2 * f->heap_room : 1024;
		f->heap = must(realloc(f->heap, f->heap_room * sizeof(*f->heap)));
	}
	for (; i && f->heap[(i - 1) / 2]->due_ns > t->due_ns; i = (i - 1) / 2)
		f->heap[i] = f->heap[(i - 1) / 2];
	f->heap[i] = t;
}

static struct talk *heap_pop(struct fleet *f)
{
	struct talk *top = f->heap[0], *last = f->heap[--f->heap_n];
	size_t i = 0, k;

	for (; (k = 2 * i + 1) < f->heap_n; i = k) {
		if (k + 1 < f->heap_n && f->heap[k + 1]->due_ns < f->heap[k]->due_ns)
			k++;
		if (f->heap[k]->due_ns >= last->due_ns)
			break;
		f->heap[i] = f->heap[k];
	}
	f->heap[i] = last;
	return top;
}

static int pick_node(struct fleet *f, uint64_t key)
{
	int best = 0;

	if (!strcmp(f->c->policy, "round_robin"))
		return (int)(f->rr++ % NODES);
	for (int i = 1; i < NODES; i++)
		if (mix(key, 1000 + (uint64_t)i) > mix(key, 1000 + (uint64_t)best))
			best = i;
	return best;
}

static void submit(struct fleet *f, uint64_t now, struct talk *talk)
{
	const struct ref_case *c = f->c;
	struct request *r = must(calloc(1, sizeof(*r)));
	uint64_t serial = ++f->serial, key, shared_id;
	uint32_t shared, blocks, first = 0;
	struct node_request nr;
	int n;

	r->arrive_ns = now;
	r->output = rng_length(&f->rng, c->answer);
	if (talk) {
		/* 256 tokens that all share, then the conversation's own chain. */
		talk->tokens += rng_length(&f->rng, c->question);
		r->prompt = talk->tokens;
		talk->tokens += r->output;
		r->talk = talk;
		key = shared_id = talk->id;
		shared = r->prompt + r->output;
		first = c->prefix_tokens / 16;
	} else {
		double u = rng_unit(&f->rng);
		uint32_t lo = 0, hi = c->prefixes - 1;

		while (lo < hi) {
			uint32_t mid = (lo + hi) / 2;

			if (f->cdf[mid] > u)
				hi = mid;
			else
				lo = mid + 1;
		}
		key = shared_id = lo + 1;
		shared = c->prefix_tokens;
		r->prompt = c->prefix_tokens + rng_length(&f->rng, c->question);
	}
	blocks = (r->prompt + r->output) / 16;
	if (blocks > 8192)
		blocks = 8192;
	for (uint32_t b = 0; b < blocks; b++)
		f->hash[b] = b < first ? mix(7, b) : (b + 1) * 16 <= shared ? mix(shared_id << 8, b) : mix(serial << 8 | 1, b);
	n = pick_node(f, key);
	nr = (struct node_request){ .hash = f->hash, .hashes = blocks, .prompt_tokens = r->prompt,
		.output_tokens = r->output, .adapter = NODE_NO_ADAPTER, .cookie = (uint64_t)(uintptr_t)r };
	if (node_submit(f->node[n], &nr, now, NULL)) {
		fprintf(stderr, "node_reference: a request was refused\n");
		exit(2);
	}
	if (!node_stepping(f->node[n]) && !node_step_begin(f->node[n], now, &f->end_ns[n]))
		f->end_ns[n] = UINT64_MAX;
}

static void finish(struct fleet *f, struct request *r, uint64_t now)
{
	if (now >= f->from_ns)
		f->done++;
	if (r->arrive_ns >= f->from_ns) {
		double e2e = (double)(now - r->arrive_ns) / 1e9, ttft = (double)(r->first_ns - r->arrive_ns) / 1e9;

		series_add(&f->ttft, ttft);
		series_add(&f->e2e, e2e);
		if (r->output > 1)
			series_add(&f->itl, (e2e - ttft) / (r->output - 1) * 1e3);
		f->prompt_tokens += r->prompt;
		f->cached_tokens += r->cached;
	}
	if (r->talk) {	/* 5 turns in the mean: one more with chance 4/5 */
		if (rng_unit(&f->rng) < .8) {
			r->talk->due_ns = now + (uint64_t)(rng_exp(&f->rng, 30) * 1e9);
			heap_push(f, r->talk);
		} else {
			free(r->talk);
		}
	} else if (f->c->clients) {
		submit(f, now, NULL);
	}
	free(r);
}

static void step_over(struct fleet *f, int n)
{
	const struct node_event *ev;
	uint64_t now = f->end_ns[n];
	size_t events = node_step_end(f->node[n], &ev);
	struct request **done = must(calloc(events + 1, sizeof(*done)));
	size_t dones = 0;

	for (size_t i = 0; i < events; i++) {
		struct request *r = (struct request *)(uintptr_t)ev[i].cookie;

		if (ev[i].flags & NODE_EV_FIRST) {
			r->first_ns = now;
			r->cached = ev[i].cached_tokens;
		}
		if (ev[i].flags & NODE_EV_FINISHED)
			done[dones++] = r;
	}
	f->end_ns[n] = UINT64_MAX;
	for (size_t i = 0; i < dones; i++)
		finish(f, done[i], now);
	free(done);
	if (!node_stepping(f->node[n]) && !node_step_begin(f->node[n], now, &f->end_ns[n]))
		f->end_ns[n] = UINT64_MAX;
}

struct result {
	double hit, p50, p90, p99, e2e, rps, itl_ms, busy;
};

static struct result run(const struct ref_case *c, uint64_t seed)
{
	struct fleet *f = must(calloc(1, sizeof(*f)));
	struct node_config cfg;
	struct result res;
	uint64_t next_ns = UINT64_MAX, busy = 0;
	bool chat = !strcmp(c->workload, "chat");
	double mean_s = c->rate ? (chat ? 5 : 1) / c->rate : 0;	/* conversations start, turns follow */

	node_config_default(&cfg);
	f->c = c;
	f->rng = seed * 1000003;
	f->from_ns = (uint64_t)(c->warmup_s * 1e9);
	f->to_ns = (uint64_t)((c->warmup_s + c->measure_s) * 1e9);
	if (c->prefixes) {
		double sum = 0, acc = 0;

		f->cdf = must(calloc(c->prefixes, sizeof(*f->cdf)));
		for (uint32_t i = 0; i < c->prefixes; i++)
			sum += pow(i + 1, -c->zipf);
		for (uint32_t i = 0; i < c->prefixes; i++)
			f->cdf[i] = (acc += pow(i + 1, -c->zipf) / sum);
	}
	for (int i = 0; i < NODES; i++) {
		f->node[i] = must(node_new(&cfg));
		f->end_ns[i] = UINT64_MAX;
	}
	for (uint32_t i = 0; i < c->clients; i++)
		submit(f, 0, NULL);
	if (c->rate)
		next_ns = (uint64_t)(rng_exp(&f->rng, mean_s) * 1e9);
	for (;;) {
		uint64_t turn_ns = f->heap_n ? f->heap[0]->due_ns : UINT64_MAX, now = next_ns < turn_ns ? next_ns : turn_ns;
		int n = -1;

		for (int i = 0; i < NODES; i++)
			if (f->end_ns[i] < now) {
				now = f->end_ns[i];
				n = i;
			}
		if (now >= f->to_ns)
			break;
		if (n >= 0) {
			step_over(f, n);
		} else if (now == turn_ns) {
			submit(f, now, heap_pop(f));
		} else {
			struct talk *t = NULL;

			if (chat) {
				t = must(calloc(1, sizeof(*t)));
				t->id = ++f->serial;
				t->tokens = c->prefix_tokens;
			}
			submit(f, now, t);
			next_ns = now + (uint64_t)(rng_exp(&f->rng, mean_s) * 1e9);
		}
	}
	for (int i = 0; i < NODES; i++) {
		struct node_stats st;

		node_read_stats(f->node[i], &st);
		busy += st.busy_ns;
		node_free(f->node[i]);
	}
	res = (struct result){
		.hit = (double)f->cached_tokens / (double)f->prompt_tokens,
		.p50 = series_quantile(&f->ttft, .5), .p90 = series_quantile(&f->ttft, .9),
		.p99 = series_quantile(&f->ttft, .99), .e2e = series_quantile(&f->e2e, .5),
		.itl_ms = series_quantile(&f->itl, .5), .rps = (double)f->done / c->measure_s,
		.busy = (double)busy / (double)f->to_ns / NODES,
	};
	free(f->ttft.v);
	free(f->e2e.v);
	free(f->itl.v);
	for (size_t i = 0; i < f->heap_n; i++)
		free(f->heap[i]);
	free(f->heap);
	free(f->cdf);
	free(f);	/* requests still under way at the end stay to the process */
	return res;
}

static double median3(double a, double b, double c)
{
	return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

static int check(const char *what, double got, double ref, double tolerance)
{
	double off = ref > 0 ? got / ref - 1 : 0;
	bool bad = ref > 0 && fabs(off) > tolerance;

	printf("  %-12s %9.3f", what, got);
	if (ref > 0)
		printf("  reference %7.3f  %+6.1f %%%s", ref, 100 * off, bad ? "  TOO FAR" : "");
	putchar('\n');
	return bad;
}

int main(int argc, char **argv)
{
	int bad = 0, ran = 0;

	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		const struct ref_case *c = &cases[k];
		struct result r[SEEDS];
		bool wanted = argc < 2;

		for (int i = 1; i < argc; i++)
			wanted |= !strcmp(argv[i], c->name);
		if (!wanted)
			continue;
		ran++;
		for (int i = 0; i < SEEDS; i++)
			r[i] = run(c, (uint64_t)i + 1);
		printf("%s (%s)\n", c->name, c->policy);
#define MEDIAN(field) median3(r[0].field, r[1].field, r[2].field)
		bad |= check("hit", MEDIAN(hit), c->hit, .1);
		bad |= check("ttft p50 s", MEDIAN(p50), c->p50, .1);
		bad |= check("ttft p90 s", MEDIAN(p90), c->p90, .1);
		bad |= check("ttft p99 s", MEDIAN(p99), c->p99, .2);
		bad |= check("e2e p50 s", MEDIAN(e2e), c->e2e, .1);
		bad |= check("requests/s", MEDIAN(rps), c->rps, .1);
		bad |= check("itl p50 ms", MEDIAN(itl_ms), c->itl_ms, .1);
		check("busy", MEDIAN(busy), 0, 0);
		fflush(stdout);
	}
	if (!ran) {
		fprintf(stderr, "node_reference: no such case; known are:");
		for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
			fprintf(stderr, " %s", cases[k].name);
		fprintf(stderr, "\n");
		return 2;
	}
	return bad;
}
