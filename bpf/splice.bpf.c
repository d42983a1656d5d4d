/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The bytes of an answer's body from a backend's socket to a client's, without
 * the daemon. Attached to `splice_upstream` as the stream verdict: it runs for
 * every packet that a backend connection receives, under that socket's lock, and
 * either redirects it to the client or passes it to the daemon.
 *
 * The gate: a packet is redirected only while nothing that was passed before is
 * still with the daemon (passed == consumed), so that no byte can overtake
 * another. The daemon opens the gate by publishing `consumed`, and looks at
 * `passed` again afterwards; the program, when it passes, looks at `armed` and
 * `consumed` again. With only one of the two looks a packet that is passed at the
 * moment of the publish is read by nobody. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* 6 to 9 steps a chunk; more in one packet go to the daemon. Chosen for the verifier:
 * clang 19's code takes 2,950 instructions a step (262k in all), clang 14's 840 (74k). */
#define HTTP_FRAMING_STEPS 88
#include "kernel_min.h"
#include "splice_maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile typeof(x) *)&(x) = (v))
/* A fetching atomic is a full barrier on every machine; a plain add is not. */
#define FETCH_ADD(x, v) __sync_fetch_and_add(&(x), v)

#ifdef KVSTEER_WIDE_RACE
/* Only for tests: holds the moment open between a look at the gate and the count of
 * what was passed. */
static long race_turn(__u32 i, void *ctx)
{
	return 0;
}
#define RACE_WINDOW() bpf_loop(40000, race_turn, 0, 0)
#else
#define RACE_WINDOW() ((void)0)
#endif

static __always_inline struct splice_counts *counts(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&splice_counters, &zero);
}

/* Wakes the daemon. FORCE_WAKEUP: the adaptive mode may leave the last record of
 * a flow without a wake-up. */
static __always_inline void tell(struct splice_flow *f, __u32 row, __u32 generation, __u32 kind, __u32 reason)
{
	struct splice_event ev = {
		.time_ns = bpf_ktime_get_ns(),
		.redirected_bytes = f->redirected_bytes,
		.flow = row,
		.generation = generation,
		.kind = kind,
		.reason = reason,
	};
	__u32 worker = f->worker;
	void *ring = bpf_map_lookup_elem(&splice_rings, &worker);
	struct splice_counts *c = counts();

	if (!c)
		return;
	if (!ring || bpf_ringbuf_output(ring, &ev, sizeof(ev), BPF_RB_FORCE_WAKEUP))
		FETCH_ADD(c->lost_events, 1);
	if (kind == SPLICE_EVENT_END)
		FETCH_ADD(c->ends, 1);
	else
		FETCH_ADD(c->takeovers[reason & 7], 1);
}

/* Hands the packet to the daemon. */
static __always_inline int pass(struct __sk_buff *skb, struct splice_flow *f, __u32 row, __u32 reason)
{
	__u64 before;
	__u32 armed;

	RACE_WINDOW();
	before = FETCH_ADD(f->passed_bytes, skb->len);
	armed = READ_ONCE(f->armed);
	if (armed && armed != f->ended && READ_ONCE(f->consumed_bytes) == before) {
		f->takeovers++;
		f->reason = reason;
		tell(f, row, armed, SPLICE_EVENT_TAKEOVER, reason);
	}
	return SK_PASS;
}

/* How much of what was redirected the client's TCP has not sent yet: what waits in
 * the queue between the sockets and in the send buffer. False: no such client. */
static __always_inline bool client_backlog(const struct splice_flow *f, __u32 client, __s64 *backlog)
{
	struct bpf_sock *sk = bpf_map_lookup_elem(&splice_clients, &client);
	struct tcp_sock *tp;
	__u64 sent = 0;

	if (!sk)
		return false;
	tp = bpf_skc_to_tcp_sock(sk); /* sk_skb programs have no bpf_tcp_sock(); wants CAP_PERFMON */
	if (tp) {
		/* acked first: an ACK in between makes the sum too small, never too large */
		sent = tp->bytes_acked;
		sent += (__u32)(tp->snd_nxt - tp->snd_una);
	}
	bpf_sk_release(sk);
	*backlog = (__s64)(f->w0_bytes + (f->redirected_bytes - f->r0_bytes) - sent);
	return tp != 0;
}

/* Payload can be skipped unread, control bytes must lie in the linear part. False:
 * no memory for that. */
