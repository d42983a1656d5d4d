/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Many host names at once: getaddrinfo() blocks for as long as the resolver pleases, so that a few dozen
 * threads ask for one name each, and nobody has to wait for them. */
#ifndef KVSTEER_CONFIG_NAMES_H
#define KVSTEER_CONFIG_NAMES_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define NAME_LOOKUP_THREADS 32u
/* More than one resolver that does not answer costs with glibc's defaults (two tries of 5 s). */
#define NAME_LOOKUP_PATIENCE_NS 12000000000ull

/* A list of names, shared with the threads that ask for them. */
struct name_lookup;

/* Room for `n` names; NULL without memory. The caller has a reference. */
struct name_lookup *name_lookup_new(unsigned n);
/* Adds a name, unless it is there already; not after the start. `host` is copied, at most 255 bytes of it. */
void name_lookup_add(struct name_lookup *l, const char *host, uint16_t port);
unsigned name_lookup_count(const struct name_lookup *l);
/* Starts to ask. Where no thread can be had it asks itself, and blocks. */
void name_lookup_start(struct name_lookup *l);
bool name_lookup_done(const struct name_lookup *l);
/* Waits for all answers, up to timeout_ns (CLOCK_MONOTONIC). False: some are missing. */
bool name_lookup_wait(struct name_lookup *l, uint64_t timeout_ns);
/* What has come of one name: true and its first address in the resolver's order; else *error says why not
 * (static text). Any thread, at any time after the start. */
bool name_lookup_result(const struct name_lookup *l, const char *host, uint16_t port, struct sockaddr_storage *sa,
			socklen_t *len, const char **error);
/* Name `i` of name_lookup_count(): true where it has an address. */
bool name_lookup_nth(const struct name_lookup *l, unsigned i, const char **host, uint16_t *port);
/* Gives the reference back. Names that nobody has asked for yet are not asked for any more; the threads
 * that wait for an answer end when it comes. */
void name_lookup_put(struct name_lookup *l);
#endif
