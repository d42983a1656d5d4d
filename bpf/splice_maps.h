/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The maps of the splice program. Sizes are defaults: the loader may set others
 * before it loads. */
#ifndef KVSTEER_BPF_SPLICE_MAPS_H
#define KVSTEER_BPF_SPLICE_MAPS_H
#include "kvsteer/splice_abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SPLICE_FLOWS_DEFAULT);
	__type(key, __u32);
	__type(value, struct splice_flow);
} splice_flows SEC(".maps");

/* Backend sockets; the program is attached to this map. Same rows as splice_flows. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, SPLICE_FLOWS_DEFAULT);
	__type(key, __u32);
	__type(value, __u64);
} splice_upstream SEC(".maps");

/* Client sockets. No program is attached: one would bring the hazard of bytes
 * that wait unseen in the receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, SPLICE_CLIENTS_DEFAULT);
	__type(key, __u32);
	__type(value, __u64);
} splice_clients SEC(".maps");

/* Cookie of a backend socket -> row of splice_flows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SPLICE_FLOWS_DEFAULT);
	__type(key, __u64);
	__type(value, __u32);
} splice_cookies SEC(".maps");

struct splice_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, SPLICE_RING_BYTES);
};

/* A ring per worker: an END never waits behind another worker's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SPLICE_WORKERS_MAX);
	__type(key, __u32);
	__array(values, struct splice_ring);
} splice_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct splice_counts);
} splice_counters SEC(".maps");
#endif
