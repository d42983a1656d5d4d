/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "load/client.h"
#include "load/report.h"
#include "load/source.h"
#include "load/stats.h"

/* Descriptors for anything but connections. */
#define OTHER_FILES 32u
#define PROGRESS_TTY_NS NSEC_PER_SEC
#define PROGRESS_LINE_NS (5 * NSEC_PER_SEC)

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
	(void)sig;
	stop_asked++;
}

struct run {
	const struct load_options *o;
	struct load_source source;
	struct load_client *client;
	struct load_stats *stats;
	uint64_t start_ns;
	uint64_t sent, ended;
	bool capped;        /* a request had to wait for a connection */
	bool stopped;       /* nothing is sent any more */
	bool terminal;
	bool line_open;     /* a progress line without its end */
	uint64_t drain_end_ns;
	uint64_t sweep_ns, progress_ns;
};

static void on_done(void *arg, struct load_call *call, const struct load_answer *answer)
{
	struct run *r = arg;

	r->ended++;
	load_stats_end(r->stats, call, answer);
	load_source_done(&r->source, call, answer, call->end_ns);
	load_call_free(call);
}

static void on_gap(void *arg, const struct load_call *call, uint64_t ns)
{
	struct run *r = arg;

	if (call->measured)
		load_hist_add(&r->stats->itl, ns);
}

