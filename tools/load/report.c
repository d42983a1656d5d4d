/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

static void row(FILE *out, const char *name, const struct load_hist *h)
{
	if (!h->count)
		return;
	fprintf(out, "  %-8s %10.1f %10.1f %10.1f %10.1f\n", name, load_hist_percentile_ms(h, 0.5),
		load_hist_percentile_ms(h, 0.9), load_hist_percentile_ms(h, 0.99), load_hist_mean_ms(h));
}

void load_report_table(const struct load_report *r, FILE *out, FILE *err)
{
	const struct load_stats *s = r->stats;
	double hit_rate = load_stats_hit_rate(s), late_ms = load_hist_percentile_ms(&s->late, 0.99);

	fprintf(out, "%s: %llu requests, %llu errors; offered %.2f/s, done %.2f/s", r->o->workload,
		(unsigned long long)s->requests, (unsigned long long)s->errors, load_stats_offered_rps(s),
		load_stats_rate_rps(s));
	if (hit_rate >= 0)
		fprintf(out, "; hit rate %.3f", hit_rate);
	fprintf(out, "\n  ms              p50        p90        p99       mean\n");
	row(out, "TTFT", &s->ttft);
	row(out, "ITL", &s->itl);
	row(out, "TPOT", &s->tpot);
	row(out, "e2e", &s->e2e);
	row(out, "late", &s->late);
	for (uint32_t i = 0; i < s->backends.n; i++)
		fprintf(out, "  backend %s: %llu\n", s->backends.list[i].name,
			(unsigned long long)s->backends.list[i].count);
	for (uint32_t i = 0; i < s->reasons.n; i++)
		fprintf(out, "  error %s: %llu\n", s->reasons.list[i].name,
			(unsigned long long)s->reasons.list[i].count);
	fflush(out);
	if (late_ms <= LOAD_LATE_WARN_MS)
		return;
	fprintf(err, "kvsteer-load: warning: requests were sent up to %.1f ms (p99) after their time: ", late_ms);
	if (r->capped)
		fputs("all connections were in use, the server is too slow for this rate\n", err);
	else
		fputs("the generator, not the server, is late\n", err);
}

void load_report_progress(const struct load_report *r, FILE *out)
{
	const struct load_stats *s = r->stats;

	fprintf(out, "%6.0f s  sent %llu  done %llu  in flight %u  errors %llu  TTFT p50 %.1f p99 %.1f ms", r->elapsed_s,
		(unsigned long long)r->sent, (unsigned long long)r->ended, r->in_flight, (unsigned long long)s->errors,
		load_hist_percentile_ms(&s->ttft, 0.5), load_hist_percentile_ms(&s->ttft, 0.99));
}

static void add_hist(yyjson_mut_doc *d, yyjson_mut_val *root, const char *name, const struct load_hist *h)
{
	yyjson_mut_val *v = yyjson_mut_obj_add_obj(d, root, name);

	/* No sample, no figure. */
	if (!h->count) {
		yyjson_mut_obj_add_null(d, v, "p50");
		yyjson_mut_obj_add_null(d, v, "p90");
		yyjson_mut_obj_add_null(d, v, "p99");
		yyjson_mut_obj_add_null(d, v, "mean");
		return;
	}
	yyjson_mut_obj_add_real(d, v, "p50", load_hist_percentile_ms(h, 0.5));
	yyjson_mut_obj_add_real(d, v, "p90", load_hist_percentile_ms(h, 0.9));
	yyjson_mut_obj_add_real(d, v, "p99", load_hist_percentile_ms(h, 0.99));
	yyjson_mut_obj_add_real(d, v, "mean", load_hist_mean_ms(h));
}

static void add_counters(yyjson_mut_doc *d, yyjson_mut_val *root, const char *name, const struct load_counters *c)
{
	yyjson_mut_val *v = yyjson_mut_obj_add_obj(d, root, name);

	for (uint32_t i = 0; i < c->n; i++)
		yyjson_mut_obj_add_uint(d, v, c->list[i].name, c->list[i].count);
}

static yyjson_mut_doc *build(const struct load_report *r)
{
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	const struct load_stats *s = r->stats;
	double hit_rate = load_stats_hit_rate(s);
	yyjson_mut_val *root;

	if (!d)
		return NULL;
	root = yyjson_mut_obj(d);
	yyjson_mut_doc_set_root(d, root);
	yyjson_mut_obj_add_str(d, root, "workload", r->o->workload);
	yyjson_mut_obj_add_uint(d, root, "seed", r->o->seed);
	yyjson_mut_obj_add_uint(d, root, "requests", s->requests);
	yyjson_mut_obj_add_uint(d, root, "errors", s->errors);
	add_counters(d, root, "errors_by_reason", &s->reasons);
	yyjson_mut_obj_add_real(d, root, "rate_rps", load_stats_rate_rps(s));
	yyjson_mut_obj_add_real(d, root, "offered_rps", load_stats_offered_rps(s));
	yyjson_mut_obj_add_real(d, root, "late_ms_p99", load_hist_percentile_ms(&s->late, 0.99));
	if (hit_rate >= 0)
		yyjson_mut_obj_add_real(d, root, "hit_rate", hit_rate);
	else
		yyjson_mut_obj_add_null(d, root, "hit_rate");
	add_hist(d, root, "ttft_ms", &s->ttft);
	add_hist(d, root, "itl_ms", &s->itl);
	add_hist(d, root, "e2e_ms", &s->e2e);
	add_hist(d, root, "tpot_ms", &s->tpot);
	add_counters(d, root, "per_backend", &s->backends);
	yyjson_mut_obj_add_uint(d, root, "prompt_tokens", s->prompt_tokens);
	yyjson_mut_obj_add_uint(d, root, "cached_tokens", s->cached_tokens);
	yyjson_mut_obj_add_uint(d, root, "output_tokens", s->output_tokens);
	yyjson_mut_obj_add_uint(d, root, "usage_missing", s->requests - s->errors - s->usage_seen);
	yyjson_mut_obj_add_uint(d, root, "reconnects", r->reconnects);
	yyjson_mut_obj_add_bool(d, root, "connections_exhausted", r->capped);
	return d;
}

int load_report_json(const struct load_report *r, const char *path)
{
	yyjson_mut_doc *d = build(r);
	char *text = d ? yyjson_mut_write(d, YYJSON_WRITE_PRETTY, NULL) : NULL;
	FILE *f;
	int rc = 0;

	yyjson_mut_doc_free(d);
	if (!text)
		return -ENOMEM;
	f = strcmp(path, "-") ? fopen(path, "we") : stdout;
	if (!f) {
		rc = -errno;
		free(text);
		return rc;
	}
	if (fprintf(f, "%s\n", text) < 0)
		rc = -EIO;
	if ((f == stdout ? fflush(f) : fclose(f)) && !rc)
		rc = -errno;
	free(text);
	return rc;
}
