/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Connections: accept, read, parse, write, close. Behaves as uvicorn does where
 * a router can tell: idle connections close after 5 s, pipelined requests are
 * answered in order, and a half-closed client counts as gone. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpusim/sim.h"

static void conn_interest(struct sim_conn *c, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = c };

	if (c->interest == events)
		return;
	c->interest = events;
	epoll_ctl(c->node->sim->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
}

void sim_conn_wait(struct sim_conn *c, enum sim_wait wait)
{
	static const uint64_t delay_ns[SIM_WAITS] = {
		[SIM_WAIT_IDLE] = SIM_KEEPALIVE_NS, [SIM_WAIT_LINGER] = SIM_LINGER_NS, [SIM_WAIT_METRICS] = SIM_SLOW_METRICS_NS,
	};
	struct sim *s = c->node->sim;

	if (c->wait) {
		if (c->wait_prev)
			c->wait_prev->wait_next = c->wait_next;
		else
			s->wait_head[c->wait] = c->wait_next;
		if (c->wait_next)
			c->wait_next->wait_prev = c->wait_prev;
		else
			s->wait_tail[c->wait] = c->wait_prev;
	}
	c->wait = wait;
	if (!wait)
		return;
	c->wait_due_ns = clock_now_ns() + delay_ns[wait];
	c->wait_next = NULL;
	c->wait_prev = s->wait_tail[wait];
	if (c->wait_prev)
		c->wait_prev->wait_next = c;
	else
		s->wait_head[wait] = c;
	s->wait_tail[wait] = c;
}

void sim_conn_close(struct sim_conn *c, bool reset)
{
	struct sim_node *n = c->node;

	if (c->dead)
		return;
	if (c->state == SIM_CONN_ANSWER && !node_abort(n->model, c->node_id))
		n->finished_abort++;
	if (reset) {
		struct linger l = { .l_onoff = 1, .l_linger = 0 };

		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	}
	close(c->fd);
	sim_conn_wait(c, SIM_WAIT_NONE);
	if (c->prev)
		c->prev->next = c->next;
	else
		n->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->dead = true;
	c->next = n->sim->dead;
	n->sim->dead = c;
}

void sim_conn_free_dead(struct sim *s)
{
	while (s->dead) {
		struct sim_conn *c = s->dead;

		s->dead = c->next;
		sim_buf_free(&c->in);
		sim_buf_free(&c->url);
		sim_buf_free(&c->field);
		sim_buf_free(&c->value);
		sim_buf_free(&c->body);
		sim_buf_free(&c->out);
		free(c->answer.head);
		free(c->model);
		free(c);
	}
}

/* -- parsing -- */

static struct sim_conn *conn_of(llhttp_t *p)
{
	return p->data;
}

static int on_begin(llhttp_t *p)
{
	struct sim_conn *c = conn_of(p);

	c->url.len = c->field.len = c->value.len = c->body.len = 0;
	c->request_id[0] = '\0';
	c->json = c->expect_continue = c->too_big = false;
	return 0;
}

static int head_add(struct sim_conn *c, struct sim_buf *b, const char *at, size_t len)
{
	if (c->url.len + c->field.len + c->value.len + len > SIM_HEAD_BYTES)
		return -1;
	sim_buf_add(b, at, len);
	return b->failed ? -1 : 0;
}

static int on_url(llhttp_t *p, const char *at, size_t len)
{
	return head_add(conn_of(p), &conn_of(p)->url, at, len);
}

static int on_field(llhttp_t *p, const char *at, size_t len)
{
	return head_add(conn_of(p), &conn_of(p)->field, at, len);
}

static int on_value(llhttp_t *p, const char *at, size_t len)
{
	return head_add(conn_of(p), &conn_of(p)->value, at, len);
}

static bool field_is(const struct sim_conn *c, const char *name)
{
	return c->field.len == strlen(name) && !strncasecmp(c->field.data, name, c->field.len);
}

static bool value_starts(const struct sim_conn *c, const char *with)
{
	return c->value.len >= strlen(with) && !strncasecmp(c->value.data, with, strlen(with));
}

