/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The daemon's own log: one line per event on stderr, `key=value` after a
 * stable event name, values quoted where they need it (base/log_format.h), rate limited per call site. Never prompt text, never a
 * credential. (The access log is the gateway's: gateway/access_log.h.) */
#ifndef KVSTEER_BASE_LOG_H
#define KVSTEER_BASE_LOG_H
#include <stdint.h>

enum log_level { LOG_LVL_ERROR, LOG_LVL_WARN, LOG_LVL_INFO, LOG_LVL_DEBUG };

/* Lines above `level` are dropped. Default LOG_LVL_INFO. Any thread. */
void log_set_level(enum log_level level);

/* State of one call site: at most LOG_BURST lines a second, the rest counted
 * and reported as `suppressed=N` with the next line that passes. */
struct log_site {
	uint64_t second;
	uint32_t count;
	uint32_t suppressed;
};
#define LOG_BURST 10

void log_emit(struct log_site *site, enum log_level level, const char *event, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#define log_at(level, event, ...)                                    \
	do {                                                         \
		static struct log_site log_site_;                    \
		log_emit(&log_site_, (level), (event), __VA_ARGS__); \
	} while (0)
#define log_error(event, ...) log_at(LOG_LVL_ERROR, event, __VA_ARGS__)
#define log_warn(event, ...) log_at(LOG_LVL_WARN, event, __VA_ARGS__)
#define log_info(event, ...) log_at(LOG_LVL_INFO, event, __VA_ARGS__)
#define log_debug(event, ...) log_at(LOG_LVL_DEBUG, event, __VA_ARGS__)
#endif
