/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Saying what is wrong and where. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/load.h"

int load_fail(struct loader *l, const struct load_mark *mark, const char *fmt, ...)
{
	va_list ap;

	l->err->line = mark ? mark->line : 0;
	l->err->column = mark ? mark->column : 0;
	snprintf(l->err->key, sizeof(l->err->key), "%s", mark && mark->path ? mark->path : "");
	snprintf(l->err->given, sizeof(l->err->given), "%s", mark && mark->given ? mark->given : "");
	va_start(ap, fmt);
	vsnprintf(l->err->message, sizeof(l->err->message), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int mark_compare(const void *a, const void *b)
{
	const struct load_mark *x = a, *y = b;

	return x->field < y->field ? -1 : x->field > y->field;
}

void load_marks_sort(struct loader *l)
{
	if (l->n_marks)
		qsort(l->marks, l->n_marks, sizeof(*l->marks), mark_compare);
}

const struct load_mark *load_mark_find(const struct loader *l, const void *field)
{
	struct load_mark key = { .field = field };

	return l->n_marks ? bsearch(&key, l->marks, l->n_marks, sizeof(key), mark_compare) : NULL;
}

/* Edits (insert, delete, replace, swap of neighbours) between two short words. */
unsigned load_word_distance(const char *a, const char *b)
{
	enum { MAX = 32 };
	unsigned d[MAX + 1][MAX + 1];
	size_t n = strlen(a), m = strlen(b);

	if (n > MAX || m > MAX)
		return MAX;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			unsigned best;

			if (!i || !j) {
				d[i][j] = (unsigned)(i + j);
				continue;
			}
			best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	return d[n][m];
}

void config_error_system(struct config_error *err, const struct config *cfg, const char *key, const char *given,
			 unsigned line, unsigned column, const char *what, int error)
{
	memset(err, 0, sizeof(*err));
	snprintf(err->file, sizeof(err->file), "%s", cfg->file);
	err->line = line;
	err->column = column;
	snprintf(err->key, sizeof(err->key), "%s", key);
	snprintf(err->given, sizeof(err->given), "%s", given);
	snprintf(err->message, sizeof(err->message), "%s: %s", what, strerror(error));
}

unsigned config_warnings(const struct config *cfg, void (*fn)(void *ctx, const char *text), void *ctx)
{
	struct config_error e;
	char text[1024];
	unsigned n = 0;

	for (unsigned i = 0; i < cfg->n_pools; i++) {
		const struct config_pool *p = &cfg->pools[i];

		if (!p->n_aliases || p->rewrite_model)
			continue;
		memset(&e, 0, sizeof(e));
		snprintf(e.file, sizeof(e.file), "%s", cfg->file);
		e.line = p->aliases_line;
		e.column = p->aliases_column;
		snprintf(e.key, sizeof(e.key), "pools[%u].aliases", i);
		snprintf(e.message, sizeof(e.message),
			 "without \"rewrite_model: true\" a request's body keeps the alias, and a backend that does "
			 "not know \"%s\" itself answers 404", p->aliases[0].alias);
		fn(ctx, config_error_text(&e, text, sizeof(text)));
		n++;
	}
	return n;
}

const char *config_error_text(const struct config_error *err, char *buf, size_t len)
{
	char where[64] = "";

	if (err->line)
		snprintf(where, sizeof(where), "%u:%u:", err->line, err->column);
	snprintf(buf, len, "%s:%s %s%s%s%s%s%s", *err->file ? err->file : "config", where, err->key,
		 *err->key ? ": " : "", *err->given ? "\"" : "", err->given, *err->given ? "\": " : "", err->message);
	for (char *p = buf; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return buf;
}
