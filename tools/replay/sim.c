/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/sim.h"

#include "replay/must.h"
#include "replay/sim_impl.h"

#define NONE UINT32_MAX
#define MS 1000000ull
#define S 1000000000ull
#define START_NS (1000 * S)     /* not 0: a clock that has run for a while */
#define GRACE_S 60              /* after the measured time, for requests that are not answered yet */
#define HOPELESS_S 120          /* of arrivals without first token, in a run with a limit: cold storms pass before */
#define WHO_NEVER_WAITS 0.01    /* share of requests that may be above the limit: p99 */

static void fleet_add_node(struct sim *s)
{
	struct replay_fleet *f = &s->f;
	struct node_config c;
	uint32_t i = f->nodes++;

	node_config_default(&c);
	f->speed[i] = c.speed = replay_node_speed(s->r->w, i);
	if (s->r->w->kv_tokens)
		c.kv_tokens = s->r->w->kv_tokens;
	f->kv_tokens = c.kv_tokens;
	c.max_requests = 1u << 24;
	if (s->r->policy->one_cache && !i)
		c.kv_tokens *= REPLAY_NODES;
	f->node[i] = must(s->r->policy->one_cache && i ? node_new_sharing(&c, f->node[0]) : node_new(&c));
	f->step_end_ns[i] = UINT64_MAX;
	f->member[i] = true;
}

static void on_event(void *ctx, uint32_t gateway, const struct route_event *ev)
{
	replay_exchange_send(ctx, gateway, ev);
}

static int sim_open(struct sim *s, const struct replay_run *r)
{
	double warmup_s = r->warmup_s > 0 ? r->warmup_s : r->w->warmup_s;
	double measure_s = r->measure_s > 0 ? r->measure_s : r->w->measure_s;
	int rc;

	s->r = r;
	s->rate = r->rate > 0 ? r->rate : r->w->rate;
	rc = replay_source_open(&s->source, r->w, s->rate, r->seed, r->trace);
	if (rc < 0)
		return rc;
	s->f.w = r->w;
	while (s->f.nodes < (r->nodes ? r->nodes : REPLAY_NODES))
		fleet_add_node(s);
	s->exchange = replay_exchange_new();
	for (uint32_t i = 0; i < r->w->gateways; i++) {
		s->g[i] = (struct replay_gateway){ .policy = r->policy, .fleet = &s->f, .number = i,
						   .gateways = r->w->gateways, .event = on_event,
						   .event_ctx = s->exchange };
		load_rng_seed(&s->g[i].rng, r->seed, 100 + i);
		if (r->policy->open)
			r->policy->open(&s->g[i]);
	}
	s->spare = s->oldest = s->newest = NONE;
	s->measure_ns = START_NS + (uint64_t)(warmup_s * 1e9);
	s->end_ns = s->measure_ns + (uint64_t)(measure_s * 1e9);
	s->stop_ns = s->end_ns + (r->limit_s > 0 ? (uint64_t)(r->limit_s * 1e9) : GRACE_S * S);
	s->change_ns = r->change_s > 0 ? START_NS + (uint64_t)(r->change_s * 1e9) : UINT64_MAX;
	s->next_scrape_ns = START_NS;
	return 0;
}

static void sim_close(struct sim *s)
{
	for (uint32_t i = 0; i < s->reqs; i++) {
		struct replay_request *q = s->req[i];

		if (q->talk) {
			if (s->r->policy->end && q->node != NONE)
				s->r->policy->end(&s->g[q->gateway], q, s->stop_ns);
			replay_talk_free(q->talk);
		}
		free(q);
	}
	for (struct replay_talk *t; (t = replay_agenda_take(&s->turns));)
		replay_talk_free(t);
	for (struct reading *m; (m = replay_agenda_take(&s->readings));)
		free(m);
	for (uint32_t i = 0; i < s->r->w->gateways; i++)
		if (s->r->policy->close)
			s->r->policy->close(&s->g[i]);
	while (s->f.nodes) /* the first one last: its cache may be everybody's */
		node_free(s->f.node[--s->f.nodes]);
	if (s->next_talk)
		replay_talk_free(s->next_talk);
	replay_source_close(&s->source);
	replay_exchange_free(s->exchange);
	free(s->turns.heap);
	free(s->readings.heap);
	free(s->req);
	free(s->held);
	free(s->ttft.v);
	free(s->e2e.v);
	free(s->itl.v);
}

