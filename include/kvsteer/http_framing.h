/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* HTTP/1.1 body framing: where a message body ends. One state machine for the
 * kernel's verdict program and for the host (relay, de-chunker, request body
 * decoder), so that both always agree on who owns the next byte.
 *
 * The state is a fixed-width struct that may live in a BPF map value and be
 * handed over between kernel and daemon at any byte. It never looks at payload:
 * chunk data is skipped in O(1). It is strict by RFC 9112 7.1: 1*HEXDIG sizes,
 * CRLF only, no whitespace, a 63-bit guard, bounded extensions and trailers.
 *
 * Compiled for the host and with `clang -target bpf -mcpu=v3`. No libc, no
 * tables in memory (a table would need a .rodata map), no bpf_loop. */
#ifndef KVSTEER_HTTP_FRAMING_H
#define KVSTEER_HTTP_FRAMING_H
#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/* Sum of all chunk-extension bytes of one body: an endpoint that sends more is
 * not talking to anyone (RFC 9112 7.1.1: limit the total length). */
#define HTTP_FRAMING_EXT_MAX 16384
/* Bytes of the whole trailer section, its last CRLF not counted. */
#define HTTP_FRAMING_TRAILER_MAX 8192
/* Hex digits of one chunk-size, leading zeros included. */
#define HTTP_FRAMING_DIGITS_MAX 16
/* Steps of one call: one control byte or one run of payload each. Bounded for
 * the verifier, which needs about 950 instructions a step (6.18); callers on the
 * host call again. A chunk costs 6 to 9 steps, so 128 cover an skb of 14 chunks. */
#ifndef HTTP_FRAMING_STEPS
#define HTTP_FRAMING_STEPS 128
#endif

/* How a body is framed. */
enum http_body_kind {
	HTTP_BODY_NONE = 0,        /* no body: ended from the start */
	HTTP_BODY_LENGTH = 1,      /* Content-Length */
	HTTP_BODY_CHUNKED = 2,     /* Transfer-Encoding: chunked */
	HTTP_BODY_UNTIL_CLOSE = 3, /* responses only: ends with the connection */
};

/* Values of http_framing.state; part of the map layout, so never renumbered. */
enum http_framing_state {
	HTTP_FS_END = 0,           /* the body is complete: no further byte belongs to it */
	HTTP_FS_LENGTH = 1,        /* `left` payload bytes to come, then END */
	HTTP_FS_UNTIL_CLOSE = 2,   /* everything is payload */
	HTTP_FS_SIZE_FIRST = 3,    /* first digit of a chunk-size */
	HTTP_FS_SIZE = 4,          /* further digits, ';' or CR */
	HTTP_FS_EXT = 5,           /* inside chunk-ext */
	HTTP_FS_SIZE_LF = 6,       /* LF of the chunk header */
	HTTP_FS_DATA = 7,          /* `left` bytes of chunk-data to come */
	HTTP_FS_DATA_CR = 8,       /* CR after chunk-data */
	HTTP_FS_DATA_LF = 9,       /* LF after chunk-data */
	HTTP_FS_TRAILER_START = 10, /* first byte of a trailer line, or CR of the last line */
	HTTP_FS_TRAILER_NAME = 11,
	HTTP_FS_TRAILER_VALUE = 12,
	HTTP_FS_TRAILER_LF = 13,
	HTTP_FS_FINAL_LF = 14,     /* LF of the body's last CRLF */
	HTTP_FS_ERROR = 15,        /* malformed: `error` says how; stays so */
};

/* Values of http_framing.error. */
enum http_framing_error {
	HTTP_FE_NONE = 0,
	HTTP_FE_SIZE = 1,     /* chunk-size is not 1*HEXDIG */
	HTTP_FE_OVERFLOW = 2, /* chunk-size of 2^63 or more, or more than 16 digits */
	HTTP_FE_CRLF = 3,     /* CRLF expected: bare CR, bare LF, or data longer than its chunk-size */
	HTTP_FE_EXT = 4,      /* control byte in a chunk extension */
	HTTP_FE_EXT_MAX = 5,  /* over HTTP_FRAMING_EXT_MAX */
	HTTP_FE_TRAILER = 6,  /* malformed trailer line */
	HTTP_FE_TRAILER_MAX = 7, /* over HTTP_FRAMING_TRAILER_MAX */
	HTTP_FE_TRUNCATED = 8, /* the connection ended inside the body (http_framing_eof) */
};

