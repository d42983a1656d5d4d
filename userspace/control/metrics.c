/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/metrics.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/process.h"
#include "control/prom.h"
#include "control/view.h"
#include "gateway/splice_view.h"
#include "kvsteer/version.h"

/* Sums over workers, read once for all families: the families must be written one
 * after the other, each with all of its samples. */
struct metrics_backend {
	const char *pool;
	const struct route_backend_status *status;
	struct stats_backend *stats;
};
struct metrics_sums {
	const struct view *v;
	struct metrics_backend *backend; /* in the order of the view's pools and their backends */
	struct stats_pool **pool;	 /* [0]: requests for which no pool was chosen; then the view's */
	unsigned n_backends;
};

static void sums_free(struct metrics_sums *s)
{
	for (unsigned i = 0; s->backend && i < s->n_backends; i++)
		free(s->backend[i].stats);
	for (unsigned i = 0; s->pool && i <= s->v->n_pools; i++)
		free(s->pool[i]);
	free(s->backend);
	free(s->pool);
}

static int sums_read(struct metrics_sums *s, const struct view *v)
{
	unsigned n = 0;

	*s = (struct metrics_sums){ .v = v };
	for (unsigned i = 0; i < v->n_pools; i++)
		n += v->pools[i].n_backends;
	s->backend = calloc(n ? n : 1, sizeof(*s->backend));
	s->pool = calloc(v->n_pools + 1, sizeof(*s->pool));
	if (!s->backend || !s->pool)
		return -ENOMEM;
	for (unsigned i = 0; i < v->n_pools; i++)
		for (unsigned j = 0; j < v->pools[i].n_backends; j++) {
			struct metrics_backend *b = &s->backend[s->n_backends];

			b->pool = v->pools[i].cfg->name;
			b->status = &v->pools[i].backends[j];
			b->stats = calloc(1, sizeof(*b->stats));
			if (!b->stats)
				return -ENOMEM;
			s->n_backends++;
			stats_backend_sum(v->workers, v->n_workers, b->status->row, b->stats);
		}
	for (unsigned i = 0; i <= v->n_pools; i++) {
		s->pool[i] = calloc(1, sizeof(*s->pool[i]));
		if (!s->pool[i])
			return -ENOMEM;
		stats_pool_sum(v->workers, v->n_workers, i ? v->pools[i - 1].slot : 0, s->pool[i]);
	}
	return 0;
}

static const char *sums_pool_name(const struct metrics_sums *m, unsigned i)
{
	return i ? m->v->pools[i - 1].cfg->name : "";
}

static void code_text(char *buf, size_t len, unsigned i)
{
	snprintf(buf, len, "%u", i + STATS_CODE_MIN);
}

static void metrics_requests(FILE *out, const struct metrics_sums *m)
{
	char code[8];

	prom_family(
		out, "kvsteer_requests_total", "counter",
		"Answers to clients. backend is empty where the gateway answered itself, pool where none was chosen.");
	for (unsigned i = 0; i < m->n_backends; i++)
		for (unsigned c = 0; c < STATS_CODES; c++)
			if (m->backend[i].stats->requests[c]) {
				const struct metrics_backend *b = &m->backend[i];

				code_text(code, sizeof(code), c);
				prom_uint(out, "kvsteer_requests_total",
					  PROM_LABELS({ "pool", b->pool }, { "backend", b->status->name },
						      { "code", code }),
					  b->stats->requests[c]);
			}
	for (unsigned i = 0; i <= m->v->n_pools; i++)
		for (unsigned c = 0; c < STATS_CODES; c++)
			if (m->pool[i]->local[c]) {
				code_text(code, sizeof(code), c);
				prom_uint(out, "kvsteer_requests_total",
					  PROM_LABELS({ "pool", sums_pool_name(m, i) }, { "backend", "" },
						      { "code", code }),
					  m->pool[i]->local[c]);
			}
	prom_family(out, "kvsteer_errors_total", "counter",
		    "Requests that did not end well, by the reason of the error answer and the access log.");
	for (unsigned i = 0; i <= m->v->n_pools; i++)
		for (unsigned r = REASON_NONE + 1; r < REASON_COUNT; r++)
			prom_uint(out, "kvsteer_errors_total",
				  PROM_LABELS({ "pool", sums_pool_name(m, i) },
					      { "reason", reason_name((enum reason)r) }),
				  m->pool[i]->errors[r]);
	prom_family(out, "kvsteer_retries_total", "counter", "Requests sent once more, by why the first try failed.");
	for (unsigned i = 1; i <= m->v->n_pools; i++)
		for (unsigned r = REASON_NONE + 1; r < REASON_COUNT; r++)
			if (m->pool[i]->retries[r])
				prom_uint(out, "kvsteer_retries_total",
					  PROM_LABELS({ "pool", sums_pool_name(m, i) },
						      { "reason", reason_name((enum reason)r) }),
					  m->pool[i]->retries[r]);
}

