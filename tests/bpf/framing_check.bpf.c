/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* http_framing.h inside the kernel: loaded by tests/unit/http/test_framing_bpf.c
 * and run by BPF_PROG_TEST_RUN against the same code on the host. State and
 * result lie in a map value, as in the splice program's flow table. */
#include <linux/bpf.h>

#include "kvsteer/http_framing.h"

struct framing_check {
	struct http_framing framing;
	struct http_framing_span out;
	__u32 from;
	__s32 status;
	__u32 pad;
};

/* An array map of one entry; the test creates it and patches its reference in. */
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
} check_map __attribute__((section(".maps"), used));

static void *(*map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;

__attribute__((section("tc"), used)) int framing_check(struct __sk_buff *skb)
{
	const void *data = (const void *)(unsigned long)skb->data;
	const void *data_end = (const void *)(unsigned long)skb->data_end;
	__u32 zero = 0;
	struct framing_check *c = map_lookup(&check_map, &zero);

	if (!c)
		return 1;
	c->status = http_framing_advance(&c->framing, data, data_end, c->from, skb->len, &c->out);
	return 0;
}