static int on_value_complete(llhttp_t *p)
{
	struct sim_conn *c = conn_of(p);

	if (field_is(c, "content-type")) {
		c->json = value_starts(c, "application/json");
	} else if (field_is(c, "expect")) {
		c->expect_continue = value_starts(c, "100-continue");
	} else if (field_is(c, "x-request-id") && c->value.len && c->value.len < sizeof(c->request_id)) {
		size_t i = 0;

		while (i < c->value.len && isgraph((unsigned char)c->value.data[i]))
			i++;
		if (i == c->value.len) {
			memcpy(c->request_id, c->value.data, i);
			c->request_id[i] = '\0';
		}
	}
	c->field.len = c->value.len = 0;
	return 0;
}

static int on_headers(llhttp_t *p)
{
	struct sim_conn *c = conn_of(p);
	static const char go[] = "HTTP/1.1 100 Continue\r\n\r\n";

	if (c->expect_continue)
		sim_buf_add(&c->out, go, sizeof(go) - 1);
	return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t len)
{
	struct sim_conn *c = conn_of(p);

	if (c->body.len + len > SIM_BODY_BYTES) {
		c->too_big = true;
		return HPE_PAUSED;
	}
	if (!c->body.len && p->content_length > len && p->content_length <= SIM_BODY_BYTES && !c->body.room) {
		/* One allocation for a body of known length. */
		c->body.data = malloc(len + p->content_length + 1);
		c->body.room = c->body.data ? len + p->content_length + 1 : 0;
	}
	sim_buf_add(&c->body, at, len);
	return c->body.failed ? -1 : 0;
}

static int on_complete(llhttp_t *p)
{
	conn_of(p)->keep_alive = llhttp_should_keep_alive(p);
	conn_of(p)->complete = true;
	return HPE_PAUSED;	/* what follows is parsed after the answer */
}

static const llhttp_settings_t *parser_settings(void)
{
	static llhttp_settings_t s;

	if (!s.on_message_begin) {
		llhttp_settings_init(&s);
		s.on_message_begin = on_begin;
		s.on_url = on_url;
		s.on_header_field = on_field;
		s.on_header_value = on_value;
		s.on_header_value_complete = on_value_complete;
		s.on_headers_complete = on_headers;
		s.on_body = on_body;
		s.on_message_complete = on_complete;
	}
	return &s;
}

static void conn_invalid(struct sim_conn *c)
{
	static const char text[] = "Invalid HTTP request received.";

	c->keep_alive = false;
	sim_api_reply(c, 400, "text/plain; charset=utf-8", "", text, sizeof(text) - 1);
}

/* Parses until a request is complete, the bytes are used up, or it is no HTTP. */
static void conn_parse(struct sim_conn *c)
{
	llhttp_errno_t err;
	const char *pos;

	if (c->state != SIM_CONN_READ || !c->in.len)
		return;
	sim_conn_wait(c, SIM_WAIT_NONE);
	err = llhttp_execute(&c->parser, c->in.data, c->in.len);
	if (err == HPE_OK) {
		c->in.len = 0;
		if (c->out.len)	/* 100 Continue */
			sim_conn_flush(c);
		return;
	}
	pos = llhttp_get_error_pos(&c->parser);
	if (err == HPE_PAUSED_UPGRADE) {
		/* Offers of another protocol are ignored. This pause comes in addition to the one at the request's end. */
		llhttp_resume_after_upgrade(&c->parser);
	} else if (err == HPE_PAUSED && !c->too_big) {
		llhttp_resume(&c->parser);
	} else if (c->too_big) {
		static const char text[] = "{\"detail\":\"Request body too large\"}";

		c->keep_alive = false;
		sim_api_reply(c, 413, "application/json", "", text, sizeof(text) - 1);
		return;
	} else {
		conn_invalid(c);
		return;
	}
	sim_buf_consume(&c->in, (size_t)(pos - c->in.data));
	if (c->complete) {
		c->complete = false;
		sim_api_request(c);
	}
}

/* -- I/O -- */

/* What the connection waits for. While an answer is due only the peer's end is of interest: more requests stay in the socket. */
static void conn_rearm(struct sim_conn *c)
{
	uint32_t ev = EPOLLRDHUP;

	if (c->state == SIM_CONN_READ || c->state == SIM_CONN_LINGER)
		ev |= EPOLLIN;
	/* Pipelined bytes at hand need no input to go on: the writable socket wakes us at once. */
	if (c->out.len || (c->state == SIM_CONN_READ && c->in.len))
		ev |= EPOLLOUT;
	conn_interest(c, ev);
}

