/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "signals/prom_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void prom_parser_init(struct prom_parser *p, void (*on_sample)(void *ctx, const struct prom_sample *sample), void *ctx)
{
	p->on_sample = on_sample;
	p->ctx = ctx;
	p->samples = 0;
	p->malformed = 0;
	p->len = 0;
	p->skipping = false;
}

const char *prom_sample_label(const struct prom_sample *sample, const char *name)
{
	for (unsigned i = 0; i < sample->n_labels; i++)
		if (!strcmp(sample->labels[i].name, name))
			return sample->labels[i].value;
	return NULL;
}

static char *skip_blanks(char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;
	return s;
}

static bool name_byte(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || (!first && c >= '0' && c <= '9');
}

/* Returns the byte after the name at `s`, or NULL if there is none. */
static char *name_end(char *s)
{
	if (!name_byte(*s, true))
		return NULL;
	while (name_byte(*s, false))
		s++;
	return s;
}

/* `s` is behind the opening quote. Undoes \\, \" and \n in place and ends the
 * text with NUL; an unknown escape keeps its backslash, as Prometheus does.
 * Returns the byte behind the closing quote, or NULL. */
static char *unescape_value(char *s)
{
	char *to = s;

	for (; *s && *s != '"'; s++) {
		if (*s == '\\' && s[1] == 'n') {
			*to++ = '\n';
			s++;
		} else if (*s == '\\' && (s[1] == '\\' || s[1] == '"')) {
			*to++ = *++s;
		} else {
			*to++ = *s;
		}
	}
	if (*s != '"')
		return NULL;
	*to = '\0';
	return s + 1;
}

/* `s` is behind the '{'. Returns the byte behind the '}', or NULL. */
static char *parse_labels(char *s, struct prom_label *labels, unsigned *n)
{
	for (;;) {
		char *name, *end;

		s = skip_blanks(s);
		if (*s == '}')
			return s + 1;
		if (*n == PROM_LABELS_MAX)
			return NULL;
		name = s;
		end = name_end(s);
		if (!end)
			return NULL;
		s = skip_blanks(end);
		if (*s != '=')
			return NULL;
		s = skip_blanks(s + 1);
		if (*s != '"')
			return NULL;
		*end = '\0';
		labels[*n].name = name;
		labels[*n].value = s + 1;
		s = unescape_value(s + 1);
		if (!s)
			return NULL;
		(*n)++;
		s = skip_blanks(s);
		if (*s == ',')
			s++;
		else if (*s != '}')
			return NULL;
	}
}

/* A number that ends at a blank or at the end of the line. */
static char *parse_number(char *s, double *value)
{
	char *end;

	*value = strtod(s, &end);
	if (end == s || (*end && *end != ' ' && *end != '\t'))
		return NULL;
	return skip_blanks(end);
}

static bool parse_line(struct prom_parser *p, char *line)
{
	struct prom_label labels[PROM_LABELS_MAX];
	struct prom_sample sample = { .name = line, .labels = labels };
	char *end = name_end(line), *s;

	if (!end)
		return false;
	s = skip_blanks(end);
	if (*s == '{') {
		s = parse_labels(s + 1, labels, &sample.n_labels);
		if (!s)
			return false;
		s = skip_blanks(s);
	} else if (s == end) {
		return false;
	}
	*end = '\0';
	s = parse_number(s, &sample.value);
	if (!s)
		return false;
	if (*s && *s != '#') {
		s = parse_number(s, &sample.timestamp);
		if (!s)
			return false;
		sample.has_timestamp = true;
	}
	/* An exemplar of OpenMetrics may follow; anything else is not this format. */
	if (*s && *s != '#')
		return false;
	p->samples++;
	p->on_sample(p->ctx, &sample);
	return true;
}

static void take_line(struct prom_parser *p)
{
	char *line;

	if (p->skipping) {
		p->malformed++;
		p->skipping = false;
		p->len = 0;
		return;
	}
	if (p->len && p->line[p->len - 1] == '\r')
		p->len--;
	p->line[p->len] = '\0';
	line = skip_blanks(p->line);
	/* A NUL inside would hide the rest of the line from parse_line(). */
	if (strlen(p->line) != p->len || (*line && *line != '#' && !parse_line(p, line)))
		p->malformed++;
	p->len = 0;
}

void prom_parser_feed(struct prom_parser *p, const char *data, size_t len)
{
	while (len) {
		const char *newline = memchr(data, '\n', len);
		size_t part = newline ? (size_t)(newline - data) : len;

		if (part > PROM_LINE_MAX - p->len)
			p->skipping = true;
		if (!p->skipping) {
			memcpy(p->line + p->len, data, part);
			p->len += part;
		}
		if (!newline)
			return;
		take_line(p);
		data += part + 1;
		len -= part + 1;
	}
}

int prom_parser_finish(struct prom_parser *p)
{
	if (p->len || p->skipping)
		take_line(p);
	if (p->samples)
		return 0;
	return p->malformed ? -EBADMSG : -ENODATA;
}
