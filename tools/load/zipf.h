/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Zipf's law over n items: P(k) proportional to 1 / (k + 1)^z. */
#ifndef KVSTEER_LOAD_ZIPF_H
#define KVSTEER_LOAD_ZIPF_H
#include <stdint.h>

#include "load/rng.h"

struct load_zipf {
	double *cumulative; /* owned; n values, the last is 1 */
	uint32_t n;
};

/* n >= 1, z >= 0 (0 is uniform). Returns 0, -EINVAL or -ENOMEM. */
int load_zipf_init(struct load_zipf *z, uint32_t n, double exponent);
void load_zipf_free(struct load_zipf *z);
/* An item, 0 the most frequent. */
uint32_t load_zipf_draw(const struct load_zipf *z, struct load_rng *r);
#endif