/* ---- requests --------------------------------------------------------------------- */

static uint32_t request_new(struct sim *s)
{
	uint32_t i = s->spare;

	if (i != NONE) {
		s->spare = s->req[i]->next;
	} else {
		if (s->reqs == s->reqs_room)
			s->req = must_grow(s->req, &s->reqs_room, sizeof(*s->req));
		i = s->reqs++;
		s->req[i] = must_calloc(1, sizeof(**s->req));
	}
	memset(s->req[i], 0, sizeof(**s->req));
	return i;
}

static void unstarted_add(struct sim *s, uint32_t i)
{
	s->req[i]->prev = s->newest;
	s->req[i]->next = NONE;
	*(s->newest == NONE ? &s->oldest : &s->req[s->newest]->next) = i;
	s->newest = i;
	s->unstarted++;
}

static void unstarted_remove(struct sim *s, uint32_t i)
{
	const struct replay_request *q = s->req[i];

	*(q->prev == NONE ? &s->oldest : &s->req[q->prev]->next) = q->next;
	*(q->next == NONE ? &s->newest : &s->req[q->next]->prev) = q->prev;
	s->unstarted--;
}

static void kick(struct sim *s, uint32_t node, uint64_t now)
{
	if (!node_stepping(s->f.node[node]) && !node_step_begin(s->f.node[node], now, &s->f.step_end_ns[node]))
		s->f.step_end_ns[node] = UINT64_MAX;
}

/* False: every node is at its cap. */
static bool place(struct sim *s, uint32_t i, uint64_t now)
{
	struct replay_request *q = s->req[i];
	struct replay_gateway *g = &s->g[q->gateway];
	struct node_request nr;
	int rc;

	q->node = s->r->policy->pick(g, q, now);
	if (q->node == NONE)
		return false;
	g->in_flight[q->node]++;
	nr = (struct node_request){ .hash = q->talk->text.block, .hashes = q->talk->text.blocks,
				    .prompt_tokens = q->prompt_tokens, .output_tokens = q->output_tokens,
				    .adapter = q->talk->adapter, .cookie = i };
	rc = node_submit(s->f.node[q->node], &nr, now, NULL);
	if (rc < 0) {
		fprintf(stderr, "kvsteer-replay: a node refuses a request of %u + %u tokens: %s\n", q->prompt_tokens,
			q->output_tokens, strerror(-rc));
		exit(1);
	}
	kick(s, q->node, now);
	return true;
}

static void ask(struct sim *s, struct replay_talk *t, uint64_t now)
{
	uint32_t i = request_new(s);
	struct replay_request *q = s->req[i];

	replay_talk_ask(&s->source, t);
	q->talk = t;
	q->at_ns = now;
	q->block = t->text.block;
	q->blocks = t->prompt_tokens / NODE_BLOCK_TOKENS;
	q->prompt_tokens = t->prompt_tokens;
	q->output_tokens = t->answer_tokens;
	if (!s->r->policy->omniscient)
		q->gateway = (uint32_t)(load_mix(load_mix(s->r->seed, t->id), t->turn) % s->r->w->gateways);
	q->measured = now >= s->measure_ns && now < s->end_ns;
	s->measured += q->measured;
	s->live++;
	unstarted_add(s, i);
	if (s->held_n || !place(s, i, now)) {
		q->node = NONE;
		if (s->held_n == s->held_room)
			s->held = must_grow(s->held, &s->held_room, sizeof(*s->held));
		s->held[s->held_n++] = i;
	}
}

static void first_token(struct sim *s, uint32_t i, uint32_t cached, uint64_t now)
{
	struct replay_request *q = s->req[i];
	double ttft = (double)(now - q->at_ns) * 1e-9;

	q->first = true;
	q->first_ns = now;
	q->cached_tokens = cached;
	unstarted_remove(s, i);
	if (s->r->policy->first)
		s->r->policy->first(&s->g[q->gateway], q, now);
	if (s->r->request)
		s->r->request(s->r->ctx, q, now, false);
	if (!q->measured)
		return;
	replay_series_add(&s->ttft, ttft);
	s->started++;
	s->late += s->r->limit_s > 0 && ttft > s->r->limit_s;
	s->cached_tokens += cached;
	s->prompt_tokens += q->prompt_tokens;
}

