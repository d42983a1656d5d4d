/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define KEY_QUESTION 0x71756573ull

static int heap_push(struct load_source *s, uint64_t due_ns, struct load_conv *conv)
{
	uint32_t i;

	if (s->heap_len == s->heap_cap) {
		uint32_t cap = s->heap_cap ? s->heap_cap * 2 : 256;
		struct load_due *heap = realloc(s->heap, cap * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		s->heap = heap;
		s->heap_cap = cap;
	}
	for (i = s->heap_len++; i && s->heap[(i - 1) / 2].due_ns > due_ns; i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = (struct load_due){ due_ns, conv };
	return 0;
}

static struct load_due heap_pop(struct load_source *s)
{
	struct load_due top = s->heap[0], last = s->heap[--s->heap_len];
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child >= s->heap_len)
			break;
		if (child + 1 < s->heap_len && s->heap[child + 1].due_ns < s->heap[child].due_ns)
			child++;
		if (s->heap[child].due_ns >= last.due_ns)
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = last;
	return top;
}

static int fail(struct load_source *s, int rc, const char *what)
{
	snprintf(s->error, sizeof(s->error), "%s: %s", what, strerror(-rc));
	return rc;
}

/* Reads the trace one record ahead. */
static int next_record(struct load_source *s)
{
	int rc = load_trace_next(&s->trace, &s->record);

	if (rc == 1)
		return 0;
	s->record = NULL;
	if (rc == -EINVAL)
		memcpy(s->error, s->trace.error, sizeof(s->error));
	else if (rc)
		fail(s, rc, s->o->trace_file);
	return rc;
}

int load_source_init(struct load_source *s, const struct load_options *o)
{
	const struct load_shape *shape = &o->shape;
	int rc;

	*s = (struct load_source){ .o = o, .arrival_ns = LOAD_NEVER };
	load_rng_seed(&s->prefix_rng, o->seed, 1);
	load_rng_seed(&s->length_rng, o->seed, 2);
	load_rng_seed(&s->conv_rng, o->seed, 3);
	rc = load_body_init(&s->body, o);
	if (rc)
		return fail(s, rc, "prompt text");
	if (shape->prefixes) {
		rc = load_zipf_init(&s->zipf, shape->hot_share > 0 ? shape->prefixes - 1 : shape->prefixes, shape->zipf);
		if (rc)
			return fail(s, rc, "popularity table");
	}
	if (o->kind == LOAD_TRACE) {
		rc = load_trace_open(&s->trace, o->trace_file, o->poisson, o->seed);
		if (rc)
			return fail(s, rc, o->trace_file);
		rc = next_record(s);
		if (rc)
			return rc;
		if (!s->record)
			return fail(s, -ENODATA, o->trace_file);
	}
	s->arrivals = (struct load_arrivals){
		.kind = o->kind == LOAD_BURST ? LOAD_ARRIVE_BURST
		      : shape->turns > 0     ? LOAD_ARRIVE_CONVERSATIONS
					     : LOAD_ARRIVE_STEADY,
		.rate = o->rate,
		.poisson = o->poisson,
		.time_scale = o->time_scale,
		.comeback = shape->turns > 1 ? 1 - 1 / shape->turns : 0,
		.cycle_s = shape->think_s + LOAD_ANSWER_S,
	};
	load_rng_seed(&s->arrivals.rng, o->seed, 4);
	for (uint32_t i = 0; i < o->concurrency; i++) {
		rc = heap_push(s, 0, NULL);
		if (rc)
			return fail(s, rc, "clients");
	}
	return 0;
}

static void next_arrival(struct load_source *s)
{
	double t_s;

	if (s->o->concurrency) {
		s->arrival_ns = LOAD_NEVER;
		return;
	}
	if (s->o->kind == LOAD_TRACE) {
		if (!s->record) {
			s->arrival_ns = LOAD_NEVER;
			return;
		}
		t_s = s->record->at_ms / 1000 / s->o->time_scale;
	} else {
		t_s = load_arrivals_next(&s->arrivals);
	}
	s->arrival_ns = s->start_ns + (uint64_t)(t_s * (double)NSEC_PER_SEC);
}

void load_source_start(struct load_source *s, uint64_t now_ns)
{
	s->start_ns = now_ns;
	/* The clients are equal and all due: the heap stays one. */
	for (uint32_t i = 0; i < s->heap_len; i++)
		s->heap[i].due_ns = now_ns;
	next_arrival(s);
}

void load_source_free(struct load_source *s)
{
	while (s->heap_len)
		load_conv_free(heap_pop(s).conv);
	free(s->heap);
	load_trace_close(&s->trace);
	load_zipf_free(&s->zipf);
	load_body_free(&s->body);
	memset(s, 0, sizeof(*s));
}

bool load_source_ended(const struct load_source *s)
{
	return s->o->kind == LOAD_TRACE && !s->record;
}

uint64_t load_source_due(const struct load_source *s)
{
	uint64_t due = s->heap_len ? s->heap[0].due_ns : LOAD_NEVER;

	if (load_source_ended(s))
		return LOAD_NEVER;
	/* At the limit of conversations new ones wait (and become late), running ones go on. */
	if (s->arrival_ns < due && s->live_convs < LOAD_CONVS_MAX)
		due = s->arrival_ns;
	return due;
}

static uint32_t draw_prefix(struct load_source *s)
{
	const struct load_shape *shape = &s->o->shape;

	if (!shape->prefixes)
		return LOAD_NO_PREFIX;
	if (shape->hot_share > 0) {
		if (load_rng_unit(&s->prefix_rng) < shape->hot_share)
			return 0;
		return 1 + load_zipf_draw(&s->zipf, &s->prefix_rng);
	}
	return load_zipf_draw(&s->zipf, &s->prefix_rng);
}

static uint32_t model_of(const struct load_source *s, uint32_t prefix)
{
	return (uint32_t)((prefix == LOAD_NO_PREFIX ? s->n_prompts : prefix) % s->o->n_models);
}

static int take_turn(struct load_source *s, struct load_conv *conv, struct load_call *call, struct load_prompt *p)
{
	const struct load_shape *shape = &s->o->shape;
	int rc;

	if (!conv) {
		uint32_t prefix = draw_prefix(s);

		conv = load_conv_new(s->n_convs++, prefix, model_of(s, prefix),
				     load_rng_geometric(&s->conv_rng, shape->turns, LOAD_CONV_TURNS_MAX));
		if (!conv)
			return -ENOMEM;
		s->live_convs++;
	}
	call->conv = conv;
	rc = load_conv_ask(conv, &s->body, load_rng_lognormal(&s->length_rng, shape->question_tokens, shape->sigma));
	if (rc)
		return rc;
	p->prefix = conv->prefix;
	p->model = conv->model;
	p->history = conv->history;
	p->history_len = conv->len;
	p->output_tokens = load_rng_lognormal(&s->length_rng, shape->output_tokens, shape->sigma);
	return 0;
}

static void take_single(struct load_source *s, struct load_prompt *p)
{
	const struct load_shape *shape = &s->o->shape;

	p->prefix = draw_prefix(s);
	p->model = model_of(s, p->prefix);
	p->question_tokens = load_rng_lognormal(&s->length_rng, shape->question_tokens, shape->sigma);
	p->question_key = load_mix(load_mix(s->o->seed, KEY_QUESTION), s->n_prompts);
	p->output_tokens = load_rng_lognormal(&s->length_rng, shape->output_tokens, shape->sigma);
}

int load_source_take(struct load_source *s, struct load_call *call)
{
	uint64_t due_ns = load_source_due(s);
	bool arrival = due_ns == s->arrival_ns && s->live_convs < LOAD_CONVS_MAX;
	struct load_prompt p = { 0 };
	struct load_conv *conv = NULL;
	int rc = 0;

	if (due_ns == LOAD_NEVER)
		return fail(s, -ENODATA, "workload");
	if (!arrival)
		conv = heap_pop(s).conv;
	call->intended_ns = due_ns;
	if (s->o->shape.turns > 0) {
		rc = take_turn(s, conv, call, &p);
	} else if (s->o->kind == LOAD_TRACE) {
		p.prefix = LOAD_NO_PREFIX;
		p.model = model_of(s, LOAD_NO_PREFIX);
		p.output_tokens = s->record->output_tokens;
		p.blocks = s->record->ids;
		p.block_tokens = s->record->input_tokens;
	} else {
		take_single(s, &p);
	}
	if (!rc)
		rc = load_body_make(&s->body, &p, call);
	if (rc)
		return fail(s, rc, "request");
	s->n_prompts++;
	if (s->o->kind == LOAD_TRACE) {
		rc = next_record(s);
		if (rc)
			return rc;
	}
	if (arrival)
		next_arrival(s);
	return 0;
}

void load_source_done(struct load_source *s, struct load_call *call, const struct load_answer *a, uint64_t now_ns)
{
	struct load_conv *conv = call->conv;
	uint64_t due_ns = now_ns + (call->error ? LOAD_ERROR_PAUSE_NS : 0);

	call->conv = NULL;
	if (conv) {
		double think_s = load_rng_exp(&s->conv_rng, s->o->shape.think_s) / s->o->time_scale;

		/* A user whose turn failed, or whose answer can't be told back, leaves. */
		if (!call->error && !a->text_cut && load_conv_answer(conv, &s->body, a->text, a->text_len) &&
		    !heap_push(s, now_ns + (uint64_t)(think_s * (double)NSEC_PER_SEC), conv))
			return;
		load_conv_free(conv);
		s->live_convs--;
	}
	if (s->o->concurrency)
		heap_push(s, due_ns, NULL);
}
