/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define PAIRS 512
#define READ_BYTES 65536

enum side { CLIENT = 0, BACKEND = 1, LISTENER = 2, RING = 3 };

struct pair {
	bool used, answering, closing, may_splice, awaiting;
	char line[64];
	unsigned line_len;
	uint32_t body_seen;
	int cfd, bfd;
	uint32_t c_events, b_events;
	struct conn cc, bc;
	struct splice_client sc;
	struct splice_backend sb;
	struct flow flow;
};

struct proxy {
	struct proxy_opts o;
	struct splice *s;
	struct splice_worker *w;
	pthread_t thread;
	int listener, ep;
	uint16_t port;
	bool stop;
	pid_t tid;
	struct pair pairs[PAIRS];
	struct proxy_stats st;
	void *elf;
	uint8_t scratch[READ_BYTES];
};

static void watch(struct proxy *p, int fd, uint32_t *now, uint32_t want, uint32_t pair, enum side side)
{
	struct epoll_event ev = { .events = want, .data.u64 = (uint64_t)pair << 8 | side };

	if (*now != want)
		epoll_ctl(p->ep, EPOLL_CTL_MOD, fd, &ev);
	*now = want;
}

static uint32_t index_of(struct proxy *p, struct pair *x)
{
	return (uint32_t)(x - p->pairs);
}

static void want_backend(struct proxy *p, struct pair *x, bool reading)
{
	if (x->bfd >= 0)
		watch(p, x->bfd, &x->b_events, (reading || p->o.keep_epollin ? EPOLLIN : 0) | EPOLLRDHUP, index_of(p, x), BACKEND);
}

static void want_client(struct proxy *p, struct pair *x)
{
	watch(p, x->cfd, &x->c_events, (x->answering ? 0 : EPOLLIN) | EPOLLRDHUP | (x->flow.out.len && !x->awaiting ? EPOLLOUT : 0),
	      index_of(p, x), CLIENT);
}

static void close_backend(struct proxy *p, struct pair *x)
{
	if (x->bfd < 0)
		return;
	if (x->sb.w)
		splice_backend_release(&x->sb);
	close(x->bfd);
	x->bfd = -1;
}

