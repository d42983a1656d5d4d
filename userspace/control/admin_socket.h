/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Listening sockets of the admin servers. Both: a descriptor, or negative errno with the message in err. */
#ifndef KVSTEER_CONTROL_ADMIN_SOCKET_H
#define KVSTEER_CONTROL_ADMIN_SOCKET_H
#include <stddef.h>

struct config;

/* On admin.address, which is given. */
int admin_listen_tcp(const struct config *cfg, char *err, size_t err_len);
/* Makes the last directory of the path if that alone is missing (and logs it), replaces a socket that nobody listens on, mode 0660. */
int admin_listen_unix(const char *path, char *err, size_t err_len);
#endif
