/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Addresses, networks and backends' URLs as a person writes them. No name is
 * resolved here. All: 0, -ENOMEM, or -EINVAL with the fault in what. */
#ifndef KVSTEER_CONFIG_ADDRESS_H
#define KVSTEER_CONFIG_ADDRESS_H
#include "config/arena.h"
#include "config/config.h"

/* "127.0.0.1:8080", "[::1]:8080", "*:8080", "localhost:8080" (127.0.0.1). */
int address_parse_listen(const char *s, struct config_address *out, struct arena *a, char *what, size_t len);
/* "10.0.0.0/8", "fd00::/8", a bare address is a network of one. Host bits are cleared. */
int address_parse_cidr(const char *s, struct config_cidr *out, char *what, size_t len);
/* http://HOST[:PORT][/PREFIX]: fills url, address, host, host_header, path_prefix, port, and
 * sa where HOST is an address. */
int address_parse_url(const char *s, struct config_backend *out, struct arena *a, char *what, size_t len);
#endif