/* What a step or an eof reports. */
enum http_framing_status {
	HTTP_FRAMING_MORE = 0,  /* inside the body */
	HTTP_FRAMING_END = 1,   /* the body ended with the last consumed byte */
	HTTP_FRAMING_ERROR = 2, /* malformed; see http_framing.error */
};

struct http_framing {
	__u64 left;          /* payload bytes to come in this chunk / body; the size so far while digits are read */
	__u64 payload_bytes; /* payload seen so far */
	__u32 ext_bytes;     /* chunk-extension bytes so far */
	__u16 trailer_bytes; /* trailer bytes so far */
	__u8 state;          /* enum http_framing_state */
	__u8 error;          /* enum http_framing_error, set when state is HTTP_FS_ERROR */
	__u8 digits;         /* digits of the chunk-size being read */
	__u8 pad[7];         /* zero */
};
_Static_assert(sizeof(struct http_framing) == 32, "http_framing is part of a map value");

/* One step's result: `consumed` bytes were taken from the input; the payload
 * among them is `len` bytes that begin `off` bytes into the input. */
struct http_framing_span {
	__u32 consumed;
	__u32 off;
	__u32 len;
};

#define HTTP_FRAMING_INLINE static inline __attribute__((always_inline, unused))

/* Starts a body. `length` counts for HTTP_BODY_LENGTH only. */
HTTP_FRAMING_INLINE void http_framing_init(struct http_framing *f, __u8 kind, __u64 length)
{
	f->left = 0;
	f->payload_bytes = 0;
	f->ext_bytes = 0;
	f->trailer_bytes = 0;
	f->state = HTTP_FS_END;
	f->error = HTTP_FE_NONE;
	f->digits = 0;
	for (int i = 0; i < 7; i++)
		f->pad[i] = 0;
	if (kind == HTTP_BODY_LENGTH && length) {
		f->left = length;
		f->state = HTTP_FS_LENGTH;
	} else if (kind == HTTP_BODY_CHUNKED) {
		f->state = HTTP_FS_SIZE_FIRST;
	} else if (kind == HTTP_BODY_UNTIL_CLOSE) {
		f->state = HTTP_FS_UNTIL_CLOSE;
	}
}

HTTP_FRAMING_INLINE int http_framing_fail(struct http_framing *f, __u8 error)
{
	f->state = HTTP_FS_ERROR;
	f->error = error;
	return HTTP_FRAMING_ERROR;
}

/* RFC 9110 5.6.2 tchar, from two bit masks. */
HTTP_FRAMING_INLINE int http_framing_is_tchar(__u8 c)
{
	const __u64 lo = 0x03ff6cfa00000000ull; /* !#$%&'*+-. 0-9 */
	const __u64 hi = 0x57ffffffc7fffffeull; /* A-Z ^_` a-z | ~ */

	if (c >= 128)
		return 0;
	return c < 64 ? (lo >> c) & 1 : (hi >> (c & 63)) & 1;
}

/* Bytes that may stand in an extension or a trailer value: HT, SP, VCHAR, obs-text. */
HTTP_FRAMING_INLINE int http_framing_is_text(__u8 c)
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

/* Takes up to `avail` payload bytes in O(1); returns how many of the next
 * bytes are payload, 0 if the next byte is a control byte (or none is due). */
HTTP_FRAMING_INLINE __u32 http_framing_take(struct http_framing *f, __u32 avail)
{
	__u32 n = avail;

	if (f->state == HTTP_FS_UNTIL_CLOSE) {
		f->payload_bytes += n;
		return n;
	}
	if (f->state != HTTP_FS_DATA && f->state != HTTP_FS_LENGTH)
		return 0;
	if (f->left < n)
		n = (__u32)f->left;
	f->left -= n;
	f->payload_bytes += n;
	if (!f->left)
		f->state = f->state == HTTP_FS_LENGTH ? HTTP_FS_END : HTTP_FS_DATA_CR;
	return n;
}

/* The value of a hex digit, or 16. */
HTTP_FRAMING_INLINE __u32 http_framing_hex(__u8 c)
{
	__u8 lower = c | 0x20;

	if (c >= '0' && c <= '9')
		return c - '0';
	if (lower >= 'a' && lower <= 'f')
		return lower - 'a' + 10;
	return 16;
}

