/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "signals/scraper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "signals/scrape_target.h"

/* Turns are looked at no more often than this: one scan of the targets, however many fall into it. */
#define TICK_NS (10 * NSEC_PER_MSEC)
#define IDLE_POLL_NS NSEC_PER_SEC
#define PROPS_MAX_BYTES (1u << 20)
#define PROPS_RETRY_NS (30 * NSEC_PER_SEC)

struct scraper {
	struct scraper_ops ops;
	void *ctx;
	CURLM *multi;
	struct curl_slist *headers;
	pthread_t thread;
	/* Held while a callback runs and while `pending` changes: with it,
	 * scraper_set_targets() can promise that a dropped target is silent. */
	pthread_mutex_t lock;
	struct scrape_list *pending;
	struct scrape_list *list; /* the thread's own */
	uint64_t random;
	uint64_t scan_ns; /* the next turn of any target: no scan before */
	bool stop;
	struct scraper_stats stats;
};

static const char *const error_names[SCRAPE_ERRORS] = { "refused", "timeout", "status", "unparsable" };

const char *scrape_error_name(enum scrape_error err)
{
	return (unsigned)err < SCRAPE_ERRORS ? error_names[err] : "?";
}

static void stat_add(uint64_t *counter, uint64_t n)
{
	__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t random_next(struct scraper *s)
{
	uint64_t z = (s->random += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* ---- turns ---- */

static void jitter(struct scraper *s, struct scrape_target *t)
{
	uint64_t span = t->interval_ns / 5;

	t->due_ns = t->slot_ns - span / 2 + random_next(s) % span;
}

/* A first turn anywhere within one interval, so that a fleet spreads out. */
static void first_turn(struct scraper *s, struct scrape_target *t, uint64_t now_ns)
{
	t->slot_ns = now_ns + random_next(s) % t->interval_ns;
	t->due_ns = t->slot_ns;
}

static void next_turn(struct scraper *s, struct scrape_target *t, uint64_t now_ns)
{
	t->slot_ns += t->interval_ns;
	if (t->slot_ns <= now_ns) {
		uint64_t missed = (now_ns - t->slot_ns) / t->interval_ns + 1;

		stat_add(&s->stats.skipped, missed);
		t->slot_ns += missed * t->interval_ns;
	}
	jitter(s, t);
}

/* ---- one read ---- */

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
	struct scrape_target *t = arg;
	size_t len = size * n, max = t->reading == READ_PROPS ? PROPS_MAX_BYTES : SCRAPE_BODY_MAX_BYTES;
	long status = 0;

	if (len > max - t->body_bytes) {
		t->body_too_big = true;
		return 0; /* ends the transfer with CURLE_WRITE_ERROR */
	}
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status == 200) {
		if (t->reading == READ_METRICS) {
			engine_reader_feed(t->reader, data, len);
		} else {
			char *grown = realloc(t->props, t->body_bytes + len);

			if (!grown)
				return 0;
			memcpy(grown + t->body_bytes, data, len);
			t->props = grown;
		}
	}
	t->body_bytes += len;
	return len;
}

static int easy_setup(struct scraper *s, struct scrape_target *t)
{
	CURL *e = t->easy ? t->easy : curl_easy_init();

	if (!e)
		return -ENOMEM;
	t->easy = e;
	curl_easy_setopt(e, CURLOPT_PRIVATE, t);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, s->headers);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	/* Backends are reached directly, whatever the environment says of proxies. */
	curl_easy_setopt(e, CURLOPT_PROXY, "");
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	/* A name server that hangs must not delay scraper_destroy(). */
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(t->timeout_ns / NSEC_PER_MSEC));
	return 0;
}

static int read_start(struct scraper *s, struct scrape_target *t, enum read_kind kind, uint64_t now_ns)
{
	if (easy_setup(s, t) < 0)
		return -ENOMEM;
	if (kind == READ_METRICS) {
		t->reader = malloc(sizeof(*t->reader));
		if (!t->reader)
			return -ENOMEM;
		engine_reader_init(t->reader, t->hint);
	}
	curl_easy_setopt(t->easy, CURLOPT_URL, kind == READ_PROPS ? t->props_url : t->url);
	t->reading = kind;
	t->body_bytes = 0;
	t->body_too_big = false;
	t->started_ns = now_ns;
	if (curl_multi_add_handle(s->multi, t->easy) != CURLM_OK) {
		t->reading = READ_NONE;
		free(t->reader);
		t->reader = NULL;
		return -EIO;
	}
	stat_add(&s->stats.outstanding, 1);
	return 0;
}

/* The transfer leaves the multi handle; its connection stays there for the next one. */
static void read_stop(struct scraper *s, struct scrape_target *t)
{
	if (t->reading == READ_NONE)
		return;
	curl_multi_remove_handle(s->multi, t->easy);
	free(t->reader);
	t->reader = NULL;
	free(t->props);
	t->props = NULL;
	t->reading = READ_NONE;
	__atomic_sub_fetch(&s->stats.outstanding, 1, __ATOMIC_RELAXED);
}

