/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Keys that a running process can't change: told at every reload that has them otherwise. */
#ifndef KVSTEER_CONTROL_RESTART_H
#define KVSTEER_CONTROL_RESTART_H

#define RESTART_KEYS_MAX 8

struct config;

/* Names of keys that differ between what the process was started with and `now`, which it runs
 * with otherwise. Returns their number; the strings are constants. */
unsigned restart_keys(const struct config *started, const struct config *now, const char *keys[RESTART_KEYS_MAX]);
#endif
