/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "gateway/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define BUFFER_BYTES (1u << 20)
#define TEXT_BYTES 256     /* of one string; escaped at worst six times that */
#define FLUSH_MS 50

struct access_log {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	char *path; /* NULL: stdout */
	bool json, reopen;
	bool stop;    /* atomic */
	bool file;    /* a regular file: writing it does not wait for a reader */
	int fd;
	char *fill; /* workers append here */
	char *out;  /* the thread writes from here */
	size_t filled;
};

struct line {
	char *p;
	size_t len, cap;
};

static void put(struct line *l, const char *s, size_t n)
{
	if (n > l->cap - l->len)
		n = l->cap - l->len;
	memcpy(l->p + l->len, s, n);
	l->len += n;
}

static void putf(struct line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void putf(struct line *l, const char *fmt, ...)
{
	char tmp[160];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(tmp, sizeof(tmp), fmt, ap);
	va_end(ap);
	if (n > 0)
		put(l, tmp, (size_t)n < sizeof(tmp) ? (size_t)n : sizeof(tmp) - 1);
}

/* A string of the client's making: in JSON's quotes where it needs any, cut to
 * TEXT_BYTES, so that it can end neither the field nor the line. */
static void put_text(struct line *l, const char *s, size_t n, bool always_quote)
{
	bool plain = !always_quote && n > 0;

	if (n > TEXT_BYTES)
		n = TEXT_BYTES;
	for (size_t i = 0; plain && i < n; i++)
		plain = (unsigned char)s[i] > 0x20 && (unsigned char)s[i] < 0x7f && s[i] != '"' && s[i] != '\\' && s[i] != '=';
	if (plain) {
		put(l, s, n);
		return;
	}
	put(l, "\"", 1);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\')
			putf(l, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			putf(l, "\\u%04x", c);
		else
			put(l, s + i, 1);
	}
	put(l, "\"", 1);
}

static void field(struct line *l, bool json, const char *key, const char *s, size_t n)
{
	if (json)
		putf(l, ",\"%s\":", key);
	else
		putf(l, " %s=", key);
	if (!s || !n)
		put(l, json ? "null" : "-", json ? 4 : 1);
	else
		put_text(l, s, n, json);
}

static void text(struct line *l, bool json, const char *key, const char *s)
{
	field(l, json, key, s, s ? strlen(s) : 0);
}

static void number(struct line *l, bool json, const char *key, uint64_t v)
{
	putf(l, json ? ",\"%s\":%llu" : " %s=%llu", key, (unsigned long long)v);
}

static void millis(struct line *l, bool json, const char *key, double v)
{
	if (v < 0)
		putf(l, json ? ",\"%s\":null" : " %s=-", key);
	else
		putf(l, json ? ",\"%s\":%.1f" : " %s=%.1f", key, v);
}

size_t access_log_format(char *buf, size_t cap, bool json, uint64_t wall_ns, const struct access_entry *e)
{
	struct line l = { buf, 0, cap - 2 };
	time_t sec = (time_t)(wall_ns / NSEC_PER_SEC);
	struct tm tm;
	char stamp[40];

	gmtime_r(&sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	putf(&l, json ? "{\"time\":\"%s.%03uZ\"" : "%s.%03uZ", stamp, (unsigned)(wall_ns % NSEC_PER_SEC / NSEC_PER_MSEC));
	text(&l, json, "id", e->id);
	text(&l, json, "client", e->client);
	text(&l, json, "method", e->method);
	field(&l, json, "path", e->path, e->path_len);
	number(&l, json, "status", (uint64_t)e->status);
	text(&l, json, "reason", reason_name(e->reason));
	text(&l, json, "pool", e->pool);
	text(&l, json, "model", e->model);
	text(&l, json, "backend", e->backend);
	text(&l, json, "policy", e->policy);
	number(&l, json, "tokens", e->tokens);
	number(&l, json, "match_tokens", e->match_tokens);
	millis(&l, json, "ttft_predicted_ms", e->ttft_predicted_ms);
	millis(&l, json, "ttft_ms", e->ttft_ms);
	millis(&l, json, "queued_ms", e->queued_ms);
	number(&l, json, "bytes_in", e->bytes_in);
	number(&l, json, "bytes_out", e->bytes_out);
	number(&l, json, "retries", e->retries);
	millis(&l, json, "duration_ms", e->duration_ms);
	l.cap = cap;
	put(&l, json ? "}\n" : "\n", json ? 2 : 1);
	return l.len;
}

static int open_sink(const char *path)
{
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640) : dup(STDOUT_FILENO);

	return fd < 0 ? -errno : fd;
}

static void sink_set(struct access_log *log, int fd)
{
	struct stat st;

	log->fd = fd;
	log->file = !fstat(fd, &st) && S_ISREG(st.st_mode);
}

/* A pipe that nobody reads must not hold the process: its writes are small enough
 * never to block once poll() said so (pipe(7)), and the end is waited for a second. */
static void write_all(struct access_log *log, const char *p, size_t n)
{
	uint64_t give_up_ns = 0;

	while (n) {
		struct pollfd pfd = { log->fd, POLLOUT, 0 };
		ssize_t r;

		if (!log->file) {
			if (!give_up_ns && __atomic_load_n(&log->stop, __ATOMIC_ACQUIRE))
				give_up_ns = clock_now_ns() + NSEC_PER_SEC;
			if (give_up_ns && clock_now_ns() > give_up_ns)
				return;
			if (poll(&pfd, 1, 100) <= 0)
				continue;
		}
		r = write(log->fd, p, log->file || n < PIPE_BUF ? n : PIPE_BUF);
		if (r < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (r < 0) {
			log_warn("access_log_write_failed", "errno=%d bytes=%zu", errno, n);
			return;
		}
		p += r;
		n -= (size_t)r;
	}
}

static void *access_log_thread(void *arg)
{
	struct access_log *log = arg;
	bool stop = false;

	while (!stop) {
		struct timespec until;
		size_t n;
		char *p;
		bool reopen;

		pthread_mutex_lock(&log->lock);
		while (!log->stop && !log->filled && !log->reopen)
			pthread_cond_wait(&log->more, &log->lock);
		stop = log->stop;
		pthread_mutex_unlock(&log->lock);
		if (!stop) { /* gather what comes meanwhile: one write for many lines */
			until = (struct timespec){ 0, FLUSH_MS * (long)NSEC_PER_MSEC };
			nanosleep(&until, NULL);
		}
		pthread_mutex_lock(&log->lock);
		stop = log->stop;
		reopen = log->reopen;
		log->reopen = false;
		p = log->fill;
		n = log->filled;
		log->fill = log->out;
		log->out = p;
		log->filled = 0;
		pthread_mutex_unlock(&log->lock);
		write_all(log, p, n);
		if (reopen && log->path) {
			int fd = open_sink(log->path);

			if (fd < 0) {
				log_warn("access_log_reopen_failed", "path=%s errno=%d", log->path, -fd);
			} else {
				close(log->fd);
				sink_set(log, fd);
			}
		}
	}
	return NULL;
}

int access_log_open(struct access_log **out, const char *path, bool json)
{
	struct access_log *log = calloc(1, sizeof(*log));
	int err = -ENOMEM;

	*out = NULL;
	if (!log)
		return -ENOMEM;
	log->json = json;
	log->fill = malloc(BUFFER_BYTES);
	log->out = malloc(BUFFER_BYTES);
	log->path = path ? strdup(path) : NULL;
	log->fd = -1;
	if (!log->fill || !log->out || (path && !log->path))
		goto fail;
	err = open_sink(path);
	if (err < 0)
		goto fail;
	sink_set(log, err);
	pthread_mutex_init(&log->lock, NULL);
	pthread_cond_init(&log->more, NULL);
	err = -pthread_create(&log->thread, NULL, access_log_thread, log);
	if (err)
		goto fail;
	*out = log;
	return 0;
fail:
	if (log->fd >= 0)
		close(log->fd);
	free(log->path);
	free(log->fill);
	free(log->out);
	free(log);
	return err;
}

bool access_log_write(struct access_log *log, const struct access_entry *e)
{
	char line[ACCESS_LINE_BYTES];
	size_t n = access_log_format(line, sizeof(line), log->json, clock_wall_ns(), e);
	bool fits, wake;

	pthread_mutex_lock(&log->lock);
	fits = n <= BUFFER_BYTES - log->filled;
	wake = fits && !log->filled;
	if (fits) {
		memcpy(log->fill + log->filled, line, n);
		log->filled += n;
	}
	pthread_mutex_unlock(&log->lock);
	if (wake)
		pthread_cond_signal(&log->more);
	return fits;
}

void access_log_reopen(struct access_log *log)
{
	pthread_mutex_lock(&log->lock);
	log->reopen = true;
	pthread_mutex_unlock(&log->lock);
	pthread_cond_signal(&log->more);
}

void access_log_close(struct access_log *log)
{
	if (!log)
		return;
	pthread_mutex_lock(&log->lock);
	__atomic_store_n(&log->stop, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&log->lock);
	pthread_cond_signal(&log->more);
	pthread_join(log->thread, NULL);
	pthread_mutex_destroy(&log->lock);
	pthread_cond_destroy(&log->more);
	close(log->fd);
	free(log->path);
	free(log->fill);
	free(log->out);
	free(log);
}