/* Takes one control byte, i.e. in any state in which http_framing_take()
 * returns 0. Returns enum http_framing_status. */
HTTP_FRAMING_INLINE int http_framing_byte(struct http_framing *f, __u8 c)
{
	__u32 digit;

	switch (f->state) {
	case HTTP_FS_SIZE_FIRST:
		f->left = 0;
		f->digits = 0;
		f->state = HTTP_FS_SIZE;
		if (http_framing_hex(c) > 15)
			return http_framing_fail(f, HTTP_FE_SIZE);
		/* fall through */
	case HTTP_FS_SIZE:
		digit = http_framing_hex(c);
		if (digit < 16) {
			/* RFC 9112 7.1: anticipate large sizes; below 2^63 every sum of ours fits. */
			if (f->digits >= HTTP_FRAMING_DIGITS_MAX || f->left >> 59)
				return http_framing_fail(f, HTTP_FE_OVERFLOW);
			f->digits++;
			f->left = f->left << 4 | digit;
		} else if (c == '\r') {
			f->state = HTTP_FS_SIZE_LF;
		} else if (c == ';') {
			f->state = HTTP_FS_EXT;
			f->ext_bytes++;
			if (f->ext_bytes > HTTP_FRAMING_EXT_MAX)
				return http_framing_fail(f, HTTP_FE_EXT_MAX);
		} else {
			return http_framing_fail(f, c == '\n' ? HTTP_FE_CRLF : HTTP_FE_SIZE);
		}
		return HTTP_FRAMING_MORE;
	case HTTP_FS_EXT:
		if (c == '\r') {
			f->state = HTTP_FS_SIZE_LF;
			return HTTP_FRAMING_MORE;
		}
		if (!http_framing_is_text(c))
			return http_framing_fail(f, c == '\n' ? HTTP_FE_CRLF : HTTP_FE_EXT);
		f->ext_bytes++;
		if (f->ext_bytes > HTTP_FRAMING_EXT_MAX)
			return http_framing_fail(f, HTTP_FE_EXT_MAX);
		return HTTP_FRAMING_MORE;
	case HTTP_FS_SIZE_LF:
		if (c != '\n')
			return http_framing_fail(f, HTTP_FE_CRLF);
		f->state = f->left ? HTTP_FS_DATA : HTTP_FS_TRAILER_START;
		return HTTP_FRAMING_MORE;
	case HTTP_FS_DATA_CR:
		if (c != '\r')
			return http_framing_fail(f, HTTP_FE_CRLF);
		f->state = HTTP_FS_DATA_LF;
		return HTTP_FRAMING_MORE;
	case HTTP_FS_DATA_LF:
		if (c != '\n')
			return http_framing_fail(f, HTTP_FE_CRLF);
		f->state = HTTP_FS_SIZE_FIRST;
		return HTTP_FRAMING_MORE;
	case HTTP_FS_TRAILER_START:
		if (c == '\r') {
			f->state = HTTP_FS_FINAL_LF;
			return HTTP_FRAMING_MORE;
		}
		/* also refuses obs-fold and an empty name */
		if (!http_framing_is_tchar(c))
			return http_framing_fail(f, c == '\n' ? HTTP_FE_CRLF : HTTP_FE_TRAILER);
		f->state = HTTP_FS_TRAILER_NAME;
		break;
	case HTTP_FS_TRAILER_NAME:
		if (c == ':')
			f->state = HTTP_FS_TRAILER_VALUE;
		else if (!http_framing_is_tchar(c))
			return http_framing_fail(f, HTTP_FE_TRAILER);
		break;
	case HTTP_FS_TRAILER_VALUE:
		if (c == '\r')
			f->state = HTTP_FS_TRAILER_LF;
		else if (!http_framing_is_text(c))
			return http_framing_fail(f, c == '\n' ? HTTP_FE_CRLF : HTTP_FE_TRAILER);
		break;
	case HTTP_FS_TRAILER_LF:
		if (c != '\n')
			return http_framing_fail(f, HTTP_FE_CRLF);
		f->state = HTTP_FS_TRAILER_START;
		break;
	case HTTP_FS_FINAL_LF:
		if (c != '\n')
			return http_framing_fail(f, HTTP_FE_CRLF);
		f->state = HTTP_FS_END;
		return HTTP_FRAMING_END;
	case HTTP_FS_END:
		return HTTP_FRAMING_END;
	case HTTP_FS_ERROR:
		return HTTP_FRAMING_ERROR;
	default:
		/* payload states: the caller must use http_framing_take() */
		return HTTP_FRAMING_MORE;
	}
	if (f->trailer_bytes >= HTTP_FRAMING_TRAILER_MAX)
		return http_framing_fail(f, HTTP_FE_TRAILER_MAX);
	f->trailer_bytes++;
	return HTTP_FRAMING_MORE;
}