static void close_pair(struct proxy *p, struct pair *x, bool reset)
{
	struct linger l = { 1, 0 };

	close_backend(p, x); /* first: no verdict may run for a client row that is given away */
	if (reset)
		setsockopt(x->cfd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	splice_client_release(&x->sc);
	close(x->cfd);
	flow_free(&x->flow);
	x->used = false;
}

static void await(struct proxy *p, struct pair *x)
{
	x->awaiting = true;
	splice_client_await(&x->sc);
	if (x->flow.framing.state != HTTP_FS_END) /* an idle backend connection is watched */
		want_backend(p, x, false);
	want_client(p, x);
}

static void cut(struct proxy *p, struct pair *x)
{
	p->st.cut++;
	close_pair(p, x, true);
}

/* The body is complete and everything is in the client's socket. */
static void answered(struct proxy *p, struct pair *x)
{
	p->st.answers++;
	x->answering = false;
	if (x->closing)
		close_pair(p, x, false);
	else
		want_client(p, x);
}

/* The body ended; its last bytes may still be on their way. */
static void ended(struct proxy *p, struct pair *x)
{
	if (x->sb.armed) {
		p->st.kernel_bytes += splice_cancel(&x->sb, &x->flow.framing);
		if (!splice_backend_clean(&x->sb))
			x->flow.surplus = 1;
	}
	if (x->flow.surplus) {
		p->st.backend_closed++;
		close_backend(p, x);
	} else {
		want_backend(p, x, true);
	}
	if (x->flow.out.len)
		want_client(p, x);
	else if (x->sc.w && !splice_client_drained(&x->sc))
		await(p, x);
	else
		answered(p, x);
}

static void in_hand(struct proxy *p, struct pair *x, enum splice_hand hand)
{
	if (hand == SPLICE_HAND_DRAIN) {
		await(p, x);
		return;
	}
	want_backend(p, x, hand == SPLICE_HAND_DAEMON);
	want_client(p, x);
}

static void offer(struct proxy *p, struct pair *x)
{
	uint64_t before = x->flow.sent_bytes;

	if (!x->may_splice || !x->sb.w || x->body_seen < p->o.first_bytes || x->flow.framing.state == HTTP_FS_END)
		return;
	if (!x->sc.w) {
		if (splice_client_add(p->w, &x->sc, x->cfd)) {
			p->st.refused++;
			x->may_splice = false;
			return;
		}
		x->cc = (struct conn){ .fd = x->cfd, .ops = &conn_ops_splice_client, .priv = &x->sc };
	}
	in_hand(p, x, splice_offer(&x->sb, &x->sc, &x->flow, p->o.limit_bytes));
	p->st.kernel_bytes += x->flow.sent_bytes - before;
}

static void flowed(struct proxy *p, struct pair *x, enum flow_result r)
{
	switch (r) {
	case FLOW_MORE:
		if (x->flow.out.len)
			want_client(p, x);
		else
			offer(p, x);
		break;
	case FLOW_BLOCKED:
		want_backend(p, x, false);
		want_client(p, x);
		break;
	case FLOW_END:
		ended(p, x);
		break;
	default:
		cut(p, x);
		break;
	}
}

static void begin(struct proxy *p, struct pair *x)
{
	bool chunked = x->line[0] == 'C';
	uint64_t length = chunked ? 0 : strtoull(x->line + 1, NULL, 10);

	flow_init(&x->flow, &x->bc, &x->cc, chunked ? HTTP_BODY_CHUNKED : HTTP_BODY_LENGTH, length, FLOW_AS_FRAMED, 65536);
	iobuf_append(&x->flow.out, x->line, x->line_len, 1024);
	x->line_len = 0;
	x->body_seen = 0;
}

static void backend_readable(struct proxy *p, struct pair *x)
{
	ssize_t n = conn_recv(&x->bc, p->scratch, sizeof(p->scratch));
	uint8_t *at = p->scratch;

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		if (!x->answering)
			close_backend(p, x);
		else
			cut(p, x);
		return;
	}
	if (!x->answering) { /* bytes that answer nothing */
		p->st.backend_closed++;
		close_backend(p, x);
		return;
	}
	while (n && !x->flow.from) {
		x->line[x->line_len++] = (char)*at++;
		n--;
		if (at[-1] == '\n')
			begin(p, x);
	}
	if (!x->flow.from)
		return;
	x->body_seen += (uint32_t)n;
	p->st.relayed_bytes += (uint64_t)n;
	flowed(p, x, flow_feed(&x->flow, at, (uint32_t)n));
}

static void backend_event(struct proxy *p, struct pair *x, uint32_t events)
{
	if (x->bfd < 0)
		return;
	if (x->sb.kernel && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		/* the bytes before the FIN may have ended the body, or been passed */
		if (splice_backend_ended(&x->sb)) {
			ended(p, x);
			return;
		}
		p->st.kernel_bytes += splice_cancel(&x->sb, &x->flow.framing);
		x->may_splice = false;
		if (!splice_client_drained(&x->sc)) {
			await(p, x);
			return;
		}
		want_backend(p, x, true);
	} else if (x->awaiting) {
		want_backend(p, x, false); /* the FIN waits */
		if (events & (EPOLLHUP | EPOLLERR))
			epoll_ctl(p->ep, EPOLL_CTL_DEL, x->bfd, NULL), x->b_events = 0;
		return;
	}
	backend_readable(p, x);
}

static bool connect_backend(struct proxy *p, struct pair *x)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(p->o.engine_port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data.u64 = (uint64_t)index_of(p, x) << 8 | BACKEND };
	int one = 1;

	x->bfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	if (connect(x->bfd, (struct sockaddr *)&a, sizeof(a))) {
		close(x->bfd);
		x->bfd = -1;
		return false;
	}
	setsockopt(x->bfd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	x->bc = (struct conn){ .fd = x->bfd, .ops = &conn_ops_tcp };
	memset(&x->sb, 0, sizeof(x->sb));
	if (splice_backend_add(p->w, &x->sb, x->bfd, "engine"))
		p->st.refused++;
	else
		x->bc = (struct conn){ .fd = x->bfd, .ops = &conn_ops_splice_backend, .priv = &x->sb };
	x->b_events = ev.events;
	epoll_ctl(p->ep, EPOLL_CTL_ADD, x->bfd, &ev);
	return true;
}

