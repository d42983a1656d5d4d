/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Listening sockets of the admin servers. Both: a descriptor, or negative errno with the message in err. */
#ifndef KVSTEER_CONTROL_ADMIN_SOCKET_H
#define KVSTEER_CONTROL_ADMIN_SOCKET_H
#include <stddef.h>

struct config_address;

int admin_listen_tcp(const struct config_address *a, char *err, size_t err_len);
/* Makes the directory if it is missing, replaces a socket that nobody listens on, mode 0660. */
int admin_listen_unix(const char *path, char *err, size_t err_len);
#endif
