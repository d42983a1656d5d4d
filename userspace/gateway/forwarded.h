/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Who a request is from, where it came by way of trusted proxies. */
#ifndef KVSTEER_GATEWAY_FORWARDED_H
#define KVSTEER_GATEWAY_FORWARDED_H
#include <netinet/in.h>
#include <stdbool.h>

#include "config/config.h"
#include "http/http1.h"

/* The client that the X-Forwarded-For fields name, read from the right: the first address that is none of
 * cfg's trusted_proxies, else the last one reached. `buf` holds the head. Only for requests of a trusted
 * peer: anybody can write anything. The text is inet_ntop()'s, IPv4 in IPv6 as IPv4. False: they name
 * nobody, the peer itself is the client. */
bool forwarded_client(const struct config *cfg, const struct http_req *r, const char *buf, char out[INET6_ADDRSTRLEN]);
#endif