static void client_event(struct proxy *p, struct pair *x, uint32_t events)
{
	ssize_t n;

	if (events & (EPOLLERR | EPOLLHUP) || (events & EPOLLRDHUP && x->answering)) {
		close_pair(p, x, true);
		return;
	}
	if (events & EPOLLOUT && x->flow.out.len) {
		enum flow_result r = flow_flush(&x->flow);

		if (r == FLOW_MORE && x->flow.framing.state == HTTP_FS_END)
			r = FLOW_END;
		if (r == FLOW_MORE)
			want_backend(p, x, true);
		if (r != FLOW_BLOCKED)
			flowed(p, x, r);
		return;
	}
	if (x->answering || !(events & (EPOLLIN | EPOLLRDHUP)))
		return;
	n = conn_recv(&x->cc, p->scratch, sizeof(p->scratch));
	if (n == -EAGAIN)
		return;
	if (n <= 0 || (x->bfd < 0 && !connect_backend(p, x))) {
		close_pair(p, x, n < 0);
		return;
	}
	flow_free(&x->flow);
	memset(&x->flow, 0, sizeof(x->flow));
	x->answering = true;
	x->closing = p->scratch[0] == 'X';
	x->may_splice = p->scratch[0] != 'R';
	want_client(p, x);
	if (send(x->bfd, p->scratch, (size_t)n, MSG_NOSIGNAL) != n)
		cut(p, x);
}

static void accept_one(struct proxy *p)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	int fd = accept4(p->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;

	for (uint32_t i = 0; fd >= 0 && i < PAIRS; i++) {
		struct pair *x = &p->pairs[i];

		if (x->used)
			continue;
		memset(x, 0, sizeof(*x));
		x->used = true;
		x->cfd = fd;
		x->bfd = -1;
		x->cc = (struct conn){ .fd = fd, .ops = &conn_ops_tcp };
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		ev.data.u64 = (uint64_t)i << 8 | CLIENT;
		x->c_events = ev.events;
		epoll_ctl(p->ep, EPOLL_CTL_ADD, fd, &ev);
		return;
	}
	if (fd >= 0)
		close(fd);
}

static void on_end(struct splice_backend *b, void *arg)
{
	ended(arg, container_of(b, struct pair, sb));
}

static void on_takeover(struct splice_backend *b, unsigned reason, void *arg)
{
	struct pair *x = container_of(b, struct pair, sb);
	struct proxy *p = arg;
	uint64_t before = x->flow.sent_bytes;
	enum splice_hand hand = splice_retake(b, &x->flow);

	p->st.kernel_bytes += x->flow.sent_bytes - before;
	in_hand(p, x, hand);
}

static void on_drained(struct splice_client *c, void *arg)
{
	struct pair *x = container_of(c, struct pair, sc);
	struct proxy *p = arg;

	x->awaiting = false;
	if (!x->answering)
		return;
	if (x->flow.framing.state == HTTP_FS_END) {
		answered(p, x);
		return;
	}
	if (x->bfd >= 0 && !x->b_events) { /* was taken out because of its error */
		backend_readable(p, x);
		return;
	}
	want_backend(p, x, true);
	want_client(p, x);
}

static const struct splice_worker_ops ops = { .end = on_end, .takeover = on_takeover, .drained = on_drained };

static uint64_t voluntary_switches(pid_t tid)
{
	char path[64], line[256];
	uint64_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "voluntary_ctxt_switches:", 24))
			n = strtoull(line + 24, NULL, 10);
	if (f)
		fclose(f);
	return n;
}

