/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Opens N streams, keeps them open, counts their events and how long each was on its way.
 *
 *   stream_client --port P --streams N --seconds S [--open-rate PER_S] [--settle S]
 *
 * Prints `begin` once all streams have had an event and `settle` seconds have passed, and one line of JSON
 * `seconds` later. */
#include "net.h"
#include "prompt_text.h"

#include <stdbool.h>
#include <sys/uio.h>

#define SAMPLES_MAX (2u << 20)
#define MARK "\"sent_ns\":"
#define MARK_LEN (sizeof(MARK) - 1)
#define DIGITS 20

struct stream {
	int fd;
	bool asked, begun;
	unsigned carry_len;
	char carry[MARK_LEN + DIGITS]; /* the end of the last read, where a mark may be cut */
};

static char scratch[64 << 10];
static uint32_t *samples;
static size_t n_samples;
static unsigned long long events, errors, begun;
static bool measuring;
static int ep;

static void take(struct stream *s, char *p, size_t n)
{
	uint64_t now = now_ns();
	char *end = p + n, *at = p;

	while ((at = memmem(at, (size_t)(end - at), MARK, MARK_LEN)) && at + MARK_LEN + DIGITS <= end) {
		char digits[DIGITS + 1];
		uint64_t sent;

		memcpy(digits, at + MARK_LEN, DIGITS);
		digits[DIGITS] = 0;
		sent = strtoull(digits, NULL, 10);
		at += MARK_LEN + DIGITS;
		p = at;
		if (!s->begun) {
			s->begun = true;
			begun++;
		}
		if (!measuring)
			continue;
		events++;
		if (n_samples < SAMPLES_MAX)
			samples[n_samples++] = (uint32_t)((now - sent) / 100);
	}
	n = (size_t)(end - p) < sizeof(s->carry) - 1 ? (size_t)(end - p) : sizeof(s->carry) - 1;
	memcpy(s->carry, end - n, n);
	s->carry_len = (unsigned)n;
}

static void stream_readable(struct stream *s)
{
	ssize_t n;

	memcpy(scratch, s->carry, s->carry_len);
	n = recv(s->fd, scratch + s->carry_len, sizeof(scratch) - s->carry_len, 0);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || (!s->begun && !s->carry_len && memcmp(scratch, "HTTP/1.1 200", 12))) {
		errors++;
		close(s->fd);
		s->fd = -1;
		return;
	}
	take(s, scratch, s->carry_len + (size_t)n);
}

static void stream_ask(struct stream *s, unsigned i)
{
	static struct prompt_text bodies[8];
	struct prompt_text *b = &bodies[i % 8];
	char tail[PROMPT_TAIL_BYTES + 1];
	struct iovec v[2];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	if (!b->text)
		*b = prompt_new("llama-3.1-70b", i % 8, 1500, 1);
	prompt_tail(tail, i);
	v[0] = (struct iovec){ b->text, b->len };
	v[1] = (struct iovec){ tail, PROMPT_TAIL_BYTES };
	s->asked = true;
	if (sendmsg(s->fd, &m, MSG_NOSIGNAL) != (ssize_t)b->len + PROMPT_TAIL_BYTES)
		errors++;
	net_watch(ep, EPOLL_CTL_MOD, s->fd, EPOLLIN, s);
}

int main(int argc, char **argv)
{
	unsigned port = (unsigned)net_option(argc, argv, "port", 0), n = (unsigned)net_option(argc, argv, "streams", 0), opened = 0;
	double seconds = net_option(argc, argv, "seconds", 5), settle = net_option(argc, argv, "settle", 0.5);
	uint64_t gap = (uint64_t)(1e9 / net_option(argc, argv, "open-rate", 500)), next, begin = 0, end = UINT64_MAX, give_up;
	struct stream *v = calloc(n + 1, sizeof(*v));

	if (!port || !n) {
		fprintf(stderr, "usage: %s --port P --streams N --seconds S [--open-rate PER_S] [--settle S]\n", argv[0]);
		return 2;
	}
	net_begin();
	samples = malloc(SAMPLES_MAX * sizeof(*samples));
	ep = epoll_create1(EPOLL_CLOEXEC);
	if (!v || !samples)
		die("malloc");
	next = now_ns();
	give_up = next + n * gap + 20000000000ull;
	for (;;) {
		struct epoll_event ev[256];
		uint64_t now = now_ns(), until = now + 50000000;
		int k;

		if (now >= end)
			break;
		if (opened < n && next <= now) {
			v[opened].fd = net_connect(port);
			net_watch(ep, EPOLL_CTL_ADD, v[opened].fd, EPOLLOUT, &v[opened]);
			opened++;
			next += gap;
		}
		if (!begin && (begun + errors >= n || now > give_up))
			begin = now + (uint64_t)(settle * 1e9);
		if (begin && !measuring && now >= begin) {
			measuring = true;
			end = now + (uint64_t)(seconds * 1e9);
			printf("begin\n");
			fflush(stdout);
		}
		if (opened < n && next < until)
			until = next;
		if (measuring && end < until)
			until = end;
		k = net_wait(ep, ev, 256, until);
		for (int i = 0; i < k; i++) {
			struct stream *s = ev[i].data.ptr;

			if (!s->asked)
				stream_ask(s, (unsigned)(s - v));
			else if (s->fd >= 0)
				stream_readable(s);
		}
	}
	printf("{\"streams\": %llu, \"events\": %llu, \"errors\": %llu, \"seconds\": %.3f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", begun,
	       events, errors, (double)(now_ns() - end) * 1e-9 + seconds, net_quantile_us(samples, n_samples, .5),
	       net_quantile_us(samples, n_samples, .99));
	return 0;
}