HTTP_FRAMING_INLINE int http_framing_status(const struct http_framing *f)
{
	if (f->state == HTTP_FS_END)
		return HTTP_FRAMING_END;
	return f->state == HTTP_FS_ERROR ? HTTP_FRAMING_ERROR : HTTP_FRAMING_MORE;
}

/* The walk below both functions that follow; `one_run` is a constant there. */
HTTP_FRAMING_INLINE int http_framing_walk(struct http_framing *f, const void *data, const void *data_end, __u32 from,
					  __u32 len, struct http_framing_span *out, int one_run)
{
	const __u8 *p = data;
	const __u8 *end = data_end;
	__u32 pos = from, first = from, payload = 0;
	int status = http_framing_status(f);

	for (int i = 0; i < HTTP_FRAMING_STEPS && status == HTTP_FRAMING_MORE && pos < len; i++) {
		__u32 n;

#ifdef __bpf__
		/* Keep the state in memory: held in registers as a constant it makes
		 * every path through the loop another state to verify. */
		asm volatile("" ::: "memory");
#endif
		n = http_framing_take(f, len - pos);
		if (n) {
			if (!payload)
				first = pos;
			payload += n;
			pos += n;
			status = http_framing_status(f);
			if (one_run)
				break;
			continue;
		}
#ifdef __bpf__
		/* The verifier grants access to 16 bits of packet offset only. */
		if (pos > 0xfff0)
			break;
#endif
		if (p + pos + 1 > end)
			break;
		status = http_framing_byte(f, p[pos]);
		pos++;
	}
	out->consumed = pos - from;
	out->off = first;
	out->len = payload;
	return status;
}

/* Advances over bytes `from`..`len` of a message that lies at data..data_end;
 * `len` may be larger than what data..data_end covers (an skb whose payload is
 * not linear): payload needs no access, control bytes do, and the walk stops
 * before one that can't be read.
 *
 * Consumes control bytes up to the first run of payload and that run, at most
 * HTTP_FRAMING_STEPS steps; `out` tells how far it came and where the payload
 * lies (offsets count from `data`). Stops right behind the body's last byte.
 * Returns enum http_framing_status; MORE with out->consumed < len - from means
 * call again with from += consumed (nothing consumed: unreadable byte). */
HTTP_FRAMING_INLINE int http_framing_step(struct http_framing *f, const void *data, const void *data_end,
					  __u32 from, __u32 len, struct http_framing_span *out)
{
	return http_framing_walk(f, data, data_end, from, len, out, 1);
}

/* As http_framing_step(), over all runs of payload: for who needs to know only
 * where the body ends. out->off is the first payload byte, out->len the sum of
 * payload. One flat loop of HTTP_FRAMING_STEPS steps: consumed < len - from at
 * MORE means that the budget ran out. */
HTTP_FRAMING_INLINE int http_framing_advance(struct http_framing *f, const void *data, const void *data_end,
					     __u32 from, __u32 len, struct http_framing_span *out)
{
	return http_framing_walk(f, data, data_end, from, len, out, 0);
}

/* The connection ended. END if the body ends here rightly (complete, or
 * delimited by close), else ERROR with HTTP_FE_TRUNCATED. */
HTTP_FRAMING_INLINE int http_framing_eof(struct http_framing *f)
{
	if (f->state == HTTP_FS_UNTIL_CLOSE)
		f->state = HTTP_FS_END;
	if (f->state == HTTP_FS_END)
		return HTTP_FRAMING_END;
	if (f->state == HTTP_FS_ERROR)
		return HTTP_FRAMING_ERROR;
	return http_framing_fail(f, HTTP_FE_TRUNCATED);
}
#endif