static void metrics_times(FILE *out, const struct metrics_sums *m)
{
	const struct view *v = m->v;

	prom_family(out, "kvsteer_ttft_seconds", "histogram",
		    "Request complete to the first token of a streamed answer.");
	for (unsigned i = 0; i < m->n_backends; i++)
		prom_histogram(out, "kvsteer_ttft_seconds",
			       PROM_LABELS({ "pool", m->backend[i].pool }, { "backend", m->backend[i].status->name }),
			       &m->backend[i].stats->ttft, &hist_bounds_ttft);
	prom_family(out, "kvsteer_queue_seconds", "histogram", "Wait of requests that found every backend at its cap.");
	for (unsigned i = 1; i <= v->n_pools; i++)
		prom_histogram(out, "kvsteer_queue_seconds", PROM_LABELS({ "pool", sums_pool_name(m, i) }),
			       &m->pool[i]->queue, &hist_bounds_queue);
	prom_family(out, "kvsteer_decision_seconds", "histogram", "Key ready to backend chosen and committed.");
	prom_histogram(out, "kvsteer_decision_seconds", PROM_NONE, &v->sum.decision, &hist_bounds_decision);
	prom_family(out, "kvsteer_added_latency_seconds", "histogram",
		    "Time that the router adds: phase request, from complete to sent; phase response, from the head "
		    "received to the head sent.");
	prom_histogram(out, "kvsteer_added_latency_seconds", PROM_LABELS({ "phase", "request" }), &v->sum.added_request,
		       &hist_bounds_added);
	prom_histogram(out, "kvsteer_added_latency_seconds", PROM_LABELS({ "phase", "response" }),
		       &v->sum.added_response, &hist_bounds_added);
}

/* One family of one number per backend; `value` is made of b (status) and s (stats). */
#define BACKEND_FAMILY(kind, family, type, help, value)                                                                \
	do {                                                                                                           \
		prom_family(out, family, type, help);                                                                  \
		for (unsigned i_ = 0; i_ < m->n_backends; i_++) {                                                      \
			const struct route_backend_status *b = m->backend[i_].status;                                  \
			const struct stats_backend *s = m->backend[i_].stats;                                          \
                                                                                                                       \
			(void)s;                                                                                       \
			prom_##kind(out, family, PROM_LABELS({ "backend", b->name }), (value));                        \
		}                                                                                                      \
	} while (0)

static double unknown_nan(uint32_t v)
{
	return v == BACKEND_UNKNOWN ? __builtin_nan("") : v;
}

static void metrics_backends(FILE *out, const struct metrics_sums *m)
{
	BACKEND_FAMILY(uint, "kvsteer_in_flight", "gauge", "Requests in flight.", b->in_flight);
	BACKEND_FAMILY(uint, "kvsteer_backend_cap", "gauge", "Hard cap on requests in flight.", b->cap);
	prom_family(out, "kvsteer_backend_state", "gauge", "1 for the state that the backend is in.");
	for (unsigned i = 0; i < m->n_backends; i++)
		for (uint32_t st = BACKEND_READY; st <= BACKEND_UNRESOLVED; st++)
			prom_uint(out, "kvsteer_backend_state",
				  PROM_LABELS({ "backend", m->backend[i].status->name },
					      { "state", view_state_name(st) }),
				  m->backend[i].status->state == st);
	BACKEND_FAMILY(uint, "kvsteer_prompt_tokens_total", "counter",
		       "Prompt tokens of routed requests, by kvsteer's estimate.", s->prompt_tokens);
	BACKEND_FAMILY(uint, "kvsteer_cached_tokens_predicted_total", "counter",
		       "Of them, tokens that the index expected to be cached.", s->cached_predicted);
	BACKEND_FAMILY(uint, "kvsteer_cached_tokens_reported_total", "counter",
		       "Cached tokens that the engines reported.", s->cached_reported);
	BACKEND_FAMILY(uint, "kvsteer_usage_sampled_total", "counter", "Answers whose usage was read.",
		       s->usage_sampled);
	BACKEND_FAMILY(uint, "kvsteer_cached_tokens_predicted_sampled_total", "counter",
		       "Predicted cached tokens of those same answers.", s->cached_predicted_sampled);
	BACKEND_FAMILY(uint, "kvsteer_index_blocks", "gauge", "Prefix blocks that the backend is believed to hold.",
		       b->index_blocks);
	BACKEND_FAMILY(real, "kvsteer_backend_speed", "gauge",
		       "Observed over predicted time, learned; 1 is as the profile says.", b->speed);
	BACKEND_FAMILY(uint, "kvsteer_backend_stale", "gauge",
		       "1 while the engine's own counters are unknown or too old.", b->stale);
	BACKEND_FAMILY(real, "kvsteer_backend_waiting", "gauge", "Requests waiting in the engine, by its own count.",
		       unknown_nan(b->waiting));
	BACKEND_FAMILY(real, "kvsteer_backend_running", "gauge", "Requests running in the engine, by its own count.",
		       unknown_nan(b->running));
	BACKEND_FAMILY(real, "kvsteer_backend_kv_used_ratio", "gauge", "KV cache in use, by the engine's count.",
		       b->kv_used < 0 ? __builtin_nan("") : b->kv_used);
}

