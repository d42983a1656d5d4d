/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "base/iobuf.h"

#define IOBUF_MIN 512u

int iobuf_reserve(struct iobuf *b, uint32_t n, uint32_t max)
{
	uint64_t want = (uint64_t)b->len + n, cap;
	uint8_t *mem;

	if (want > max)
		return -ENOBUFS;
	if (b->cap - b->off >= want)
		return 0;
	if (b->cap >= want) {
		memmove(b->mem, b->mem + b->off, b->len);
		b->off = 0;
		return 0;
	}
	cap = b->cap ? b->cap : IOBUF_MIN;
	while (cap < want)
		cap *= 2;
	if (cap > UINT32_MAX)
		cap = UINT32_MAX;
	mem = malloc(cap);
	if (!mem)
		return -ENOMEM;
	if (b->len)
		memcpy(mem, b->mem + b->off, b->len);
	free(b->mem);
	b->mem = mem;
	b->off = 0;
	b->cap = (uint32_t)cap;
	return 0;
}

int iobuf_append(struct iobuf *b, const void *p, uint32_t n, uint32_t max)
{
	int err = iobuf_reserve(b, n, max);

	if (err || !n) /* nothing may be NULL + 0 */
		return err;
	memcpy(iobuf_tail(b), p, n);
	b->len += n;
	return 0;
}