void sim_conn_flush(struct sim_conn *c)
{
	size_t sent = 0;

	if (c->dead)
		return;
	if (c->out.failed || c->out.len > SIM_BACKLOG_BYTES) {
		log_warn("sim_client_slow", "node=%d unsent_bytes=%zu", c->node->index, c->out.len);
		sim_conn_close(c, true);
		return;
	}
	while (sent < c->out.len) {
		size_t len = c->byte_mode ? 1 : c->out.len - sent;
		ssize_t n = send(c->fd, c->out.data + sent, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			sim_conn_close(c, false);
			return;
		}
		if (n < 0)
			break;
		sent += (size_t)n;
		if (c->byte_mode)	/* one a pass of the loop, so that the peer sees them one by one */
			break;
	}
	sim_buf_consume(&c->out, sent);
	if (!c->out.len && c->state == SIM_CONN_FLUSH) {
		if (!c->close_after) {
			c->state = SIM_CONN_READ;
			sim_conn_wait(c, SIM_WAIT_IDLE);
			if (c->body.room > 65536)
				sim_buf_free(&c->body);
		} else {
			/* Closing with unread bytes would send RST and could destroy the answer on its way. */
			shutdown(c->fd, SHUT_WR);
			c->state = SIM_CONN_LINGER;
			sim_conn_wait(c, SIM_WAIT_LINGER);
		}
	}
	conn_rearm(c);
}

void sim_conn_finish(struct sim_conn *c)
{
	c->state = SIM_CONN_FLUSH;
	c->close_after = !c->keep_alive;
	free(c->answer.head);
	c->answer.head = NULL;
	free(c->model);
	c->model = NULL;
	sim_conn_flush(c);
}

static void conn_read(struct sim_conn *c)
{
	char chunk[65536];
	ssize_t n = recv(c->fd, chunk, sizeof(chunk), 0);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			sim_conn_close(c, false);
		return;
	}
	if (!n) {
		sim_conn_close(c, false);
		return;
	}
	if (c->state == SIM_CONN_LINGER)
		return;
	sim_buf_add(&c->in, chunk, (size_t)n);
	if (c->in.failed)
		sim_conn_close(c, true);
}

void sim_conn_event(struct sim_conn *c, uint32_t events)
{
	if (c->dead)
		return;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		sim_conn_close(c, false);
		return;
	}
	if (events & EPOLLIN && (c->state == SIM_CONN_READ || c->state == SIM_CONN_LINGER))
		conn_read(c);
	if (events & EPOLLOUT)
		sim_conn_flush(c);
	/* Short answers are done at once: go on with what was pipelined. */
	while (!c->dead && c->state == SIM_CONN_READ && c->in.len)
		conn_parse(c);
	if (!c->dead)
		conn_rearm(c);
}

void sim_conn_expire(struct sim *s, uint64_t now_ns)
{
	for (int w = SIM_WAIT_IDLE; w < SIM_WAITS; w++) {
		while (s->wait_head[w] && s->wait_head[w]->wait_due_ns <= now_ns) {
			struct sim_conn *c = s->wait_head[w];

			if (w == SIM_WAIT_METRICS) {
				sim_conn_wait(c, SIM_WAIT_NONE);
				sim_api_metrics(c);
			} else {
				sim_conn_close(c, false);
			}
		}
	}
}

void sim_accept(struct sim_node *n)
{
	struct sim *s = n->sim;

	for (;;) {
		int fd = accept4(n->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
		struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
		struct sim_conn *c;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE) && s->spare_fd >= 0) {
			/* Out of descriptors: the spare one takes the connection, to refuse it. */
			close(s->spare_fd);
			fd = accept4(n->fd, NULL, NULL, SOCK_CLOEXEC);
			if (fd >= 0)
				close(fd);
			s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
			log_warn("sim_descriptors", "node=%d the limit of open files is reached", n->index);
			return;
		}
		if (fd < 0)
			return;
		c = calloc(1, sizeof(*c));
		if (!c) {
			close(fd);
			return;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		c->source = SIM_SOURCE_CONN;
		c->fd = fd;
		c->node = n;
		c->byte_mode = n->faults & 1u << SIM_FAULT_BYTE;
		c->interest = ev.events;
		llhttp_init(&c->parser, HTTP_REQUEST, parser_settings());
		c->parser.data = c;
		ev.data.ptr = c;
		if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
			close(fd);
			free(c);
			return;
		}
		c->next = n->conns;
		if (c->next)
			c->next->prev = c;
		n->conns = c;
	}
}
