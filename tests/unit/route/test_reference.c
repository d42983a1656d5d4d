/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The policies on a simulated fleet of seven nodes (tools/node: vLLM's scheduler and prefix cache), against
 * figures of an independent simulator of the same model: hit rate and time to first token must agree within
 * 10 %, p99 within 20 %, where the workload is known in full. The node model and the key builder here share no code with the policies. */
#include <math.h>

#include "fixture.h"
#include "node/node.h"

#define NODES 7
#define TURN_TOKENS_MAX 6000

/* ---- random ------------------------------------------------------------------- */

struct rng {
	uint64_t s;
};

static double uniform(struct rng *r)
{
	r->s = r->s * 6364136223846793005ull + 1442695040888963407ull;
	return ((fx_mix(r->s, 5) >> 11) + 0.5) / 9007199254740992.0;
}

static double exponential(struct rng *r, double mean)
{
	return -mean * log(uniform(r));
}

static uint32_t lognormal(struct rng *r, double mean, double sigma)
{
	double n = sqrt(-2 * log(uniform(r))) * cos(2 * M_PI * uniform(r));
	double v = exp(log(mean) - sigma * sigma / 2 + sigma * n);

	return v < 1 ? 1 : v > 2000 ? 2000 : (uint32_t)(v + 0.5);
}

/* ---- workload ------------------------------------------------------------------ */

struct workload {
	double rate;            /* requests a second */
	uint32_t prefixes, prefix_tokens;
	double zipf, hot_share; /* hot_share: of requests, to prefix 0 */
	double question, output;
	bool chat;              /* 256-token system prompt, 5 turns, 30 s between them */
	double warm_s, measure_s;
	double speed[NODES];    /* 0: 1 */
};

/* A conversation: token ids (message, position) as far as it got, and its key. */
struct talk {
	uint32_t turns_left;
	uint32_t n_tokens, answer_tokens;
	uint64_t token[TURN_TOKENS_MAX + 4096];
	struct fx_prompt key;
	uint64_t next_ns; /* of its next turn */
};

struct req {
	struct route_ticket ticket;
	struct fx_prompt key;
	uint64_t arrived_ns;
	uint32_t prompt_tokens, node, cached, output;
	struct talk *talk;
	bool used, first;
};

struct sim {
	struct fx f;
	const struct workload *w;
	struct rng rng;
	struct node *node[NODES];
	uint64_t step_end[NODES]; /* UINT64_MAX idle */
	double *zipf_cdf;
	struct req *reqs;
	uint32_t n_reqs, live;
	struct talk **talks;
	uint32_t n_talks;
	uint64_t start_ns, measure_ns, end_ns;
	uint64_t message;
	double *ttft;
	uint32_t n_ttft;
	uint64_t hit, asked;
	uint32_t per_node[NODES];
};

#define REQS 8192 /* at a time */
#define TALKS 16384

static void say(struct talk *t, uint64_t message, uint32_t tokens, uint8_t flags)
{
	uint32_t i;

	for (i = 0; i < tokens; i++)
		t->token[t->n_tokens++] = fx_mix(message, i);
	fx_say(&t->key, message, tokens, flags);
}

static uint32_t zipf_pick(struct sim *s)
{
	double u = uniform(&s->rng);
	uint32_t lo = 0, hi = s->w->prefixes - 1;

	if (s->w->hot_share > 0) {
		if (u < s->w->hot_share)
			return 0;
		u = (u - s->w->hot_share) / (1 - s->w->hot_share);
	}
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (s->zipf_cdf[mid] < u)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct talk *new_talk(struct sim *s)
{
	struct talk *t = calloc(1, sizeof(*t));

	if (s->w->chat) {
		/* Geometric, five turns in the mean. */
		for (t->turns_left = 1; uniform(&s->rng) > 1 / 5.0; t->turns_left++)
			;
		say(t, 1, 256, 0);
	} else {
		t->turns_left = 1;
		say(t, 1000 + zipf_pick(s), s->w->prefix_tokens, 0);
	}
	s->message += 4;
	return t;
}

static struct req *req_slot(struct sim *s)
{
	uint32_t i;

	for (i = 0; i < s->n_reqs; i++)
		if (!s->reqs[i].used)
			return &s->reqs[i];
	assert_true(s->n_reqs < REQS);
	return &s->reqs[s->n_reqs++];
}

static void kick(struct sim *s, uint32_t node, uint64_t now)
{
	if (!node_stepping(s->node[node]) && !node_step_begin(s->node[node], now, &s->step_end[node]))
		s->step_end[node] = UINT64_MAX;
}

static void ask(struct sim *s, struct talk *t, uint64_t now)
{
	struct req *q = req_slot(s);
	struct node_request nr = { .adapter = NODE_NO_ADAPTER };
	static uint64_t hash[(TURN_TOKENS_MAX + 4096) / NODE_BLOCK_TOKENS];
	uint64_t answer = (s->message += 2) << 20, h = 3;
	struct route_request rr;
	struct route_plan plan;
	uint32_t i, k, all;

	say(t, s->message << 20 | 1, lognormal(&s->rng, s->w->question, 0.5), 0);
	memset(q, 0, sizeof(*q));
	q->used = true;
	q->talk = t;
	q->key = t->key;
	q->prompt_tokens = t->n_tokens;
	q->arrived_ns = now;
	q->output = lognormal(&s->rng, s->w->output, 0.5);
	rr = fx_request(&q->key);
	rr.class_id = s->w->chat && t->key.n > 3;
	assert_int_equal(route_assign(s->f.pool, &rr, now, &q->ticket, &plan), 0);
	q->node = plan.node;
	/* The answer's tokens: the next prompt repeats them. */
	say(t, answer, q->output, ROUTE_BLOCK_ASSISTANT);
	all = t->n_tokens / NODE_BLOCK_TOKENS;
	for (i = 0; i < all; i++) {
		for (k = 0; k < NODE_BLOCK_TOKENS; k++)
			h = fx_mix(h, t->token[i * NODE_BLOCK_TOKENS + k]);
		hash[i] = h;
	}
	nr.hash = hash;
	nr.hashes = all;
	nr.prompt_tokens = q->prompt_tokens;
	nr.output_tokens = q->output;
	nr.cookie = (uint64_t)(q - s->reqs);
	assert_int_equal(node_submit(s->node[q->node], &nr, now, NULL), 0);
	if (now >= s->measure_ns && now < s->end_ns)
		s->per_node[q->node]++;
	s->live++;
	kick(s, q->node, now);
}

static void token(struct sim *s, const struct node_event *ev, uint64_t now)
{
	struct req *q = &s->reqs[ev->cookie];
	struct talk *t = q->talk;

	if (ev->flags & NODE_EV_FIRST && !q->first) {
		q->first = true;
		route_first_token(s->f.pool, &q->ticket, now, ROUTE_TOKENS_UNKNOWN);
		if (q->arrived_ns >= s->measure_ns && q->arrived_ns < s->end_ns) {
			s->ttft[s->n_ttft++] = (double)(now - q->arrived_ns) * 1e-9;
			s->hit += ev->cached_tokens;
			s->asked += q->prompt_tokens;
		}
	}
	if (!(ev->flags & NODE_EV_FINISHED))
		return;
	route_end(s->f.pool, &q->ticket, now, ROUTE_END_OK, q->output);
	q->used = false;
	s->live--;
	if (--t->turns_left && t->n_tokens < TURN_TOKENS_MAX && s->n_talks < TALKS) {
		t->next_ns = now + (uint64_t)(exponential(&s->rng, 30) * 1e9);
		s->talks[s->n_talks++] = t;
		return;
	}
	free(t);
}

static void scrape(struct sim *s, uint64_t now)
{
	uint32_t i;

	for (i = 0; i < NODES; i++) {
		struct route_snapshot_in in = { .kv_used = 0 };
		struct node_stats st;

		node_read_stats(s->node[i], &st);
		in.waiting = st.waiting;
		in.running = st.running;
		in.kv_used = (double)st.blocks_pinned / st.blocks_total;
		in.kv_capacity_tokens = (uint64_t)st.blocks_total * NODE_BLOCK_TOKENS;
		assert_int_equal(route_snapshot(s->f.pool, i, &in, now), 0);
	}
	route_tick(s->f.pool, now);
}

static void sim_open(struct sim *s, const struct workload *w, enum route_policy policy)
{
	double sum = 0;
	uint32_t i;

	memset(s, 0, sizeof(*s));
	s->w = w;
	s->rng.s = 12345;
	fx_open(&s->f, policy, NODES, 1024);
	s->reqs = calloc(REQS, sizeof(*s->reqs));
	s->talks = calloc(TALKS, sizeof(*s->talks));
	s->zipf_cdf = calloc(w->prefixes + 1, sizeof(double));
	s->ttft = calloc((size_t)(w->rate * (w->measure_s + 10) * 2), sizeof(double));
	for (i = 0; i < w->prefixes; i++)
		s->zipf_cdf[i] = sum += pow(i + 1, -w->zipf);
	for (i = 0; i < w->prefixes; i++)
		s->zipf_cdf[i] /= sum;
	for (i = 0; i < NODES; i++) {
		struct node_config nc;

		node_config_default(&nc);
		if (w->speed[i] > 0)
			nc.speed = w->speed[i];
		s->node[i] = node_new(&nc);
		assert_non_null(s->node[i]);
		s->step_end[i] = UINT64_MAX;
	}
	s->start_ns = s->f.now;
	s->measure_ns = s->start_ns + (uint64_t)(w->warm_s * 1e9);
	s->end_ns = s->measure_ns + (uint64_t)(w->measure_s * 1e9);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct figures {
	double hit, p50, p90, p99;
};

static struct figures sim_close(struct sim *s)
{
	struct figures g = { 0 };
	uint32_t i;

	qsort(s->ttft, s->n_ttft, sizeof(double), by_value);
	if (s->n_ttft) {
		g.hit = (double)s->hit / (double)s->asked;
		g.p50 = s->ttft[s->n_ttft / 2];
		g.p90 = s->ttft[(size_t)s->n_ttft * 90 / 100];
		g.p99 = s->ttft[(size_t)s->n_ttft * 99 / 100];
	}
	for (i = 0; i < s->n_reqs; i++) {
		if (!s->reqs[i].used)
			continue;
		route_end(s->f.pool, &s->reqs[i].ticket, s->end_ns, ROUTE_END_CLIENT_GONE, 0);
		free(s->reqs[i].talk);
	}
	for (i = 0; i < s->n_talks; i++)
		free(s->talks[i]);
	for (i = 0; i < NODES; i++)
		node_free(s->node[i]);
	fx_close(&s->f);
	free(s->reqs);
	free(s->talks);
	free(s->zipf_cdf);
	free(s->ttft);
	return g;
}

static struct figures run(const char *what, const struct workload *w, enum route_policy policy)
{
	struct sim *s = calloc(1, sizeof(*s));
	uint64_t next_arrival, next_scrape, now;
	double arrivals = w->chat ? w->rate / 5 : w->rate;
	struct figures g;
	uint32_t i, k;

	sim_open(s, w, policy);
	next_arrival = s->start_ns;
	next_scrape = s->start_ns + FX_S;
	for (;;) {
		const struct node_event *ev;
		uint32_t node = NODES, talk = UINT32_MAX;
		size_t n;

		now = next_arrival < next_scrape ? next_arrival : next_scrape;
		for (i = 0; i < s->n_talks; i++) {
			if (s->talks[i]->next_ns < now) {
				now = s->talks[i]->next_ns;
				talk = i;
			}
		}
		for (i = 0; i < NODES; i++) {
			if (s->step_end[i] < now) {
				now = s->step_end[i];
				node = i;
			}
		}
		if (now >= s->end_ns)
			break;
		if (node < NODES) {
			n = node_step_end(s->node[node], &ev);
			for (k = 0; k < n; k++)
				token(s, &ev[k], now);
			kick(s, node, now);
		} else if (talk != UINT32_MAX) {
			struct talk *t = s->talks[talk];

			s->talks[talk] = s->talks[--s->n_talks];
			ask(s, t, now);
		} else if (now == next_scrape) {
			scrape(s, now);
			next_scrape += FX_S;
		} else {
			ask(s, new_talk(s), now);
			next_arrival += (uint64_t)(exponential(&s->rng, 1 / arrivals) * 1e9);
		}
	}
	g = sim_close(s);
	print_message("%-28s hit %.3f  ttft p50 %.3f p90 %.3f p99 %.3f s\n", what, g.hit, g.p50, g.p90, g.p99);
	free(s);
	return g;
}

static void expect(const char *what, double got, double want, double tolerance)
{
	if (fabs(got - want) > want * tolerance)
		fail_msg("%s: %.4f, want %.4f within %.0f %%", what, got, want, tolerance * 100);
}

static void expect_figures(struct figures g, double hit, double p50, double p90, double p99)
{
	expect("hit", g.hit, hit, 0.10);
	expect("p50", g.p50, p50, 0.10);
	expect("p90", g.p90, p90, 0.10);
	expect("p99", g.p99, p99, 0.20);
}

static const struct workload support = { .rate = 38, .prefixes = 1000, .prefix_tokens = 3008, .zipf = 0.4,
					 .question = 50, .output = 150, .warm_s = 150, .measure_s = 120 };

static void support_38_cost(void **state)
{
	expect_figures(run("support 38/s cost", &support, ROUTE_POLICY_COST), .981, .028, .035, .041);
}

static void support_38_round_robin(void **state)
{
	struct figures g = run("support 38/s round_robin", &support, ROUTE_POLICY_ROUND_ROBIN);

	expect("hit", g.hit, .245, .10);
	expect("p50", g.p50, .318, .10);
}

static void chat_80_cost(void **state)
{
	static const struct workload chat = { .rate = 80, .prefixes = 1, .question = 120, .output = 250, .chat = true,
					      .warm_s = 210, .measure_s = 80 };
	struct figures g = run("chat 80/s cost", &chat, ROUTE_POLICY_COST);

	expect("hit", g.hit, .891, .10);
	expect("p50", g.p50, .035, .10);
	/* The reference's longest conversations are longer: bounds from above only. */
	assert_true(g.p90 < .053 * 1.1);
	assert_true(g.p99 < .120 * 1.2);
}

/* Near the capacity of the fleet (208/s), from a cold start: the policy must recover from it. */
static void support_200_cost(void **state)
{
	struct workload w = support;

	w.rate = 200;
	w.warm_s = 100;
	w.measure_s = 40;
	assert_true(run("support 200/s cost", &w, ROUTE_POLICY_COST).p99 < 2);
}

static void hot40_130_cost(void **state)
{
	struct workload w = support;

	w.rate = 130;
	w.hot_share = .4;
	w.warm_s = 60;
	w.measure_s = 40;
	assert_true(run("hot40 130/s cost", &w, ROUTE_POLICY_COST).p99 < 0.5);
}

static void hetero_100_cost(void **state)
{
	struct workload w = support;

	w.rate = 100;
	w.prefixes = 700;
	w.zipf = .6;
	w.warm_s = 100;
	w.measure_s = 40;
	w.speed[4] = w.speed[5] = w.speed[6] = .4;
	assert_true(run("hetero 100/s cost", &w, ROUTE_POLICY_COST).p99 < 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(support_38_cost),
		cmocka_unit_test(support_38_round_robin),
		cmocka_unit_test(chat_80_cost),
		cmocka_unit_test(support_200_cost),
		cmocka_unit_test(hot40_130_cost),
		cmocka_unit_test(hetero_100_cost),
	};

	return cmocka_run_group_tests_name("route/reference", tests, NULL, NULL);
}
