/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Metrics pages. Holds: samples do not depend on how the page is cut; every line is a sample, a comment or
 * malformed; texts are ended and without newline; what a reading says of the load is in its bounds, and a
 * page that is refused changes nothing that is remembered. First byte: the hint; second: the pieces' size. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "signals/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

struct seen {
	uint64_t hash, n;
};

static void mix(struct seen *s, const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->hash = (s->hash ^ ((const uint8_t *)p)[i]) * 0x100000001b3ull;
}

static void on_sample(void *ctx, const struct prom_sample *sample)
{
	double value = isnan(sample->value) ? -1 : sample->value; /* NaNs of other bits are equal here */
	struct seen *s = ctx;

	CHECK(*sample->name && !strchr(sample->name, '\n') && sample->n_labels <= PROM_LABELS_MAX);
	s->n++;
	mix(s, sample->name, strlen(sample->name) + 1);
	mix(s, &value, sizeof(value));
	for (unsigned i = 0; i < sample->n_labels; i++) {
		CHECK(*sample->labels[i].name && prom_sample_label(sample, sample->labels[i].name));
		mix(s, sample->labels[i].name, strlen(sample->labels[i].name) + 1);
		mix(s, sample->labels[i].value, strlen(sample->labels[i].value) + 1);
	}
}

static int read_page(const char *p, size_t n, size_t piece, struct prom_parser *parser, struct seen *s)
{
	*s = (struct seen){ 0 };
	prom_parser_init(parser, on_sample, s);
	for (size_t at = 0; at < n; at += piece) {
		size_t k = n - at < piece ? n - at : piece;
		char *copy = malloc(k); /* of exactly this length */

		CHECK(copy);
		memcpy(copy, p + at, k);
		prom_parser_feed(parser, copy, k);
		free(copy);
	}
	return prom_parser_finish(parser);
}

static int read_engine(const char *p, size_t n, size_t piece, enum engine_kind hint, struct engine_memory *memory,
		       struct signal_sample *out)
{
	struct engine_reader *r = malloc(sizeof(*r));
	int err;

	CHECK(r);
	engine_reader_init(r, hint);
	for (size_t at = 0; at < n; at += piece)
		engine_reader_feed(r, p + at, n - at < piece ? n - at : piece);
	err = engine_reader_finish(r, memory, out);
	free(r);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct signal_sample sample, other;
	struct engine_memory memory = { 0 }, again = { 0 };
	static struct prom_parser a, b;
	struct seen whole, split;
	enum engine_kind hint;
	size_t piece, lines = 0;
	const char *p;
	int err;

	if (size < 2)
		return 0;
	hint = (enum engine_kind)(data[0] % ENGINE_KINDS);
	piece = 1 + data[1];
	p = (const char *)data + 2;
	size -= 2;
	err = read_page(p, size, size + 1, &a, &whole);
	CHECK(read_page(p, size, piece, &b, &split) == err);
	CHECK(whole.n == split.n && whole.hash == split.hash && a.samples == b.samples && a.malformed == b.malformed);
	for (size_t i = 0; i < size; i++)
		lines += p[i] == '\n';
	CHECK(a.samples == whole.n && a.samples + a.malformed <= lines + 1);
	CHECK(err == (a.samples ? 0 : a.malformed ? -EBADMSG : -ENODATA));

	err = read_engine(p, size, size + 1, hint, &memory, &sample);
	CHECK(read_engine(p, size, piece, hint, &again, &other) == err);
	if (err) {
		CHECK(memory.kind == 0 && !memory.has_progress && memory.progress == 0);
		return 0;
	}
	CHECK(sample.n_adapters <= SIGNAL_ADAPTERS_MAX && !(sample.kv_used > 1) && !isnan(sample.kv_used));
	CHECK(sample.waiting == other.waiting && sample.running == other.running && sample.has_load == other.has_load);
	CHECK(!sample.restarted); /* the first reading of a backend can't tell */
	for (unsigned i = 0; i < sample.n_adapters; i++)
		CHECK(memchr(sample.adapters[i].name, 0, SIGNAL_ADAPTER_NAME_MAX));
	return 0;
}
