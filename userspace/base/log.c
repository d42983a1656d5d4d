/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_format.h"

static const char *const level_names[] = { "error", "warn", "info", "debug" };
static enum log_level log_level_max = LOG_LVL_INFO;

void log_set_level(enum log_level level)
{
	__atomic_store_n(&log_level_max, level, __ATOMIC_RELAXED);
}

/* True if the line may go out; *suppressed then says how many did not before it.
 * Counts are approximate under a race of two threads: a line more or less. */
static int log_site_admit(struct log_site *site, uint64_t second, uint32_t *suppressed)
{
	*suppressed = 0;
	if (__atomic_load_n(&site->second, __ATOMIC_RELAXED) != second) {
		__atomic_store_n(&site->second, second, __ATOMIC_RELAXED);
		__atomic_store_n(&site->count, 0, __ATOMIC_RELAXED);
		*suppressed = __atomic_exchange_n(&site->suppressed, 0, __ATOMIC_RELAXED);
	}
	if (__atomic_add_fetch(&site->count, 1, __ATOMIC_RELAXED) <= LOG_BURST)
		return 1;
	__atomic_add_fetch(&site->suppressed, 1, __ATOMIC_RELAXED);
	return 0;
}

void log_emit(struct log_site *site, enum log_level level, const char *event, const char *fmt, ...)
{
	char line[1024], body[768];
	uint32_t suppressed;
	struct tm tm;
	uint64_t wall;
	time_t sec;
	va_list ap;
	int n;

	if (level > __atomic_load_n(&log_level_max, __ATOMIC_RELAXED))
		return;
	wall = clock_wall_ns();
	if (!log_site_admit(site, wall / NSEC_PER_SEC, &suppressed))
		return;
	va_start(ap, fmt);
	log_format(body, sizeof(body), fmt, ap);
	va_end(ap);
	sec = (time_t)(wall / NSEC_PER_SEC);
	gmtime_r(&sec, &tm);
	n = snprintf(line, sizeof(line) - 1, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ level=%s event=%s%s%s",
		     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		     (unsigned)(wall % NSEC_PER_SEC / NSEC_PER_MSEC), level_names[level], event, *body ? " " : "", body);
	if (n < 0)
		return;
	if (n > (int)sizeof(line) - 32)
		n = (int)sizeof(line) - 32;
	if (suppressed)
		n += snprintf(line + n, sizeof(line) - (size_t)n - 1, " suppressed=%u", suppressed);
	line[n++] = '\n';
	(void)!write(STDERR_FILENO, line, (size_t)n);
}