/* Raises the limit of descriptors; returns how many connections fit. */
static uint32_t connection_limit(const struct load_options *o)
{
	uint32_t want = o->concurrency ? o->concurrency : LOAD_MAX_CONNECTIONS;
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return want;
	if (lim.rlim_cur < want + OTHER_FILES) {
		lim.rlim_cur = lim.rlim_max < want + OTHER_FILES ? lim.rlim_max : want + OTHER_FILES;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
	if (lim.rlim_cur >= want + OTHER_FILES)
		return want;
	if (o->concurrency)
		fprintf(stderr, "kvsteer-load: only %llu descriptors: %u clients can't all be served at once\n",
			(unsigned long long)lim.rlim_cur, want);
	return lim.rlim_cur > OTHER_FILES ? (uint32_t)lim.rlim_cur - OTHER_FILES : 1;
}

static struct load_report report_of(const struct run *r, uint64_t now_ns)
{
	return (struct load_report){
		.o = r->o,
		.stats = r->stats,
		.reconnects = load_client_reconnects(r->client),
		.sent = r->sent,
		.ended = r->ended,
		.capped = r->capped,
		.in_flight = load_client_in_flight(r->client),
		.elapsed_s = now_ns > r->start_ns ? (double)(now_ns - r->start_ns) / NSEC_PER_SEC : 0,
	};
}

static void progress(struct run *r, uint64_t now_ns)
{
	struct load_report report;

	if (now_ns < r->progress_ns)
		return;
	r->progress_ns = now_ns + (r->terminal ? PROGRESS_TTY_NS : PROGRESS_LINE_NS);
	report = report_of(r, now_ns);
	if (r->terminal)
		fputs("\r\033[K", stderr);
	load_report_progress(&report, stderr);
	if (!r->terminal)
		fputc('\n', stderr);
	r->line_open = r->terminal;
	fflush(stderr);
}

/* The time is over and requests still wait for a connection: leaving them out would make
 * the server look as good as its survivors. */
static int count_unsent(struct run *r, uint64_t now_ns)
{
	static const struct load_answer none = { .prompt_tokens = -1, .output_tokens = -1, .cached_tokens = -1 };

	while (load_source_due(&r->source) < r->stats->until_ns) {
		struct load_call *call = load_call_new();
		int rc = call ? load_source_take(&r->source, call) : -1;

		if (rc) {
			if (call)
				load_conv_free(call->conv);
			load_call_free(call);
			return rc;
		}
		call->measured = call->intended_ns >= r->stats->from_ns;
		call->start_ns = call->end_ns = now_ns;
		call->error = "not_sent";
		load_stats_begin(r->stats, call);
		on_done(r, call, &none);
	}
	return 0;
}

static void stop(struct run *r, uint64_t now_ns)
{
	if (r->stopped)
		return;
	r->stopped = true;
	/* Interrupted, or a trace that ended: the window is what was measured. */
	if (r->stats->until_ns != UINT64_MAX && now_ns < r->stats->until_ns && now_ns > r->stats->from_ns)
		r->stats->until_ns = now_ns;
	r->drain_end_ns = now_ns + LOAD_DRAIN_S * NSEC_PER_SEC;
}

/* Sends what is due. Returns 0, or -errno when no request can be made. */
static int send_due(struct run *r, uint64_t now_ns)
{
	uint64_t until_ns = r->stats->until_ns, due_ns;

	while (!r->stopped && load_client_ready(r->client) && (due_ns = load_source_due(&r->source)) <= now_ns) {
		struct load_call *call;
		int rc;

		if (due_ns >= until_ns || (r->o->requests && r->stats->begun >= r->o->requests)) {
			stop(r, now_ns);
			break;
		}
		call = load_call_new();
		rc = call ? load_source_take(&r->source, call) : -1;
		if (rc) {
			fprintf(stderr, "kvsteer-load: %s\n", call ? r->source.error : "out of memory");
			if (call)
				load_conv_free(call->conv);
			load_call_free(call);
			return rc;
		}
		call->measured = call->intended_ns >= r->stats->from_ns;
		now_ns = clock_now_ns();
		load_client_start(r->client, call, now_ns);
		load_stats_begin(r->stats, call);
		r->sent++;
	}
	if (!r->stopped && !load_client_ready(r->client) && load_source_due(&r->source) <= now_ns)
		r->capped = true;
	/* By the clock too: a closed loop whose clients all wait has nothing due. */
	if (!r->stopped && now_ns >= until_ns && r->capped && !r->o->concurrency) {
		int rc = count_unsent(r, now_ns);

		if (rc)
			return rc;
	}
	if (now_ns >= until_ns || stop_asked)
		stop(r, now_ns);
	if (r->o->requests && r->stats->begun >= r->o->requests)
		stop(r, now_ns);
	return 0;
}

static uint64_t wait_time(const struct run *r, uint64_t now_ns)
{
	uint64_t until_ns = r->sweep_ns < r->progress_ns ? r->sweep_ns : r->progress_ns;

	if (!r->stopped) {
		uint64_t due_ns = load_source_due(&r->source);

		if (load_client_ready(r->client) && due_ns < until_ns)
			until_ns = due_ns;
		if (r->stats->until_ns < until_ns)
			until_ns = r->stats->until_ns;
	} else if (r->drain_end_ns < until_ns) {
		until_ns = r->drain_end_ns;
	}
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

static int loop(struct run *r)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns();
		int rc = send_due(r, now_ns);

		if (rc)
			return rc;
		now_ns = clock_now_ns();
		if (load_source_ended(&r->source))
			stop(r, now_ns);
		if (!load_client_in_flight(r->client) &&
		    (r->stopped || load_source_due(&r->source) == LOAD_NEVER))
			return 0;
		if ((r->stopped && now_ns >= r->drain_end_ns) || stop_asked > 1) {
			load_client_abort(r->client, "unfinished");
			return 0;
		}
		if (now_ns >= r->sweep_ns) {
			load_client_sweep(r->client, now_ns);
			r->sweep_ns = now_ns + NSEC_PER_SEC;
		}
		progress(r, now_ns);
		load_client_poll(r->client, wait_time(r, now_ns));
	}
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Reports what there is. Returns the exit code. */
static int report(struct run *r)
{
	struct load_report result = report_of(r, clock_now_ns());
	int rc;

	if (r->line_open)
		fputs("\r\033[K", stderr);
	/* A JSON on stdout stays alone there. */
	load_report_table(&result, r->o->json_file && !strcmp(r->o->json_file, "-") ? stderr : stdout, stderr);
	if (!r->o->json_file)
		return 0;
	rc = load_report_json(&result, r->o->json_file);
	if (rc)
		fprintf(stderr, "kvsteer-load: --json %s: %s\n", r->o->json_file, strerror(-rc));
	return rc ? 1 : 0;
}

int load_run(const struct load_options *o)
{
	struct run r = { .o = o, .terminal = isatty(STDERR_FILENO) };
	struct load_client_ops ops = { .done = on_done, .gap = on_gap, .arg = &r };
	int rc;

	/* Timers to the microsecond: 50 us of slack would all be lateness. */
	prctl(PR_SET_TIMERSLACK, 1);
	catch_signals();
	r.stats = calloc(1, sizeof(*r.stats));
	if (!r.stats) {
		fprintf(stderr, "kvsteer-load: out of memory\n");
		return 1;
	}
	if (load_source_init(&r.source, o)) {
		fprintf(stderr, "kvsteer-load: %s\n", r.source.error);
		load_source_free(&r.source);
		free(r.stats);
		return 1;
	}
	if (load_client_new(&r.client, o, connection_limit(o), &ops)) {
		load_source_free(&r.source);
		free(r.stats);
		return 1;
	}
	r.start_ns = clock_now_ns() + 10 * NSEC_PER_MSEC;
	r.stats->from_ns = r.start_ns + (uint64_t)(o->warmup_s * (double)NSEC_PER_SEC);
	r.stats->until_ns = o->duration_s > 0 ? r.stats->from_ns + (uint64_t)(o->duration_s * (double)NSEC_PER_SEC)
					      : UINT64_MAX;
	r.sweep_ns = r.start_ns;
	r.progress_ns = r.start_ns + (r.terminal ? PROGRESS_TTY_NS : PROGRESS_LINE_NS);
	load_source_start(&r.source, r.start_ns);
	rc = loop(&r);
	/* What was measured before a trace turned out to be malformed still counts. */
	load_client_abort(r.client, "unfinished");
	rc = report(&r) || rc ? 1 : 0;
	load_client_free(r.client);
	load_source_free(&r.source);
	free(r.stats);
	return rc;
}
