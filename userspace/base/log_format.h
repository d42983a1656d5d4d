/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* `key=value` text of log lines, from a printf format: whatever a value's text holds, it stays one value. */
#ifndef KVSTEER_BASE_LOG_FORMAT_H
#define KVSTEER_BASE_LOG_FORMAT_H
#include <stdarg.h>
#include <stddef.h>

/* Formats into out[0..cap), cap >= 8, always ended by NUL. A value is what follows `=` up to the next blank of the
 * format (or, where the format has it in quotes, up to the closing one). It comes out in quotes if the
 * format has them, or if it is empty or holds a blank, a quote, a backslash or a `?`; then `"` and `\` get a
 * backslash before them. A control character becomes `?` anywhere. What does not fit is cut, quotes closed. Conversions: d i u x X c s p f g e %, with flags, width, precision and
 * length. Returns the length. */
size_t log_format(char *out, size_t cap, const char *fmt, va_list ap);
#endif