/* Returns an enum scrape_error, or -1 when the body was taken whole. */
static int classify(const struct scrape_target *t, CURLcode code, long status)
{
	if (t->body_too_big)
		return SCRAPE_UNPARSABLE;
	switch (code) {
	case CURLE_OK:
		return status == 200 ? -1 : SCRAPE_STATUS;
	case CURLE_OPERATION_TIMEDOUT:
		return SCRAPE_TIMEOUT;
	case CURLE_PARTIAL_FILE:
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_BAD_CONTENT_ENCODING:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
	case CURLE_WRITE_ERROR:
		return SCRAPE_UNPARSABLE;
	default:
		return SCRAPE_REFUSED;
	}
}

/* Tells the caller, unless a new list waits: `t` may not be in it. What is lost
 * is one reading; a restart is told with the next. */
static void tell(struct scraper *s, struct scrape_target *t, struct signal_sample *sample, int err, uint64_t now_ns)
{
	pthread_mutex_lock(&s->lock);
	if (!s->pending && sample) {
		sample->restarted = t->restarted;
		t->restarted = false;
		s->ops.on_sample(s->ctx, t->cookie, sample, now_ns);
	} else if (!s->pending) {
		s->ops.on_error(s->ctx, t->cookie, (enum scrape_error)err, now_ns);
	}
	pthread_mutex_unlock(&s->lock);
}

static void metrics_done(struct scraper *s, struct scrape_target *t, CURLcode code, long status, uint64_t now_ns)
{
	struct signal_sample sample;
	int err = classify(t, code, status);

	stat_add(&s->stats.duration_ns, now_ns - t->started_ns);
	stat_add(&s->stats.bytes, t->body_bytes);
	if (err < 0 && engine_reader_finish(t->reader, &t->memory, &sample) < 0)
		err = SCRAPE_UNPARSABLE;
	read_stop(s, t);
	next_turn(s, t, now_ns);
	s->scan_ns = t->due_ns < s->scan_ns ? t->due_ns : s->scan_ns;
	if (err >= 0) {
		stat_add(&s->stats.errors[err], 1);
		tell(s, t, NULL, err, now_ns);
		return;
	}
	if (sample.restarted) {
		t->restarted = true;
		t->props_retry_ns = 0;
		stat_add(&s->stats.restarts_seen, 1);
	}
	stat_add(&s->stats.samples, 1);
	tell(s, t, &sample, 0, now_ns);
	if (engine_wants_props(&t->memory) && now_ns >= t->props_retry_ns) {
		t->props_retry_ns = now_ns + PROPS_RETRY_NS;
		read_start(s, t, READ_PROPS, now_ns);
	}
}

/* A failure leaves the capacity unknown and is tried again after a while; the
 * endpoint may be switched off, which is no fault of the backend's. */
static void props_done(struct scraper *s, struct scrape_target *t, CURLcode code, long status)
{
	if (classify(t, code, status) < 0 && t->props)
		engine_props_read(&t->memory, t->props, t->body_bytes);
	read_stop(s, t);
	s->scan_ns = t->due_ns < s->scan_ns ? t->due_ns : s->scan_ns;
}

static void take_finished(struct scraper *s)
{
	CURLMsg *msg;
	int left;

	while ((msg = curl_multi_info_read(s->multi, &left))) {
		CURLcode code = msg->data.result;
		struct scrape_target *t = NULL;
		long status = 0;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &t);
		curl_easy_getinfo(msg->easy_handle, CURLINFO_RESPONSE_CODE, &status);
		if (t->reading == READ_PROPS)
			props_done(s, t, code, status);
		else
			metrics_done(s, t, code, status, clock_now_ns());
	}
}

/* ---- the thread ---- */

/* Takes over a new list, if there is one. Both lists are sorted: one walk finds
 * the targets that stay. */
static void take_pending(struct scraper *s)
{
	struct scrape_list *old = s->list, *new;
	uint64_t now = clock_now_ns();
	size_t i = 0, j = 0;

	pthread_mutex_lock(&s->lock);
	new = s->pending;
	s->pending = NULL;
	pthread_mutex_unlock(&s->lock);
	if (!new)
		return;
	while (i < old->n || j < new->n) {
		int cmp = i == old->n ? 1 : j == new->n ? -1 : scrape_target_compare(old->at[i], new->at[j]);

		if (cmp < 0) {
			read_stop(s, old->at[i]);
			scrape_target_free(old->at[i++]);
		} else if (cmp > 0) {
			first_turn(s, new->at[j++], now);
		} else {
			struct scrape_target *keep = old->at[i++], *fresh = new->at[j];

			if (keep->interval_ns > fresh->interval_ns) {
				keep->interval_ns = fresh->interval_ns;
				first_turn(s, keep, now);
			}
			keep->interval_ns = fresh->interval_ns;
			keep->timeout_ns = fresh->timeout_ns;
			keep->hint = fresh->hint;
			new->at[j++] = keep;
			scrape_target_free(fresh);
		}
	}
	free(old);
	s->list = new;
	s->scan_ns = 0;
	curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, (long)new->n + 8);
	__atomic_store_n(&s->stats.targets, new->n, __ATOMIC_RELAXED);
}