static void *loop(void *arg)
{
	struct proxy *p = arg;
	struct epoll_event ev[64];
	uint64_t sweep_ns = clock_now_ns() + SPLICE_SWEEP_MS * NSEC_PER_MSEC;

	p->tid = (pid_t)syscall(SYS_gettid);
	while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
		int n = epoll_wait(p->ep, ev, 64, splice_worker_drains(p->w) ? SPLICE_DRAIN_POLL_MS : 200);

		splice_worker_events(p->w);
		for (int i = 0; i < n; i++) {
			enum side side = ev[i].data.u64 & 0xff;
			struct pair *x = &p->pairs[ev[i].data.u64 >> 8];

			if (side == LISTENER)
				accept_one(p);
			else if (side == CLIENT && x->used)
				client_event(p, x, ev[i].events);
			else if (side == BACKEND && x->used)
				backend_event(p, x, ev[i].events);
		}
		splice_worker_reap(p->w);
		if (clock_now_ns() >= sweep_ns) {
			splice_worker_sweep(p->w);
			sweep_ns += SPLICE_SWEEP_MS * NSEC_PER_MSEC;
		}
	}
	return NULL;
}

void *proxy_read_object(const char *name, size_t *len)
{
	char path[512];
	ssize_t n = readlink("/proc/self/exe", path, 400);
	char *slash;
	uint8_t *mem = malloc(1 << 20);
	FILE *f;

	/* BUILD/tests/bpf/test_x -> BUILD/bpf/NAME */
	path[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 3 && (slash = strrchr(path, '/')); i++)
		*slash = '\0';
	strcat(path, "/bpf/");
	strcat(path, name);
	f = fopen(path, "re");
	*len = f ? fread(mem, 1, 1 << 20, f) : 0;
	if (f)
		fclose(f);
	if (!*len) {
		free(mem);
		return NULL;
	}
	return mem;
}

struct proxy *proxy_start(const struct proxy_opts *o)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct splice_opts so = { .workers = 1, .max_flows = o->max_flows ? o->max_flows : 1024, .max_clients = 1024 };
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = LISTENER };
	struct proxy *p = calloc(1, sizeof(*p));
	socklen_t len = sizeof(a);
	char why[256];

	p->o = *o;
	if (!p->o.limit_bytes)
		p->o.limit_bytes = SPLICE_LIMIT_DEFAULT;
	if (o->object) {
		p->elf = proxy_read_object(o->object, &so.elf_len);
		so.elf = p->elf;
		if (!p->elf) {
			fprintf(stderr, "no object %s beside the test\n", o->object);
			abort();
		}
	}
	if (splice_open(&p->s, &so, why, sizeof(why)) || splice_worker_open(p->s, 0, &ops, p, &p->w)) {
		fprintf(stderr, "no kernel path here: %s\n", why);
		free(p->elf);
		free(p);
		return NULL;
	}
	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	p->ep = epoll_create1(EPOLL_CLOEXEC);
	if (bind(p->listener, (struct sockaddr *)&a, len) || listen(p->listener, 256) ||
	    getsockname(p->listener, (struct sockaddr *)&a, &len))
		abort();
	p->port = ntohs(a.sin_port);
	epoll_ctl(p->ep, EPOLL_CTL_ADD, p->listener, &ev);
	ev.data.u64 = RING;
	epoll_ctl(p->ep, EPOLL_CTL_ADD, splice_worker_fd(p->w), &ev);
	pthread_create(&p->thread, NULL, loop, p);
	return p;
}

uint16_t proxy_port(const struct proxy *p)
{
	return p->port;
}

void proxy_stats(struct proxy *p, struct proxy_stats *out)
{
	*out = p->st;
	out->worker = *splice_worker_stats(p->w);
	splice_counts_read(p->s, &out->kernel);
	out->switches = voluntary_switches(p->tid);
}

void proxy_stop(struct proxy *p)
{
	__atomic_store_n(&p->stop, true, __ATOMIC_RELEASE);
	pthread_join(p->thread, NULL);
	for (unsigned i = 0; i < PAIRS; i++)
		if (p->pairs[i].used)
			close_pair(p, &p->pairs[i], true);
	splice_worker_close(p->w);
	splice_close(p->s);
	close(p->listener);
	close(p->ep);
	free(p->elf);
	free(p);
}
