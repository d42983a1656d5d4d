/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The daemon's life: configuration, gateway, admin server, signals. */
#ifndef KVSTEER_CONTROL_DAEMON_H
#define KVSTEER_CONTROL_DAEMON_H
#include <stdbool.h>
#include <stddef.h>

struct gateway;
struct config;

/* Runs until SIGTERM or SIGINT and the drain are over. argv is overwritten by the
 * process title. Returns the exit code: 0 drained, 1 could not start or was cut
 * short by a second signal, 2 faulty configuration. */
int daemon_run(const char *config_file, int argc, char **argv);

struct daemon {
	const char *config_file;
	struct gateway *gw;
	struct config *cfg; /* what runs now */
	struct config *started; /* what it was started with */
	bool draining;
	bool cut; /* a second SIGTERM: end at once */
};

/* Reads the file again and swaps it in. 0, or negative errno with the reason in
 * err and everything as before. Control thread only. */
int daemon_reload(struct daemon *d, char *err, size_t err_len);
#endif
