/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/source.h"

#include <errno.h>
#include <string.h>

#include "node/node.h"
#include "replay/must.h"
#include "route/pool.h"

enum { STREAM_ARRIVALS = 1, STREAM_PREFIX, STREAM_TALK };
enum { SAID_BY_PREFIX = 1, SAID_BY_SYSTEM, SAID_BY_USER, SAID_BY_ENGINE, SAID_BY_TRACE };

static uint64_t message_of(uint64_t kind, uint64_t id, uint64_t part)
{
	return load_mix(load_mix(kind, id), part);
}

int replay_source_open(struct replay_source *s, const struct replay_workload *w, double rate, uint64_t seed,
		       const char *trace)
{
	int rc;

	memset(s, 0, sizeof(*s));
	s->w = w;
	s->rate = rate;
	s->seed = seed;
	s->arrivals = (struct load_arrivals){
		.kind = w->burst ? LOAD_ARRIVE_BURST : LOAD_ARRIVE_STEADY,
		.rate = w->content == REPLAY_CHAT ? rate / REPLAY_CHAT_TURNS : rate,
		.poisson = true, .time_scale = 1,
	};
	load_rng_seed(&s->arrivals.rng, seed, STREAM_ARRIVALS);
	load_rng_seed(&s->prefix_rng, seed, STREAM_PREFIX);
	if (w->content == REPLAY_TRACE) {
		if (!trace) {
			fprintf(stderr, "kvsteer-replay: workload %s wants --trace FILE\n", w->name);
			return -EINVAL;
		}
		rc = load_trace_open(&s->trace, trace, true, seed);
		if (rc < 0) {
			fprintf(stderr, "kvsteer-replay: %s: %s\n", trace, strerror(-rc));
			return rc;
		}
		s->has_trace = true;
		return 0;
	}
	if (w->content == REPLAY_PREFIXES) {
		rc = load_zipf_init(&s->zipf, w->prefixes, w->zipf);
		if (rc < 0)
			return rc;
		s->prefix_text = must_calloc(w->prefixes, sizeof(*s->prefix_text));
	}
	return 0;
}

void replay_source_close(struct replay_source *s)
{
	if (s->has_trace)
		load_trace_close(&s->trace);
	for (uint32_t i = 0; s->prefix_text && i < s->w->prefixes; i++)
		replay_text_free(&s->prefix_text[i]);
	free(s->prefix_text);
	load_zipf_free(&s->zipf);
	memset(s, 0, sizeof(*s));
}

static uint32_t draw_prefix(struct replay_source *s)
{
	if (s->w->hot_share > 0 && load_rng_unit(&s->prefix_rng) < s->w->hot_share)
		return 0;
	return load_zipf_draw(&s->zipf, &s->prefix_rng);
}

static void open_with_prefix(struct replay_source *s, struct replay_talk *t)
{
	struct replay_text *text;

	t->prefix = draw_prefix(s);
	if (s->w->adapters)
		t->adapter = (int32_t)(t->prefix % s->w->adapters);
	text = &s->prefix_text[t->prefix];
	if (!text->tokens)
		replay_text_say(text, message_of(SAID_BY_PREFIX, t->prefix, 0), s->w->prefix_tokens, 0);
	replay_text_copy(&t->text, text);
}

/* The record's 512-token blocks, named by their ids, are the whole prompt. Returns false at the end. */
static bool open_from_trace(struct replay_source *s, struct replay_talk *t, uint64_t *at_ns)
{
	const struct load_trace_record *r;
	int rc = load_trace_next(&s->trace, &r);
	uint32_t left;

	if (rc < 0) {
		fprintf(stderr, "kvsteer-replay: %s\n", s->trace.error[0] ? s->trace.error : strerror(-rc));
		exit(1);
	}
	if (!rc)
		return false;
	*at_ns = (uint64_t)(r->at_ms * 1e6 * REPLAY_TRACE_RATE / s->rate);
	left = r->input_tokens;
	for (uint32_t i = 0; i < r->n_ids && left; i++) {
		uint32_t n = left < LOAD_TRACE_BLOCK_TOKENS ? left : LOAD_TRACE_BLOCK_TOKENS;

		replay_text_go_on(&t->text, message_of(SAID_BY_TRACE, r->ids[i], 0), n);
		left -= n;
	}
	t->output_tokens = r->output_tokens;
	return true;
}

struct replay_talk *replay_source_next(struct replay_source *s, uint64_t *at_ns)
{
	struct replay_talk *t = must_calloc(1, sizeof(*t));

	t->id = s->talks++;
	t->prefix = REPLAY_NO_PREFIX;
	t->adapter = NODE_NO_ADAPTER;
	t->turns = 1;
	/* A stream of its own: what is said does not depend on who is answered first. */
	load_rng_seed(&t->rng, load_mix(s->seed, t->id), STREAM_TALK);
	switch (s->w->content) {
	case REPLAY_TRACE:
		if (!open_from_trace(s, t, at_ns)) {
			free(t);
			return NULL;
		}
		return t;
	case REPLAY_CHAT:
		t->turns = load_rng_geometric(&t->rng, REPLAY_CHAT_TURNS, REPLAY_CHAT_TURNS_MAX);
		replay_text_say(&t->text, message_of(SAID_BY_SYSTEM, 0, 0), REPLAY_CHAT_SYSTEM_TOKENS, 0);
		break;
	case REPLAY_PREFIXES:
		open_with_prefix(s, t);
		break;
	}
	*at_ns = s->w->clients ? 0 : (uint64_t)(load_arrivals_next(&s->arrivals) * 1e9);
	return t;
}

void replay_talk_free(struct replay_talk *t)
{
	replay_text_free(&t->text);
	free(t);
}

void replay_talk_ask(const struct replay_source *s, struct replay_talk *t)
{
	if (s->w->content == REPLAY_TRACE) {
		t->answer_tokens = t->output_tokens;
	} else {
		double sigma = s->w->sigma > 0 ? s->w->sigma : REPLAY_SIGMA;

		replay_text_say(&t->text, message_of(SAID_BY_USER, t->id, t->turn),
				load_rng_lognormal(&t->rng, s->w->question, sigma), 0);
		t->answer_tokens = load_rng_lognormal(&t->rng, s->w->answer, sigma);
	}
	t->prompt_tokens = t->text.tokens;
	t->prompt_links = t->text.links;
	replay_text_say(&t->text, message_of(SAID_BY_ENGINE, t->id, t->turn), t->answer_tokens, ROUTE_BLOCK_ASSISTANT);
	t->turn++;
}

uint64_t replay_talk_think_ns(const struct replay_source *s, struct replay_talk *t)
{
	if (t->turn >= t->turns)
		return UINT64_MAX;
	return (uint64_t)(load_rng_exp(&t->rng, REPLAY_CHAT_THINK_S) * 1e9);
}
