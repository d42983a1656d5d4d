/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The few fields of kernel structures that programs read. Offsets come from the
 * running kernel's BTF when the object is loaded (CO-RE), so that no generated
 * vmlinux.h is needed and the build does not depend on the build host's kernel. */
#ifndef KVSTEER_BPF_KERNEL_MIN_H
#define KVSTEER_BPF_KERNEL_MIN_H

struct tcp_sock {
	__u64 bytes_acked; /* RFC 4898 tcpEStatsAppHCThruOctetsAcked */
	__u32 snd_una;     /* first byte that is not acknowledged */
	__u32 snd_nxt;     /* next byte to be sent */
} __attribute__((preserve_access_index));
#endif
