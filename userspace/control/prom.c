/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/prom.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "base/clock.h"

/* Label values escape \, " and newline; help texts \ and newline. */
static void prom_escaped(FILE *out, const char *s, bool quote)
{
	for (; *s; s++) {
		if (*s == '\\')
			fputs("\\\\", out);
		else if (*s == '\n')
			fputs("\\n", out);
		else if (*s == '"' && quote)
			fputs("\\\"", out);
		else
			fputc(*s, out);
	}
}

void prom_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s ", name);
	prom_escaped(out, help, false);
	fprintf(out, "\n# TYPE %s %s\n", name, type);
}

static void prom_head(FILE *out, const char *name, const char *suffix, const struct prom_label *labels, const char *le)
{
	char sep = '{';

	fprintf(out, "%s%s", name, suffix);
	for (; labels->name; labels++, sep = ',') {
		fprintf(out, "%c%s=\"", sep, labels->name);
		prom_escaped(out, labels->value, true);
		fputc('"', out);
	}
	if (le) {
		fprintf(out, "%cle=\"%s\"", sep, le);
		sep = ',';
	}
	fputs(sep == ',' ? "} " : " ", out);
}

void prom_uint(FILE *out, const char *name, const struct prom_label *labels, uint64_t value)
{
	prom_head(out, name, "", labels, NULL);
	fprintf(out, "%" PRIu64 "\n", value);
}

static void prom_number(FILE *out, double value)
{
	if (isnan(value))
		fputs("NaN\n", out);
	else if (isinf(value))
		fputs(value > 0 ? "+Inf\n" : "-Inf\n", out);
	else
		fprintf(out, "%.9g\n", value);
}

void prom_real(FILE *out, const char *name, const struct prom_label *labels, double value)
{
	prom_head(out, name, "", labels, NULL);
	prom_number(out, value);
}

void prom_histogram(FILE *out, const char *name, const struct prom_label *labels, const struct hist *h,
		    const struct hist_bounds *bounds)
{
	uint64_t total = 0;
	char le[32];

	for (unsigned i = 0; i < bounds->n; i++) {
		total += h->bucket[i];
		snprintf(le, sizeof(le), "%.9g", (double)bounds->le_ns[i] / (double)NSEC_PER_SEC);
		prom_head(out, name, "_bucket", labels, le);
		fprintf(out, "%" PRIu64 "\n", total);
	}
	total += h->bucket[bounds->n];
	prom_head(out, name, "_bucket", labels, "+Inf");
	fprintf(out, "%" PRIu64 "\n", total);
	prom_head(out, name, "_sum", labels, NULL);
	prom_number(out, (double)h->sum_ns / (double)NSEC_PER_SEC);
	prom_head(out, name, "_count", labels, NULL);
	fprintf(out, "%" PRIu64 "\n", total);
}