/* Starts the reads that are due and finds out when the next one is. */
static void start_due(struct scraper *s, uint64_t now_ns)
{
	s->scan_ns = now_ns + IDLE_POLL_NS;
	for (size_t i = 0; i < s->list->n; i++) {
		struct scrape_target *t = s->list->at[i];

		/* One read at a time; its end sets the next turn. A /props read
		 * that outlasts the interval costs a turn, not a pile-up. */
		if (t->reading != READ_NONE)
			continue;
		if (t->due_ns <= now_ns && read_start(s, t, READ_METRICS, now_ns) == 0)
			continue;
		if (t->due_ns <= now_ns) /* no memory: try at the next turn */
			next_turn(s, t, now_ns);
		if (t->due_ns < s->scan_ns)
			s->scan_ns = t->due_ns;
	}
}

static void *scraper_thread(void *arg)
{
	struct scraper *s = arg;
	int running;

	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
		uint64_t now, wait;

		take_pending(s);
		now = clock_now_ns();
		if (now >= s->scan_ns)
			start_due(s, now);
		curl_multi_perform(s->multi, &running);
		take_finished(s);
		now = clock_now_ns();
		wait = s->scan_ns > now ? s->scan_ns - now : 0;
		if (wait < TICK_NS)
			wait = TICK_NS;
		curl_multi_poll(s->multi, NULL, 0, (int)(wait / NSEC_PER_MSEC), NULL);
	}
	return NULL;
}

/* ---- the caller's side ---- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_init_once(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void scraper_free(struct scraper *s)
{
	if (s->list)
		for (size_t i = 0; i < s->list->n; i++)
			read_stop(s, s->list->at[i]);
	scrape_list_free(s->list);
	scrape_list_free(s->pending);
	if (s->multi)
		curl_multi_cleanup(s->multi);
	curl_slist_free_all(s->headers);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int scraper_create(struct scraper **out, const struct scraper_ops *ops, void *ctx)
{
	struct scraper *s = calloc(1, sizeof(*s));
	sigset_t all, before;
	int err = -ENOMEM;

	if (!s)
		return -ENOMEM;
	pthread_once(&curl_once, curl_init_once);
	pthread_mutex_init(&s->lock, NULL);
	s->ops = *ops;
	s->ctx = ctx;
	/* Gateways started together must not read in step. */
	if (getrandom(&s->random, sizeof(s->random), GRND_NONBLOCK) != sizeof(s->random))
		s->random = clock_now_ns();
	s->multi = curl_multi_init();
	s->list = calloc(1, sizeof(*s->list));
	s->headers = curl_slist_append(NULL, "Accept: text/plain;version=0.0.4");
	if (!s->multi || !s->list || !s->headers)
		goto fail;
	curl_slist_append(s->headers, "User-Agent: kvsteer");
	/* Signals belong to the control thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = -pthread_create(&s->thread, NULL, scraper_thread, s);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		goto fail;
	pthread_setname_np(s->thread, "kv-scraper");
	*out = s;
	return 0;
fail:
	scraper_free(s);
	return err;
}

int scraper_set_targets(struct scraper *s, const struct scraper_target *targets, size_t n)
{
	struct scrape_list *list, *unused;

	if (n > SCRAPE_TARGETS_MAX)
		return -E2BIG;
	list = scrape_list_create(targets, n);
	if (!list)
		return -ENOMEM;
	pthread_mutex_lock(&s->lock);
	unused = s->pending;
	s->pending = list;
	pthread_mutex_unlock(&s->lock);
	scrape_list_free(unused);
	curl_multi_wakeup(s->multi);
	return 0;
}

void scraper_stats_get(const struct scraper *s, struct scraper_stats *out)
{
	const uint64_t *from = (const uint64_t *)&s->stats;
	uint64_t *to = (uint64_t *)out;

	_Static_assert(sizeof(*out) % sizeof(uint64_t) == 0, "counters only");
	for (size_t i = 0; i < sizeof(*out) / sizeof(uint64_t); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void scraper_destroy(struct scraper *s)
{
	if (!s)
		return;
	__atomic_store_n(&s->stop, true, __ATOMIC_RELEASE);
	curl_multi_wakeup(s->multi);
	pthread_join(s->thread, NULL);
	scraper_free(s);
}
