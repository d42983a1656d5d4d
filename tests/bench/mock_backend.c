/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A backend that costs next to nothing: one thread, HTTP/1.1 with keep-alive. It drops request bodies, answers
 * at once with a short JSON object, and `"stream":true` with events of 250 bytes at a given pace, each carrying
 * the time when it was sent. GET /metrics is a minimal page of vLLM.
 *
 *   mock_backend --port P [--ports N] [--stream-rate EVENTS_PER_S] [--stream-events N] */
#include "net.h"

#include <stdbool.h>

#define EVENT_BYTES 250
#define SNIFF_BYTES 256 /* "stream":true must stand this early in the body */
#define HEAD_BYTES 8192

struct conn {
	struct conn *prev, *next; /* of the streams, by due time */
	int fd;
	bool streaming, dead;
	unsigned head_len, sniffed;
	uint64_t body_left, due_ns;
	unsigned events_left;
	char sniff[SNIFF_BYTES + 1];
	char head[HEAD_BYTES];
};

static struct conn streams = { .prev = &streams, .next = &streams };
static struct conn *graveyard;
static char scratch[256 << 10], json_answer[1024];
static size_t json_answer_len;
static uint64_t period_ns;
static unsigned stream_events;
static int ep;

static void unlink_stream(struct conn *c)
{
	if (!c->next)
		return;
	c->prev->next = c->next;
	c->next->prev = c->prev;
	c->next = c->prev = NULL;
}

/* From the end: nearly always the place. */
static void insert_stream(struct conn *c)
{
	struct conn *p = streams.prev;

	while (p != &streams && p->due_ns > c->due_ns)
		p = p->prev;
	c->prev = p;
	c->next = p->next;
	p->next->prev = c;
	p->next = c;
}

static void drop(struct conn *c)
{
	if (c->dead)
		return;
	unlink_stream(c);
	close(c->fd);
	c->dead = true;
	c->next = graveyard;
	graveyard = c;
}

static bool put(struct conn *c, const char *p, size_t n)
{
	if (send(c->fd, p, n, MSG_NOSIGNAL) == (ssize_t)n)
		return true;
	drop(c); /* what is sent here always fits, unless the reader has stopped */
	return false;
}

static void answer_metrics(struct conn *c)
{
	static const char page[] =
		"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"bench\"} 0\n"
		"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"bench\"} 0\n"
		"# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{model_name=\"bench\"} 0.1\n";
	char text[1024];
	int n = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n"
			 "content-length: %zu\r\n\r\n%s", sizeof(page) - 1, page);

	put(c, text, (size_t)n);
}

static void build_json_answer(void)
{
	static const char body[] =
		"{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"bench\",\"choices\":"
		"[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"All well.\"},\"finish_reason\":\"stop\"}],"
		"\"usage\":{\"prompt_tokens\":512,\"completion_tokens\":3,\"total_tokens\":515,"
		"\"prompt_tokens_details\":{\"cached_tokens\":496}}}";

	json_answer_len = (size_t)snprintf(json_answer, sizeof(json_answer),
					   "HTTP/1.1 200 OK\r\ndate: Tue, 01 Jan 2030 00:00:00 GMT\r\nserver: uvicorn\r\n"
					   "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
					   sizeof(body) - 1, body);
}

/* One event of EVENT_BYTES as one chunk. */
static bool send_event(struct conn *c)
{
	char text[EVENT_BYTES + 16];
	int head = snprintf(text, sizeof(text), "%x\r\n", EVENT_BYTES);
	int n = head + snprintf(text + head, sizeof(text) - (size_t)head,
				"data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
				"\"model\":\"bench\",\"sent_ns\":%020llu,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"",
				(unsigned long long)now_ns());
	static const char end[] = "\"}}]}\n\n";
	int pad = head + EVENT_BYTES - (int)sizeof(end) + 1 - n;

	memset(text + n, 'x', (size_t)pad);
	memcpy(text + n + pad, end, sizeof(end) - 1);
	memcpy(text + head + EVENT_BYTES, "\r\n", 2);
	return put(c, text, (size_t)head + EVENT_BYTES + 2);
}

static void begin_stream(struct conn *c)
{
	static const char head[] = "HTTP/1.1 200 OK\r\ndate: Tue, 01 Jan 2030 00:00:00 GMT\r\nserver: uvicorn\r\n"
				   "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
	static uint64_t seed = 88172645463325252ull;

	if (!put(c, head, sizeof(head) - 1) || !send_event(c))
		return;
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	c->streaming = true;
	c->events_left = stream_events - 1;
	c->due_ns = now_ns() + seed % period_ns; /* streams that begin together do not stay in step */
	insert_stream(c);
}