static void finish(struct sim *s, uint32_t i, uint64_t now)
{
	struct replay_request *q = s->req[i];
	struct replay_talk *t = q->talk;
	uint64_t think;

	s->live--;
	s->g[q->gateway].in_flight[q->node]--;
	if (s->r->policy->end)
		s->r->policy->end(&s->g[q->gateway], q, now);
	if (s->r->request)
		s->r->request(s->r->ctx, q, now, true);
	s->done_in_window += now >= s->measure_ns && now < s->end_ns;
	if (q->measured) {
		s->ended++;
		replay_series_add(&s->e2e, (double)(now - q->at_ns) * 1e-9);
		if (q->output_tokens > 1)
			replay_series_add(&s->itl, (double)(now - q->first_ns) * 1e-9 / (q->output_tokens - 1));
	}
	q->talk = NULL;
	q->next = s->spare;
	s->spare = i;
	think = replay_talk_think_ns(&s->source, t);
	if (think != UINT64_MAX) {
		replay_agenda_add(&s->turns, now + think, t);
		return;
	}
	replay_talk_free(t);
	if (s->r->w->clients) {
		uint64_t unused;

		t = replay_source_next(&s->source, &unused);
		if (t)
			replay_agenda_add(&s->turns, now, t);
	}
}

static void step_over(struct sim *s, uint32_t node, uint64_t now)
{
	const struct node_event *ev;
	size_t n = node_step_end(s->f.node[node], &ev);

	for (size_t k = 0; k < n; k++) {
		if (ev[k].flags & NODE_EV_FIRST && !s->req[ev[k].cookie]->first)
			first_token(s, (uint32_t)ev[k].cookie, ev[k].cached_tokens, now);
		if (ev[k].flags & NODE_EV_FINISHED)
			finish(s, (uint32_t)ev[k].cookie, now);
	}
	kick(s, node, now);
	for (uint32_t k = 0; s->held_n; k++) {
		if (!place(s, s->held[0], now)) {
			s->req[s->held[0]]->node = NONE;
			break;
		}
		memmove(s->held, s->held + 1, --s->held_n * sizeof(*s->held));
	}
}

/* ---- metrics and membership ------------------------------------------------------------- */

static void read_metrics(struct sim *s, const struct reading *m, uint64_t now)
{
	struct replay_gateway *g = &s->g[m->gateway];

	g->waiting[m->node] = m->st.waiting;
	g->running[m->node] = m->st.running;
	g->kv_used[m->node] = (double)m->st.blocks_pinned / m->st.blocks_total;
	if (s->r->policy->snapshot)
		s->r->policy->snapshot(g, m->node, &m->st, now);
}

/* A single gateway reads at once, several late, each at a time of its own. */
static void scrape(struct sim *s, uint64_t now)
{
	s->next_scrape_ns = now + (s->r->policy->scrape_ms ? s->r->policy->scrape_ms : REPLAY_SCRAPE_MS) * MS;
	for (uint32_t node = 0; node < s->f.nodes; node++) {
		struct reading m = { .node = node };

		node_read_stats(s->f.node[node], &m.st);
		for (m.gateway = 0; m.gateway < s->r->w->gateways; m.gateway++) {
			double late_ms = REPLAY_LATE_MIN_MS;

			if (s->r->w->gateways == 1) {
				read_metrics(s, &m, now);
				continue;
			}
			late_ms += load_rng_unit(&s->g[m.gateway].rng) * (REPLAY_LATE_MAX_MS - REPLAY_LATE_MIN_MS);
			replay_agenda_add(&s->readings, now + (uint64_t)(late_ms * 1e6), must_copy(&m, sizeof(m)));
		}
	}
	if (!s->busy_read && now >= s->measure_ns) {
		s->busy_read = true;
		for (uint32_t node = 0; node < s->f.nodes; node++) {
			struct node_stats st;

			node_read_stats(s->f.node[node], &st);
			s->busy_ns[node] = st.busy_ns;
		}
	}
}

static void change_members(struct sim *s, uint64_t now)
{
	s->change_ns = UINT64_MAX;
	if (s->r->join)
		fleet_add_node(s);
	else
		s->f.member[s->f.nodes - 1] = false;
	for (uint32_t i = 0; i < s->r->w->gateways; i++)
		if (s->r->policy->members)
			s->r->policy->members(&s->g[i], now);
}

/* ---- the loop ------------------------------------------------------------------------------- */

