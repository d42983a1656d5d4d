/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Values of flags that are more than a number. For options.c. */
#ifndef KVSTEER_LOAD_OPTIONS_VALUES_H
#define KVSTEER_LOAD_OPTIONS_VALUES_H
#include <stdbool.h>
#include <stdio.h>

#include "load/options.h"

#define LOAD_KIND_LIST "support, long8k, chat, hot, burst, sharegpt, lora or trace:FILE"

/* Prints "kvsteer-load: ... (see --help)" and returns -EINVAL. */
int load_option_fail(FILE *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether `s` may go into a JSON string and a header as it is. */
bool load_option_plain_name(const char *s);
/* Each sets its fields of `o` and returns 0, or -EINVAL after a message. They keep the
 * pointer to their value. */
int load_option_url(struct load_options *o, const char *url, FILE *err);
int load_option_workload(struct load_options *o, const char *name, FILE *err);
int load_option_header(struct load_options *o, const char *h, FILE *err);
/* Comma-separated names; replaces o->adapter_names. */
int load_option_adapters(struct load_options *o, const char *list, FILE *err);
#endif