static void metrics_pools(FILE *out, const struct view *v)
{
	prom_family(out, "kvsteer_queue_length", "gauge",
		    "Requests waiting in the gateway for a backend below its cap.");
	for (unsigned i = 0; i < v->n_pools; i++)
		prom_uint(out, "kvsteer_queue_length", PROM_LABELS({ "pool", v->pools[i].cfg->name }),
			  v->pools[i].queued);
	prom_family(out, "kvsteer_pool_saturation", "gauge",
		    "Least predicted wait over the target of one second: scale out above 1.");
	for (unsigned i = 0; i < v->n_pools; i++)
		prom_real(out, "kvsteer_pool_saturation", PROM_LABELS({ "pool", v->pools[i].cfg->name }),
			  v->pools[i].status.saturation);
	prom_family(out, "kvsteer_index_bytes", "gauge", "Memory of the prefix index.");
	for (unsigned i = 0; i < v->n_pools; i++)
		prom_uint(out, "kvsteer_index_bytes", PROM_LABELS({ "pool", v->pools[i].cfg->name }),
			  v->pools[i].status.index_memory_bytes);
	prom_family(out, "kvsteer_index_evictions_total", "counter", "Blocks that the prefix index dropped for room.");
	for (unsigned i = 0; i < v->n_pools; i++)
		prom_uint(out, "kvsteer_index_evictions_total", PROM_LABELS({ "pool", v->pools[i].cfg->name }),
			  v->pools[i].status.index_evictions);
}

static void metrics_scrapes(FILE *out, const struct view *v)
{
	struct gateway_scrape_view s;
	uint64_t reads;

	gateway_scrape_view(v->gw, &s);
	prom_family(out, "kvsteer_scrape_samples_total", "counter", "Reads of a backend's own counters that gave figures.");
	prom_uint(out, "kvsteer_scrape_samples_total", PROM_NONE, s.samples);
	reads = s.samples;
	prom_family(out, "kvsteer_scrape_errors_total", "counter",
		    "Reads that gave none: the backend's figures grow stale, it is routed to all the same.");
	for (unsigned i = 0; i < GATEWAY_SCRAPE_REASONS; i++) {
		prom_uint(out, "kvsteer_scrape_errors_total", PROM_LABELS({ "reason", s.errors[i].reason }),
			  s.errors[i].count);
		reads += s.errors[i].count;
	}
	prom_family(out, "kvsteer_scrape_seconds", "summary", "Time that these reads took, good or bad.");
	prom_real(out, "kvsteer_scrape_seconds_sum", PROM_NONE, (double)s.duration_ns / (double)NSEC_PER_SEC);
	prom_uint(out, "kvsteer_scrape_seconds_count", PROM_NONE, reads);
}

#define SINGLE(family, type, help, value)                                                                              \
	do {                                                                                                           \
		prom_family(out, family, type, help);                                                                  \
		prom_uint(out, family, PROM_NONE, (value));                                                            \
	} while (0)

static void metrics_splice(FILE *out, const struct view *v)
{
	struct gateway_splice_view s;

	gateway_splice_view(v->gw, &s);
	SINGLE("kvsteer_splice_up", "gauge", "1: the kernel datapath is loaded and its self-test passed.", s.on);
	SINGLE("kvsteer_splice_answers_total", "counter", "Answers handed to the kernel.", s.workers.arms);
	SINGLE("kvsteer_splice_ended_total", "counter", "Answers that the kernel moved to their end.", s.workers.ends);
	prom_family(out, "kvsteer_splice_takeovers_total", "counter", "Streams that the kernel gave back for a while.");
	for (unsigned i = SPLICE_WHY_RACE; i < SPLICE_WHY_MAX; i++)
		prom_uint(out, "kvsteer_splice_takeovers_total", PROM_LABELS({ "reason", splice_reason_name(i) }),
			  s.workers.takeovers[i]);
	SINGLE("kvsteer_splice_lost_events_total", "counter", "Events for which a ring had no room.", s.kernel.lost_events);
	SINGLE("kvsteer_splice_sweep_rescued_total", "counter",
	       "Streams that only the sweep found, without a lost event: a fault of kvsteer.", s.workers.sweep_rescued);
	SINGLE("kvsteer_splice_trimmed_total", "counter", "Answers with bytes behind their end.", s.kernel.trimmed);
}