static __always_inline bool make_readable(struct __sk_buff *skb, const struct http_framing *framing)
{
	__u32 have = (__u32)((long)skb->data_end - (long)skb->data);

	if (framing->state == HTTP_FS_LENGTH || (framing->state == HTTP_FS_DATA && framing->left > skb->len))
		return true;
	return have >= skb->len || !bpf_skb_pull_data(skb, skb->len);
}

/* An SSE comment keeps a stream's connection alive but is no sign of a working engine. */
static __always_inline void count_event(struct splice_flow *f, const __u8 *data, const __u8 *end,
					const struct http_framing_span *span)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 off = span->off;

	f->events++;
	f->last_ns = now;
	if (!span->len)
		return;
	if (off <= 0xfff0 && data + off + 1 <= end && data[off] == ':') {
		f->comments++;
		return;
	}
	f->comments = 0;
	f->payload_ns = now;
}

/* Global, so that the verifier walks it once and by itself: inlined, the caller's
 * knowledge of every path to this point multiplies the loop (clang 14: over 1M). */
__noinline int walk_body(struct __sk_buff *skb, struct http_framing *framing, struct http_framing_span *span)
{
	if (!framing || !span)
		return HTTP_FRAMING_ERROR;
	return http_framing_advance(framing, (void *)(long)skb->data, (void *)(long)skb->data_end, 0, skb->len, span);
}

SEC("sk_skb/stream_verdict")
int splice_verdict(struct __sk_buff *skb)
{
	struct http_framing_span span = {};
	struct splice_flow *f;
	__u64 consumed, cookie;
	__u32 *found, row, armed, client, len = skb->len;
	__s64 backlog;
	int status;

	/* A bare FIN. Redirected, it would make the client's socket fail for ever (EPIPE). */
	if (!len)
		return SK_PASS;
	cookie = bpf_get_socket_cookie(skb);
	found = bpf_map_lookup_elem(&splice_cookies, &cookie);
	if (!found)
		return SK_PASS;
	row = *found;
	f = bpf_map_lookup_elem(&splice_flows, &row);
	if (!f)
		return SK_PASS;

	armed = READ_ONCE(f->armed);
	consumed = READ_ONCE(f->consumed_bytes);
	if (!armed || armed == f->ended)
		return pass(skb, f, row, SPLICE_WHY_RACE);
	/* The barrier also orders the loads above before those of what was published with them. */
	if (FETCH_ADD(f->passed_bytes, 0) != consumed)
		return pass(skb, f, row, SPLICE_WHY_RACE);

	client = f->client;
	if (!client_backlog(f, client, &backlog))
		return pass(skb, f, row, SPLICE_WHY_CLIENT_GONE);
	if (backlog > 0 && backlog >= f->limit_bytes)
		return pass(skb, f, row, SPLICE_WHY_BACKPRESSURE);

	/* On a copy: whatever fails below, the daemon finds the framing before this packet. In
	 * the flow's own memory, for a per-CPU scratch could be overwritten: the program also runs
	 * from the socket's backlog, where another CPU-local packet may interrupt it. */
	f->scratch = f->framing;
	if (!make_readable(skb, &f->scratch))
		return pass(skb, f, row, SPLICE_WHY_MEMORY);
	status = walk_body(skb, &f->scratch, &span);
	if (status == HTTP_FRAMING_ERROR)
		return pass(skb, f, row, SPLICE_WHY_FRAMING);
	if (span.consumed != len) {
		struct splice_counts *c = counts();

		if (status != HTTP_FRAMING_END)
			return pass(skb, f, row, SPLICE_WHY_STEPS);
		/* A verdict can't split a packet: what lies behind the end belongs to nobody. */
		if (bpf_skb_change_tail(skb, span.consumed, 0))
			return pass(skb, f, row, SPLICE_WHY_MEMORY);
		f->trimmed_bytes += len - span.consumed;
		if (c)
			FETCH_ADD(c->trimmed, 1);
	}
	if (bpf_sk_redirect_map(skb, &splice_clients, client, 0) != SK_PASS)
		return pass(skb, f, row, SPLICE_WHY_CLIENT_GONE);

	count_event(f, (void *)(long)skb->data, (void *)(long)skb->data_end, &span);
	f->framing = f->scratch;
	/* a barrier too: who sees `ended` sees framing and count of this packet */
	FETCH_ADD(f->redirected_bytes, span.consumed);
	if (status == HTTP_FRAMING_END) {
		WRITE_ONCE(f->ended, armed);
		tell(f, row, armed, SPLICE_EVENT_END, SPLICE_WHY_NONE);
	}
	return SK_PASS;
}