static void stream_turn(struct conn *c)
{
	static const char end[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

	unlink_stream(c);
	if (!c->events_left) {
		c->streaming = false;
		put(c, end, sizeof(end) - 1);
		return;
	}
	c->events_left--;
	if (!send_event(c))
		return;
	c->due_ns += period_ns;
	insert_stream(c);
}

static void request_complete(struct conn *c)
{
	c->sniff[c->sniffed] = 0;
	c->sniffed = 0;
	if (!strncmp(c->head, "GET /metrics", 12))
		answer_metrics(c);
	else if (strstr(c->sniff, "\"stream\":true"))
		begin_stream(c);
	else
		put(c, json_answer, json_answer_len);
}

/* Takes head bytes; returns how many. */
static size_t take_head(struct conn *c, const char *p, size_t n)
{
	size_t before = c->head_len, room = sizeof(c->head) - 1 - before, k = n < room ? n : room;
	char *end, *length;

	memcpy(c->head + before, p, k);
	c->head[before + k] = 0;
	end = memmem(c->head, before + k, "\r\n\r\n", 4);
	if (!end) {
		c->head_len += (unsigned)k;
		if (c->head_len >= sizeof(c->head) - 1)
			drop(c);
		return k;
	}
	end[2] = 0;
	length = strcasestr(c->head, "\r\ncontent-length:");
	c->body_left = length ? strtoull(length + 17, NULL, 10) : 0;
	c->head_len = 0;
	if (!c->body_left)
		request_complete(c);
	return (size_t)(end + 4 - c->head) - before;
}

static void take(struct conn *c, const char *p, size_t n)
{
	while (n && !c->dead) {
		size_t k;

		if (!c->body_left) {
			k = take_head(c, p, n);
		} else {
			size_t s = SNIFF_BYTES - c->sniffed;

			k = n < c->body_left ? n : c->body_left;
			s = s < k ? s : k;
			memcpy(c->sniff + c->sniffed, p, s);
			c->sniffed += (unsigned)s;
			c->body_left -= k;
			if (!c->body_left)
				request_complete(c);
		}
		p += k;
		n -= k;
	}
}

static void readable(struct conn *c)
{
	for (int i = 0; i < 8 && !c->dead; i++) {
		ssize_t n = recv(c->fd, scratch, sizeof(scratch), 0);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			drop(c);
			return;
		}
		take(c, scratch, (size_t)n);
		if (n < (ssize_t)sizeof(scratch))
			return;
	}
}

static void accept_all(int listener)
{
	int fd, one = 1;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct conn *c = calloc(1, sizeof(*c));

		if (!c)
			die("calloc");
		c->fd = fd;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		net_watch(ep, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLRDHUP, c);
	}
}

int main(int argc, char **argv)
{
	unsigned port = (unsigned)net_option(argc, argv, "port", 0), ports = (unsigned)net_option(argc, argv, "ports", 1);
	double rate = net_option(argc, argv, "stream-rate", 120);
	static struct conn listeners[64];

	if (!port || !ports || ports > 64 || rate <= 0) {
		fprintf(stderr, "usage: %s --port P [--ports N] [--stream-rate R] [--stream-events N]\n", argv[0]);
		return 2;
	}
	net_begin();
	period_ns = (uint64_t)(1e9 / rate);
	stream_events = (unsigned)net_option(argc, argv, "stream-events", 1e9);
	build_json_answer();
	ep = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < ports; i++) {
		listeners[i].fd = net_listen(port + i);
		net_watch(ep, EPOLL_CTL_ADD, listeners[i].fd, EPOLLIN, &listeners[i]);
	}
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct epoll_event ev[64];
		uint64_t until = streams.next != &streams ? streams.next->due_ns : now_ns() + 1000000000ull, now;
		int n = net_wait(ep, ev, 64, until);

		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;

			if (c >= listeners && c < listeners + ports)
				accept_all(c->fd);
			else if (!c->dead)
				readable(c);
		}
		now = now_ns();
		while (streams.next != &streams && streams.next->due_ns <= now)
			stream_turn(streams.next);
		while (graveyard) {
			struct conn *c = graveyard;

			graveyard = c->next;
			free(c);
		}
	}
}
