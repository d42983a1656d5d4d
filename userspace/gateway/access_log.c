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
#include "base/utf8.h"

#define BUFFER_BYTES (1u << 20)
#define TEXT_BYTES 256     /* of one string; escaped at worst six times that */
#define FLUSH_MS 50

struct access_log {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	bool json, off; /* atomic: of lines from now on */
	bool reopen;
	bool stop;    /* atomic */
	uint64_t lost; /* atomic: lines that the sink did not take */
	/* a reload's sink waits for the thread, which writes to the old one what came before */
	bool next;
	int next_fd;
	char *next_path;
	size_t next_at; /* bytes of `fill` that are still the old one's */
	/* the thread's own */
	char *path;   /* NULL: stdout, or off */
	bool file;    /* a regular file: writing it does not wait for a reader */
	bool torn;    /* the last write ended inside a line */
	int fd;       /* -1: off */
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

/* What a terminal or a reader of lines might take for more than a character. */
static bool must_escape(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029;
}

/* A string of the client's making: in JSON's quotes where it needs any, cut to
 * TEXT_BYTES, so that it can end neither the field nor the line. What is no UTF-8 shows as
 * U+FFFD: JSON has no bytes. */
static void put_text(struct line *l, const char *s, size_t n, bool always_quote)
{
	bool plain = !always_quote && n > 0;

	if (n > TEXT_BYTES) /* not inside a character */
		for (n = TEXT_BYTES; n > TEXT_BYTES - 3 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
			;
	for (size_t i = 0; plain && i < n; i++)
		plain = (unsigned char)s[i] > 0x20 && (unsigned char)s[i] < 0x7f && s[i] != '"' && s[i] != '\\' && s[i] != '=';
	if (plain) {
		put(l, s, n);
		return;
	}
	put(l, "\"", 1);
	for (size_t i = 0, len; i < n; i += len ? len : 1) {
		uint32_t cp = 0xfffd;

		len = utf8_sequence(s + i, n - i, &cp);
		if (cp == '"' || cp == '\\')
			putf(l, "\\%c", (int)cp);
		else if (!len || must_escape(cp))
			putf(l, "\\u%04x", cp);
		else
			put(l, s + i, len);
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

int access_log_sink(const struct access_sink *s)
{
	int fd;

	if (s->off)
		return 0;
	fd = s->path ? open(s->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640) : dup(STDOUT_FILENO);
	return fd < 0 ? -errno : fd;
}

static void sink_set(struct access_log *log, int fd)
{
	struct stat st;

	log->fd = fd;
	log->file = !fstat(fd, &st) && S_ISREG(st.st_mode);
}

static void lose(struct access_log *log, const char *p, size_t n)
{
	uint64_t lines = 0;

	for (const char *end = p + n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		lines++;
	__atomic_add_fetch(&log->lost, lines, __ATOMIC_RELAXED);
}

/* A pipe that nobody reads must not hold the process: its writes are small enough
 * never to block once poll() said so (pipe(7)), and the end is waited for a second. */
static void write_all(struct access_log *log, const char *p, size_t n)
{
	uint64_t give_up_ns = 0;

	if (log->fd < 0)
		return;
	/* what was cut is a line of its own: the next one stays whole */
	if (n && log->torn && write(log->fd, "\n", 1) == 1)
		log->torn = false;
	while (n) {
		struct pollfd pfd = { log->fd, POLLOUT, 0 };
		ssize_t r;

		if (!log->file) {
			if (!give_up_ns && __atomic_load_n(&log->stop, __ATOMIC_ACQUIRE))
				give_up_ns = clock_now_ns() + NSEC_PER_SEC;
			if (give_up_ns && clock_now_ns() > give_up_ns) {
				lose(log, p, n);
				return;
			}
			if (poll(&pfd, 1, 100) <= 0)
				continue;
		}
		r = write(log->fd, p, log->file || n < PIPE_BUF ? n : PIPE_BUF);
		if (r < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (r < 0) {
			log_warn("access_log_write_failed", "path=%s error=\"%s\" bytes=%zu", log->path ? log->path : "stdout",
				 strerror(errno), n);
			lose(log, p, n);
			return;
		}
		if (r > 0)
			log->torn = p[r - 1] != '\n';
		p += r;
		n -= (size_t)r;
	}
}

static void replace_sink(struct access_log *log, int fd, char *path)
{
	if (log->fd >= 0)
		close(log->fd);
	free(log->path);
	log->path = path;
	log->torn = false;
	log->fd = -1;
	if (fd >= 0)
		sink_set(log, fd);
}

static void reopen_sink(struct access_log *log)
{
	const struct access_sink s = { .path = log->path };
	int fd = access_log_sink(&s);

	if (fd < 0) {
		log_warn("access_log_reopen_failed", "path=%s error=\"%s\"", log->path, strerror(-fd));
		return;
	}
	close(log->fd);
	log->torn = false;
	sink_set(log, fd);
}

static void *access_log_thread(void *arg)
{
	struct access_log *log = arg;
	bool stop = false;

	while (!stop) {
		struct timespec until;
		size_t n, old;
		char *p, *next_path;
		bool reopen, next;
		int next_fd;

		pthread_mutex_lock(&log->lock);
		while (!log->stop && !log->filled && !log->reopen && !log->next)
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
		next = log->next;
		next_fd = log->next_fd;
		next_path = log->next_path;
		old = log->next_at;
		log->next = false;
		p = log->fill;
		n = log->filled;
		log->fill = log->out;
		log->out = p;
		log->filled = 0;
		pthread_mutex_unlock(&log->lock);
		if (next) {
			write_all(log, p, old);
			p += old;
			n -= old;
			replace_sink(log, next_fd, next_path);
		}
		write_all(log, p, n);
		if (reopen && log->path)
			reopen_sink(log);
	}
	return NULL;
}

int access_log_open(struct access_log **out, const struct access_sink *s)
{
	const char *path = s->off ? NULL : s->path;
	struct access_log *log = calloc(1, sizeof(*log));
	int err = -ENOMEM;

	*out = NULL;
	if (!log)
		return -ENOMEM;
	log->json = s->json;
	log->off = s->off;
	log->fill = malloc(BUFFER_BYTES);
	log->out = malloc(BUFFER_BYTES);
	log->path = path ? strdup(path) : NULL;
	log->fd = -1;
	if (!log->fill || !log->out || (path && !log->path))
		goto fail;
	err = access_log_sink(s);
	if (err < 0)
		goto fail;
	if (!s->off)
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
	bool fits, wake;
	size_t n;

	if (__atomic_load_n(&log->off, __ATOMIC_RELAXED))
		return true;
	n = access_log_format(line, sizeof(line), __atomic_load_n(&log->json, __ATOMIC_RELAXED), clock_wall_ns(), e);
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

void access_log_switch(struct access_log *log, const struct access_sink *s, int fd)
{
	char *path = s->off || !s->path ? NULL : strdup(s->path); /* without memory: it is not opened anew at a rotation */

	pthread_mutex_lock(&log->lock);
	if (log->next) { /* the thread has not come to the one before: its lines go where these go */
		if (log->next_fd >= 0)
			close(log->next_fd);
		free(log->next_path);
	} else {
		log->next_at = log->filled;
	}
	log->next = true;
	log->next_fd = s->off ? -1 : fd;
	log->next_path = path;
	__atomic_store_n(&log->json, s->json, __ATOMIC_RELAXED);
	__atomic_store_n(&log->off, s->off, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&log->lock);
	pthread_cond_signal(&log->more);
}

uint64_t access_log_lost(const struct access_log *log)
{
	return __atomic_load_n(&log->lost, __ATOMIC_RELAXED);
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
	if (log->next && log->next_fd >= 0)
		close(log->next_fd);
	if (log->next)
		free(log->next_path);
	if (log->fd >= 0)
		close(log->fd);
	free(log->path);
	free(log->fill);
	free(log->out);
	free(log);
}
