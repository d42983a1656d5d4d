/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A streaming reader of the Prometheus text format (0.0.4, and what of
 * OpenMetrics looks the same: `# EOF`, exemplars, `_created` series).
 *
 * Bytes go in as they arrive, samples come out through a callback. The parser
 * keeps one line at most, so memory does not depend on the size of the answer.
 * It is tolerant: a line that it can't read is counted and skipped, as one odd
 * metric of an engine must not hide the load counters beside it. */
#ifndef KVSTEER_SIGNALS_PROM_TEXT_H
#define KVSTEER_SIGNALS_PROM_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROM_LINE_MAX 16384 /* bytes; longer lines are skipped and counted as malformed */
#define PROM_LABELS_MAX 64  /* of one sample; a line with more is malformed */

/* A label; both texts are NUL-terminated, escapes already undone. */
struct prom_label {
	const char *name;
	const char *value;
};

/* One sample. All pointers are valid during the callback only. */
struct prom_sample {
	const char *name; /* NUL-terminated */
	const struct prom_label *labels;
	unsigned n_labels;
	double value;         /* may be NaN or +-Inf */
	bool has_timestamp;
	double timestamp;     /* as written: milliseconds in 0.0.4, seconds in OpenMetrics */
};

struct prom_parser {
	void (*on_sample)(void *ctx, const struct prom_sample *sample);
	void *ctx;
	uint64_t samples;   /* good lines so far */
	uint64_t malformed; /* lines skipped so far */
	size_t len;         /* bytes of the unfinished line in `line` */
	bool skipping;      /* inside a line that is too long */
	char line[PROM_LINE_MAX + 1];
};

/* Makes `p` ready for a new document. `on_sample` is called from within
 * prom_parser_feed() and prom_parser_finish(). */
void prom_parser_init(struct prom_parser *p, void (*on_sample)(void *ctx, const struct prom_sample *sample),
		      void *ctx);

/* Takes the next `len` bytes, cut anywhere. Never fails. */
void prom_parser_feed(struct prom_parser *p, const char *data, size_t len);

/* The end of the document: a last line without newline is read too.
 * Returns 0, or -EBADMSG when no line was a sample and at least one was
 * malformed (an HTML page, JSON: not metrics at all), or -ENODATA when there
 * was nothing but comments and blanks. */
int prom_parser_finish(struct prom_parser *p);

/* The value of label `name`, or NULL. */
const char *prom_sample_label(const struct prom_sample *sample, const char *name);
#endif
