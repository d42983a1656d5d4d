/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What stands for an image, audio or file in the key. A data: URI counts by its
 * content, whatever media type it names. A URL counts without fragment and
 * without query parameters that change while the object doesn't: cache busters,
 * signatures and expiry times of object stores. */
#ifndef KVSTEER_PROMPT_MEDIA_H
#define KVSTEER_PROMPT_MEDIA_H
#include <stdbool.h>

#include "prompt/sink.h"

#define MEDIA_URL_MAX 2048      /* longer strings are taken as they are */

struct media {
	struct sink *out;
	uint32_t n;
	bool passing;           /* decided: bytes go straight to the sink */
	uint8_t buf[MEDIA_URL_MAX];
};

void media_begin(struct media *m, struct sink *out);
void media_chunk(struct media *m, const uint8_t *p, size_t n);
void media_end(struct media *m);
#endif
