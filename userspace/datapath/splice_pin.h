/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The maps' names in the BPF file system, for an operator with bpftool. */
#ifndef KVSTEER_DATAPATH_SPLICE_PIN_H
#define KVSTEER_DATAPATH_SPLICE_PIN_H
#include <stddef.h>

struct splice;

/* Pins maps and program at DIR/INSTANCE/v1/. 0; or -errno with a sentence in why, nothing is
 * pinned then: -EBUSY if another living process has the instance. Pins of a dead one are replaced. */
int splice_pin(struct splice *s, const char *dir, const char *instance, char *why, size_t len);
/* Removes the pins again. Harmless without any. */
void splice_unpin(struct splice *s);
#endif
