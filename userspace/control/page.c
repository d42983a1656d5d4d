/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The status page: made on the server, so that it needs no script and no asset,
 * and a strict content security policy can forbid both. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/status.h"
#include "control/view.h"
#include "kvsteer/version.h"

static const char page_style[] =
	"body{font:14px/1.45 system-ui,sans-serif;margin:2em;color:#1b1f24;background:#fff}"
	"h1{font-size:1.3em}h2{font-size:1.1em;margin-top:1.8em}small{color:#5a6472;font-weight:normal}"
	"table{border-collapse:collapse;min-width:60em}th,td{text-align:right;padding:.25em .8em;border-bottom:1px "
	"solid #d9dee4}"
	"th{color:#5a6472;font-weight:600}th:first-child,td:first-child,.l{text-align:left}"
	"meter{width:9em;vertical-align:middle}.excluded,.unresolved{color:#b3261e;font-weight:600}.draining,.gone,.probing{color:#8a5a00}"
	"@media(prefers-color-scheme:dark){body{color:#e4e8ec;background:#15181c}th,td{border-color:#333a42}small,th{"
	"color:#9aa4b0}}";

static void page_text(FILE *out, const char *s)
{
	for (; *s; s++)
		switch (*s) {
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		case '&': fputs("&amp;", out); break;
		case '"': fputs("&quot;", out); break;
		case '\'': fputs("&#39;", out); break;
		default: fputc(*s, out);
		}
}

static void page_figure(FILE *out, uint32_t v)
{
	if (v == BACKEND_UNKNOWN)
		fputs("<td>-", out);
	else
		fprintf(out, "<td>%" PRIu32, v);
}

static void page_share(FILE *out, double share)
{
	if (share < 0)
		fputs("<td>-", out);
	else
		fprintf(out, "<td>%.1f %%", 100 * share);
}

static void page_backend(FILE *out, const struct route_backend_status *b)
{
	double tokens = (double)b->prompt_tokens;
	const char *state = view_state_name(b->state);

	fputs("<tr><td>", out);
	page_text(out, b->name);
	fprintf(out, "<td class=\"l %s\">%s", state, state);
	fprintf(out, "<td class=l><meter max=%" PRIu32 " value=%" PRIu32 "></meter> %" PRIu32 " / %" PRIu32, b->cap,
		b->in_flight, b->in_flight, b->cap);
	page_figure(out, b->running);
	page_figure(out, b->waiting);
	page_share(out, b->kv_used);
	page_share(out, tokens > 0 ? (double)b->hit_predicted_tokens / tokens : -1);
	page_share(out, b->sampled_prompt_tokens ? (double)b->hit_reported_tokens / (double)b->sampled_prompt_tokens : -1);
	fprintf(out, "<td>%.2f<td>%.0f ms<td>%" PRIu64 "\n", b->speed, 1e3 * b->wait_s, b->requests);
}

char *status_page_html(const struct view *v, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (!out)
		return NULL;
	fprintf(out,
		"<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>"
		"<meta name=viewport content=\"width=device-width\"><title>kvsteer</title><style>%s</style>\n"
		"<h1>kvsteer %s <small>up %.0f s, %" PRIu64 " client and %" PRIu64 " backend connections, %" PRIu64
		" answers under way%s</small></h1>\n",
		page_style, KVSTEER_VERSION, (double)(v->now_ns - gateway_start_ns(v->gw)) / (double)NSEC_PER_SEC,
		v->sum.clients, v->sum.upstreams, v->sum.flows_relay + v->sum.flows_splice, gateway_draining(v->gw) ? ", draining" : "");
	for (unsigned i = 0; i < v->n_pools; i++) {
		const struct view_pool *p = &v->pools[i];

		fputs("<h2>", out);
		page_text(out, p->cfg->name);
		fprintf(out,
			" <small>%s, %" PRIu32
			" queued, saturation %.2f</small></h2>\n<table><tr><th>backend<th class=l>state"
			"<th class=l>in flight<th>running<th>waiting<th>KV used<th>hits predicted<th>hits "
			"reported<th>speed"
			"<th>wait<th>requests\n",
			config_policy_name(p->cfg->policy), p->queued, p->status.saturation);
		for (unsigned k = 0; k < p->n_backends; k++)
			page_backend(out, &p->backends[k]);
		fputs("</table>\n", out);
	}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
