/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "control/daemon.h"
#include "control/json.h"
#include "control/status.h"
#include "control/view.h"
#include "gateway/splice_view.h"

static void doctor_row(struct json *j, const char *check, const char *result, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void doctor_row(struct json *j, const char *check, const char *result, const char *fmt, ...)
{
	char text[1280];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_object(j, NULL);
	json_str(j, "check", check);
	json_str(j, "result", result);
	json_str(j, "detail", text);
	json_end(j);
}

/* Would a reload of the file work now? */
static void doctor_config(struct json *j, const struct daemon *d)
{
	struct config_error err;
	struct config *cfg;
	char text[1024];

	if (config_load_file(d->config_file, &cfg, &err)) {
		doctor_row(j, "configuration", "fail", "a reload would be refused: %s",
			   config_error_text(&err, text, sizeof(text)));
		return;
	}
	if (config_resolve(cfg, &err))
		doctor_row(j, "configuration", "warn", "%s can be loaded, and that backend would get no request: %s", d->config_file,
			   config_error_text(&err, text, sizeof(text)));
	else
		doctor_row(j, "configuration", "ok", "%s can be loaded, all names have addresses", d->config_file);
	config_unref(cfg);
}

static void doctor_descriptors(struct json *j, const struct view *v)
{
	/* a client connection and its backend connection, and what the process itself needs */
	uint64_t want = 2 * v->fleet->cfg->limits.connections + 256;
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return;
	doctor_row(j, "descriptors", rl.rlim_cur < want ? "warn" : "ok",
		   "RLIMIT_NOFILE %" PRIu64 ", limits.connections %" PRIu64 " can need %" PRIu64, (uint64_t)rl.rlim_cur,
		   v->fleet->cfg->limits.connections, want);
}

static void doctor_backlog(struct json *j)
{
	FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");
	unsigned n = 0;

	if (f && fscanf(f, "%u", &n) == 1)
		doctor_row(j, "listen backlog", n < 1024 ? "warn" : "ok", "net.core.somaxconn %u%s", n,
			   n < 1024 ? ", 1024 or more lets a burst of connections in" : "");
	if (f)
		fclose(f);
}

static bool doctor_works(const struct route_backend_status *b, bool unreachable)
{
	return (b->state == BACKEND_READY || b->state == BACKEND_PROBING) && !unreachable;
}

static void doctor_pool(struct json *j, const struct view *v, const struct view_pool *p)
{
	unsigned excluded = 0, draining = 0, stale = 0, full = 0, unreachable = 0, unresolved = 0, work = 0;
	const char *first = "";
	char check[96];

	for (unsigned i = 0; i < p->n_backends; i++) {
		const struct route_backend_status *b = &p->backends[i];

		bool gone = gateway_unreachable(v->gw, b->row);

		if ((!doctor_works(b, gone) || b->stale) && b->state != BACKEND_DRAINING && !*first)
			first = b->name;
		work += doctor_works(b, gone);
		unreachable += gone;
		unresolved += b->state == BACKEND_UNRESOLVED;
		excluded += b->state == BACKEND_EXCLUDED;
		draining += b->state == BACKEND_DRAINING;
		stale += b->stale;
		full += b->in_flight >= b->cap;
	}
	snprintf(check, sizeof(check), "pool %s", p->cfg->name);
	doctor_row(
		j, check,
		!work ? "fail" : excluded || unreachable || unresolved || stale || full ? "warn" : "ok",
		"%u of %u backends work; %u excluded, %u refuse connections, %u without address, %u draining, %u at their cap, %u "
		"without fresh counters%s%s%s",
		work, p->n_backends, excluded, unreachable, unresolved, draining, full, stale, *first ? "; first: " : "", first,
		p->status.last_resort ? "; all are excluded, requests are tried on them all the same" : "");
}

/* Every condition of the kernel datapath, and what came of them at the start. */
static void doctor_splice(struct json *j, const struct view *v)
{
	static const char *const results[] = { "ok", "warn", "fail" };
	enum config_datapath wanted = v->fleet->cfg->datapath;
	struct splice_probe p[SPLICE_PROBES_MAX];
	struct gateway_splice_view s;
	unsigned n = splice_probe_all(p, v->fleet->cfg->bpf.pin);

	gateway_splice_view(v->gw, &s);
	for (unsigned i = 0; i < n; i++)
		/* what the relay does not need is no fault of it */
		doctor_row(j, p[i].name, wanted != CONFIG_DATAPATH_SPLICE && p[i].result == SPLICE_PROBE_FAIL ? "warn" :
			   results[p[i].result], "%s%s%s", p[i].detail, p[i].help ? ": " : "", p[i].help ? p[i].help : "");
	if (s.on)
		doctor_row(j, "datapath", s.workers.sweep_rescued ? "warn" : "ok",
			   "splice; the self-test passed; maps pinned: %s; %" PRIu64 " answers by the kernel, %" PRIu64
			   " lost events, %" PRIu64 " streams found by the sweep alone", s.pin ? s.pin : s.why,
			   s.workers.ends, (uint64_t)s.kernel.lost_events, s.workers.sweep_rescued);
	else
		doctor_row(j, "datapath", wanted != CONFIG_DATAPATH_SPLICE ? "ok" : "warn", "relay: %s", s.why);
}

char *status_doctor_json(const struct view *v, const struct daemon *d, size_t *len)
{
	uint32_t mismatches;
	struct json j;

	json_start(&j);
	json_array(&j, "checks");
	doctor_config(&j, d);
	doctor_descriptors(&j, v);
	doctor_backlog(&j);
	doctor_splice(&j, v);
	mismatches = gateway_ledger_mismatches(v->gw);
	doctor_row(&j, "ledger", v->ledger.refused_releases || mismatches ? "fail" : "ok",
		   "%" PRIu32 " live slots, %" PRIu32 " in flight, %" PRIu64 " refused releases, %" PRIu32
		   " backends whose count differs",
		   v->ledger.live_slots, v->ledger.in_flight, v->ledger.refused_releases, mismatches);
	for (unsigned i = 0; i < v->n_pools; i++)
		doctor_pool(&j, v, &v->pools[i]);
	json_end(&j);
	return json_finish(&j, len);
}