static void draw_arrival(struct sim *s)
{
	uint64_t at = 0;

	s->next_talk = replay_source_next(&s->source, &at);
	s->next_arrival_ns = s->next_talk ? START_NS + at : UINT64_MAX;
}

static uint32_t next_step(const struct sim *s, uint64_t *at)
{
	uint32_t node = NONE;

	*at = UINT64_MAX;
	for (uint32_t i = 0; i < s->f.nodes; i++) {
		if (s->f.step_end_ns[i] < *at) {
			*at = s->f.step_end_ns[i];
			node = i;
		}
	}
	return node;
}

/* In a run with a limit: whether it is certain already that p99 is above it. */
static bool too_late(const struct sim *s, uint64_t now)
{
	double allowed = WHO_NEVER_WAITS * s->rate * (double)(s->end_ns - s->measure_ns) * 1e-9;
	uint64_t late = s->late, limit_ns = (uint64_t)(s->r->limit_s * 1e9);

	if (s->unstarted > HOPELESS_S * s->rate)
		return true;
	for (uint32_t i = s->oldest; i != NONE && late <= allowed * 1.1; i = s->req[i]->next) {
		if (now - s->req[i]->at_ns <= limit_ns)
			break;
		late += s->req[i]->measured;
	}
	return (double)late > allowed * 1.1; /* the number of arrivals varies a little */
}

static bool finished(const struct sim *s, uint64_t now)
{
	if (now < s->end_ns)
		return s->next_arrival_ns == UINT64_MAX && !s->turns.n && !s->live; /* the trace has ended */
	return s->r->limit_s > 0 ? s->started == s->measured : s->ended == s->measured;
}

static uint64_t run(struct sim *s, bool *gave_up)
{
	uint64_t now = START_NS;

	for (;;) {
		uint64_t at, turn = replay_agenda_next_ns(&s->turns), reading = replay_agenda_next_ns(&s->readings);
		uint64_t letter = replay_exchange_next_ns(s->exchange);
		uint32_t node = next_step(s, &at);
		enum { STEP, ARRIVAL, TURN, READING, LETTER, SCRAPE, CHANGE } what = STEP;

#define SOONER(time, kind)                                                                                           \
	if ((time) < at) {                                                                                           \
		at = (time);                                                                                         \
		what = (kind);                                                                                       \
	}
		SOONER(s->next_arrival_ns, ARRIVAL)
		SOONER(turn, TURN)
		SOONER(reading, READING)
		SOONER(letter, LETTER)
		SOONER(s->next_scrape_ns, SCRAPE)
		SOONER(s->change_ns, CHANGE)
#undef SOONER
		now = at;
		if (now >= s->stop_ns)
			return s->stop_ns;
		switch (what) {
		case STEP:
			step_over(s, node, now);
			break;
		case ARRIVAL:
			ask(s, s->next_talk, now);
			draw_arrival(s);
			break;
		case TURN:
			ask(s, replay_agenda_take(&s->turns), now);
			break;
		case READING: {
			struct reading *m = replay_agenda_take(&s->readings);

			read_metrics(s, m, now);
			free(m);
			break;
		}
		case LETTER:
			replay_exchange_deliver(s->exchange, s->g, s->r->w->gateways);
			break;
		case SCRAPE:
			scrape(s, now);
			if (s->r->limit_s > 0 && too_late(s, now)) {
				*gave_up = true;
				return now;
			}
			if (finished(s, now))
				return now;
			break;
		case CHANGE:
			change_members(s, now);
			break;
		}
	}
}

int replay_run(const struct replay_run *r, struct replay_figures *out)
{
	struct sim *s = must_calloc(1, sizeof(*s));
	uint64_t now;
	int rc;

	memset(out, 0, sizeof(*out));
	rc = sim_open(s, r);
	if (rc < 0) {
		free(s);
		return rc;
	}
	for (uint32_t i = 0; i < r->w->clients; i++) {
		draw_arrival(s);
		replay_agenda_add(&s->turns, START_NS, s->next_talk);
	}
	if (r->w->clients) {
		s->next_talk = NULL;
		s->next_arrival_ns = UINT64_MAX;
	} else {
		draw_arrival(s);
	}
	now = run(s, &out->gave_up);
	sim_sum_up(s, now, out);
	s->stop_ns = now;
	sim_close(s);
	free(s);
	return 0;
}
