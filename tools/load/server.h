/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef KVSTEER_LOAD_SERVER_H
#define KVSTEER_LOAD_SERVER_H
#include <sys/socket.h>

/* Resolves the name and takes the first address that accepts a connection; waits 5 s for
 * each. Returns 0, or -errno after a message on stderr. */
int load_server_find(const char *host, const char *port, struct sockaddr_storage *addr, socklen_t *addr_len);
#endif
