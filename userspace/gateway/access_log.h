/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The access log: one line a request. Workers append to a bounded buffer; a
 * thread of its own writes it out, so that a slow disk or a full pipe delays no
 * request: lines that find the buffer full are dropped and counted, and so are those
 * that the sink refuses (a full disk). */
#ifndef KVSTEER_GATEWAY_ACCESS_LOG_H
#define KVSTEER_GATEWAY_ACCESS_LOG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

struct access_log;

/* Everything a line says. Strings may be NULL or empty ("-"), lengths are theirs. No
 * prompt text and no credential is among them. */
struct access_entry {
	const char *id;
	const char *client; /* address as text */
	const char *method;
	const char *path;
	uint32_t path_len;
	const char *pool, *model, *backend, *policy;
	int status; /* 0: no answer was given */
	enum reason reason;
	uint32_t tokens, match_tokens;
	double ttft_predicted_ms, ttft_ms; /* < 0: none */
	double queued_ms, duration_ms;
	uint64_t bytes_in, bytes_out;
	unsigned retries;
};

/* Where lines go and what they look like. */
struct access_sink {
	bool off;         /* nowhere */
	const char *path; /* NULL: stdout */
	bool json;
};

/* The file is opened for appending, and again on access_log_reopen() (log rotation:
 * SIGHUP). 0 or negative errno. */
int access_log_open(struct access_log **out, const struct access_sink *s);
/* A reload: opens another sink beside the present one. A descriptor (0, unused, where it is
 * off) for access_log_switch() or close(), or negative errno. */
int access_log_sink(const struct access_sink *s);
/* From here on lines go to `fd`, which it takes; those before go where they would have gone. */
void access_log_switch(struct access_log *log, const struct access_sink *s, int fd);
/* False: dropped. Any thread; never blocks on the sink. */
bool access_log_write(struct access_log *log, const struct access_entry *e);
/* Lines that were taken and that the sink then refused. Any thread. */
uint64_t access_log_lost(const struct access_log *log);
void access_log_reopen(struct access_log *log);
/* Every line fits, whatever its strings hold. */
#define ACCESS_LINE_BYTES 16384

/* Formats one line with its newline into buf (cap >= ACCESS_LINE_BYTES); returns its length. */
size_t access_log_format(char *buf, size_t cap, bool json, uint64_t wall_ns, const struct access_entry *e);
/* Writes out what is buffered (bounded: 1 s), then frees. */
void access_log_close(struct access_log *log);
#endif
