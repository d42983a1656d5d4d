/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The relay: read, check the framing, write. One read and one write per event of
 * a stream; nothing is copied unless the client's socket is full. */
#include <errno.h>

#include "datapath/datapath.h"
#include "http/body.h"

#define OUT_HARD_LIMIT (256u << 20) /* never reached: one feed beyond out_limit at most */

void flow_init(struct flow *f, struct conn *from, struct conn *to, uint8_t body_kind, uint64_t length,
	       enum flow_form form, uint32_t out_limit)
{
	memset(f, 0, sizeof(*f));
	f->from = from;
	f->to = to;
	f->form = form;
	f->out_limit = out_limit;
	http_framing_init(&f->framing, body_kind, length);
}

void flow_free(struct flow *f)
{
	iobuf_free(&f->out);
}

/* Writes v[0..n) to the client behind what already waits; keeps what it does not take. */
static enum flow_result flow_write(struct flow *f, struct iovec *v, unsigned n)
{
	ssize_t sent = 0;

	if (f->form == FLOW_DISCARD)
		return FLOW_MORE;
	/* v[0] is left free by the callers for the bytes that wait */
	if (!f->hold) {
		struct iovec *from = v + 1;
		int count = (int)n;

		if (f->out.len) {
			v[0] = (struct iovec){ iobuf_head(&f->out), f->out.len };
			from = v;
			count++;
		}
		sent = count ? conn_send(f->to, from, count) : 0;
		if (sent == -EAGAIN)
			sent = 0;
		if (sent < 0)
			return FLOW_CLIENT_GONE;
		f->sent_bytes += (uint64_t)sent;
		if (f->out.len) {
			uint32_t old = (uint64_t)sent < f->out.len ? (uint32_t)sent : f->out.len;

			iobuf_consume(&f->out, old);
			sent -= old;
		}
	}
	for (unsigned i = 1; i <= n; i++) {
		size_t len = v[i].iov_len, skip = (size_t)sent < len ? (size_t)sent : len;

		sent -= (ssize_t)skip;
		if (len > skip && iobuf_append(&f->out, (uint8_t *)v[i].iov_base + skip, (uint32_t)(len - skip), OUT_HARD_LIMIT))
			return FLOW_NO_MEMORY;
	}
	return f->out.len >= f->out_limit ? FLOW_BLOCKED : FLOW_MORE;
}

static enum flow_result worse(enum flow_result a, enum flow_result b)
{
	return a > b ? a : b;
}

/* Payload goes out with the framing of FLOW_CHUNK or FLOW_PAYLOAD. */
static enum flow_result flow_reframe(struct flow *f, const uint8_t *p, uint32_t n)
{
	char head[HTTP_CHUNK_HEAD_MAX];
	struct iovec v[4];

	if (f->form == FLOW_PAYLOAD) {
		v[1] = (struct iovec){ (void *)p, n };
		return flow_write(f, v, 1);
	}
	v[1] = (struct iovec){ head, http_chunk_head(head, n) };
	v[2] = (struct iovec){ (void *)p, n };
	v[3] = (struct iovec){ (void *)HTTP_CHUNK_END, 2 };
	return flow_write(f, v, 3);
}

enum flow_result flow_feed(struct flow *f, const uint8_t *p, uint32_t n)
{
	enum flow_result result = FLOW_MORE;
	int status = http_framing_status(&f->framing);
	uint32_t pos = 0;

	/* To the end of what came even when the client is lost on the way: who reads on
	 * for nobody must know where in the body it is. */
	while (pos < n && status == HTTP_FRAMING_MORE) {
		struct http_framing_span span;

		status = http_framing_step(&f->framing, p, p + n, pos, n, &span);
		pos += span.consumed;
		if (!span.len)
			continue;
		if (f->observe)
			f->observe(f, p + span.off, span.len);
		if ((f->form == FLOW_CHUNK || f->form == FLOW_PAYLOAD) && result < FLOW_CLIENT_GONE)
			result = worse(result, flow_reframe(f, p + span.off, span.len));
	}
	f->surplus = n - pos;
	if (result >= FLOW_CLIENT_GONE)
		return result;
	if (status == HTTP_FRAMING_ERROR)
		return FLOW_MALFORMED; /* nothing of this read goes out: the client sees a cut before it */
	if (f->form == FLOW_AS_FRAMED && pos) {
		struct iovec v[2];

		v[1] = (struct iovec){ (void *)p, pos };
		result = flow_write(f, v, 1);
		if (result >= FLOW_CLIENT_GONE)
			return result;
	}
	return status == HTTP_FRAMING_END ? FLOW_END : result;
}

enum flow_result flow_eof(struct flow *f, bool reset)
{
	struct iovec v[2] = { { 0 }, { (void *)HTTP_CHUNK_LAST, sizeof(HTTP_CHUNK_LAST) - 1 } };
	enum flow_result r;

	if (f->framing.state == HTTP_FS_END)
		return FLOW_END;
	if (reset || f->framing.state != HTTP_FS_UNTIL_CLOSE)
		return FLOW_CUT;
	f->framing.state = HTTP_FS_END;
	if (f->form != FLOW_CHUNK)
		return FLOW_END;
	r = flow_write(f, v, 1);
	return r >= FLOW_CLIENT_GONE ? r : FLOW_END;
}

enum flow_result flow_flush(struct flow *f)
{
	struct iovec v;
	ssize_t n;

	if (f->hold || !f->out.len)
		return FLOW_MORE;
	v = (struct iovec){ iobuf_head(&f->out), f->out.len };
	n = conn_send(f->to, &v, 1);
	if (n == -EAGAIN)
		return FLOW_BLOCKED;
	if (n < 0)
		return FLOW_CLIENT_GONE;
	f->sent_bytes += (uint64_t)n;
	iobuf_consume(&f->out, (uint32_t)n);
	return f->out.len ? FLOW_BLOCKED : FLOW_MORE;
}
