/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The admin servers, on the control thread: it polls admin_poll_fds() and calls
 * admin_run(). TCP: read only. Unix socket: kvsteerctl, reads and changes. */
#ifndef KVSTEER_CONTROL_ADMIN_H
#define KVSTEER_CONTROL_ADMIN_H
#include <poll.h>
#include <stddef.h>

struct daemon;
struct admin;

#define ADMIN_FDS 2

/* Opens what config says. A TCP address that can't be had is an error (negative
 * errno, message in err); a Unix socket that can't be made is logged and left out. */
int admin_create(struct admin **out, struct daemon *d, char *err, size_t err_len);
/* Fills at most ADMIN_FDS entries; returns how many. *timeout_ms is lowered if
 * admin_run() is due sooner. */
unsigned admin_poll_fds(struct admin *a, struct pollfd *fds, int *timeout_ms);
void admin_run(struct admin *a);
/* Closes connections and removes the Unix socket. NULL is allowed. */
void admin_destroy(struct admin *a);
#endif