static void metrics_process(FILE *out, const struct view *v)
{
	prom_family(out, "kvsteer_flows", "gauge", "Answers under way, by who moves their bytes.");
	prom_uint(out, "kvsteer_flows", PROM_LABELS({ "mode", "relay" }), v->sum.flows_relay);
	prom_uint(out, "kvsteer_flows", PROM_LABELS({ "mode", "splice" }), v->sum.flows_splice);
	prom_family(out, "kvsteer_datapath_fallback_total", "counter",
		    "Answers that were relayed though their form would let the kernel move them.");
	for (unsigned i = 0; i < FALLBACKS; i++)
		prom_uint(out, "kvsteer_datapath_fallback_total", PROM_LABELS({ "reason", stats_fallback_name(i) }),
			  v->sum.fallback[i]);
	prom_family(out, "kvsteer_connections", "gauge", "Open connections.");
	prom_uint(out, "kvsteer_connections", PROM_LABELS({ "side", "client" }), v->sum.clients);
	prom_uint(out, "kvsteer_connections", PROM_LABELS({ "side", "upstream" }), v->sum.upstreams);
	prom_family(out, "kvsteer_upstream_connections_total", "counter",
		    "Backend connections taken, fresh or reused.");
	prom_uint(out, "kvsteer_upstream_connections_total", PROM_LABELS({ "kind", "opened" }), v->sum.upstream_opened);
	prom_uint(out, "kvsteer_upstream_connections_total", PROM_LABELS({ "kind", "reused" }), v->sum.upstream_reused);
	SINGLE("kvsteer_client_connections_total", "counter", "Client connections accepted.", v->sum.accepted);
	SINGLE("kvsteer_client_connections_refused_total", "counter",
	       "Client connections refused: over limits.connections, or no descriptors.", v->sum.accept_refused);
	SINGLE("kvsteer_request_bytes_total", "counter", "Bytes of request bodies.", v->sum.bytes_in);
	SINGLE("kvsteer_response_bytes_total", "counter", "Bytes written to clients.", v->sum.bytes_out);
	SINGLE("kvsteer_buffer_bytes", "gauge", "Bytes held in buffers.", v->sum.buffer_bytes);
	SINGLE("kvsteer_access_log_dropped_total", "counter",
	       "Access log lines that their sink did not take: too slow, or a write error.",
	       v->sum.log_dropped);
	SINGLE("kvsteer_ledger_slots", "gauge", "Live request slots.", v->ledger.live_slots);
	SINGLE("kvsteer_ledger_refused_releases_total", "counter",
	       "Slots that somebody tried to release twice: a fault of kvsteer.", v->ledger.refused_releases);
	prom_family(out, "kvsteer_uptime_seconds", "gauge", "Since the router started.");
	prom_real(out, "kvsteer_uptime_seconds", PROM_NONE,
		  (double)(v->now_ns - gateway_start_ns(v->gw)) / (double)NSEC_PER_SEC);
	prom_family(out, "kvsteer_build_info", "gauge", "1.");
	prom_uint(out, "kvsteer_build_info", PROM_LABELS({ "version", KVSTEER_VERSION }), 1);
}

/* The names that every Prometheus client library has. */
static void metrics_of_process(FILE *out)
{
	struct process_figures p;

	process_read(&p);
	prom_family(out, "process_cpu_seconds_total", "counter", "User and system time.");
	prom_real(out, "process_cpu_seconds_total", PROM_NONE, p.cpu_s);
	prom_family(out, "process_start_time_seconds", "gauge", "Start, in seconds of Unix time.");
	prom_real(out, "process_start_time_seconds", PROM_NONE, p.start_s);
	SINGLE("process_resident_memory_bytes", "gauge", "Resident memory.", p.resident_bytes);
	SINGLE("process_virtual_memory_bytes", "gauge", "Virtual memory.", p.virtual_bytes);
	SINGLE("process_open_fds", "gauge", "Open descriptors.", p.open_fds);
	SINGLE("process_max_fds", "gauge", "Most that may be open.", p.max_fds);
}

void metrics_write(FILE *out, const struct view *v)
{
	struct metrics_sums m;

	if (!sums_read(&m, v)) {
		metrics_requests(out, &m);
		metrics_times(out, &m);
		metrics_backends(out, &m);
	}
	sums_free(&m);
	metrics_pools(out, v);
	metrics_scrapes(out, v);
	metrics_splice(out, v);
	metrics_process(out, v);
	metrics_of_process(out);
}
