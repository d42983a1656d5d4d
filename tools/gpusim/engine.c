/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Real time for the node models: steps end when they are due, tokens go out,
 * faults begin and end. A step begins at the model time at which the one before
 * ended, not when the process woke up, so that no delay adds up. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gpusim/sim.h"

#define LATE_NS 25000000ull	/* a step that ends later than this is told */
#define STEPS_A_PASS 4		/* while catching up, sockets get their turn in between */

uint64_t sim_model_ns(const struct sim *s, uint64_t now_ns)
{
	return (uint64_t)((double)(now_ns - s->ready_ns) * s->o.time_scale);
}

uint64_t sim_real_ns(const struct sim *s, uint64_t model_ns)
{
	return s->ready_ns + (uint64_t)((double)model_ns / s->o.time_scale);
}

int sim_node_listen(struct sim_node *n)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)(n->sim->o.port + n->index)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = n };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, err;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, 4096) ||
	    epoll_ctl(n->sim->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		err = -errno;
		close(fd);
		return err;
	}
	n->fd = fd;
	return 0;
}

static void step_begin(struct sim_node *n, uint64_t model_ns)
{
	if (!n->stalled && !node_stepping(n->model))
		node_step_begin(n->model, model_ns, &n->step_end_ns);
	if (n->sim->o.adapters)
		sim_metrics_lora(n);
}

int sim_engine_submit(struct sim_conn *c, const struct sim_prompt *p, int adapter)
{
	struct sim_node *n = c->node;
	struct node_request req = {
		.hash = p->hash, .hashes = p->hashes, .prompt_tokens = p->prompt_tokens, .output_tokens = p->output_tokens,
		.adapter = adapter >= 0 ? adapter : NODE_NO_ADAPTER, .cookie = (uint64_t)(uintptr_t)c,
	};
	uint64_t now = sim_model_ns(n->sim, clock_now_ns());
	int ret = node_submit(n->model, &req, now, &c->node_id);

	if (!ret)
		step_begin(n, now);
	return ret;
}

/* RST after the first tokens of an answer, early enough that short answers meet it too. */
static bool reset_due(const struct sim_conn *c)
{
	uint32_t at = c->answer.output_tokens / 2;

	return c->node->faults & 1u << SIM_FAULT_RESET && c->generated >= (at > 8 ? 8 : at ? at : 1);
}

static void first_token(struct sim_conn *c, const struct node_event *ev)
{
	struct sim_node *n = c->node;

	c->answer.cached_tokens = ev->cached_tokens;
	n->prompt_tokens += c->answer.prompt_tokens;
	n->cached_tokens += ev->cached_tokens;
	sim_metrics_ttft(n, (double)(clock_now_ns() - c->arrived_ns) / 1e9);
	if (c->stream)
		sim_answer_begin(&c->answer, &c->out);
}

static void token(struct sim_conn *c, const struct node_event *ev)
{
	bool finished = ev->flags & NODE_EV_FINISHED;

	if (ev->flags & NODE_EV_FIRST)
		first_token(c, ev);
	if (c->stream)
		sim_answer_token(&c->answer, c->generated, &c->out);
	c->generated++;
	if (finished)
		*(c->answer.by_limit ? &c->node->finished_length : &c->node->finished_stop) += 1;
	if (reset_due(c)) {
		sim_conn_close(c, true);
		return;
	}
	if (finished && c->stream) {
		sim_answer_end(&c->answer, &c->out);
		sim_conn_finish(c);
	} else if (finished) {
		struct sim_buf body = { 0 };

		sim_answer_json(&c->answer, &body);
		sim_api_reply(c, 200, "application/json", "", body.data, body.len);
		sim_buf_free(&body);
	} else if (c->stream) {
		sim_conn_flush(c);
	}
}

static void step_over(struct sim_node *n)
{
	const struct node_event *ev;
	size_t count = node_step_end(n->model, &ev);

	for (size_t i = 0; i < count; i++)
		if (ev[i].flags & NODE_EV_TOKEN)
			token((struct sim_conn *)(uintptr_t)ev[i].cookie, &ev[i]);
}

static void node_run(struct sim_node *n, uint64_t now_ns)
{
	struct sim *s = n->sim;

	for (int i = 0; i < STEPS_A_PASS && !n->stalled && node_stepping(n->model); i++) {
		uint64_t due_ns = sim_real_ns(s, n->step_end_ns);

		if (due_ns > now_ns)
			break;
		if (now_ns - due_ns > LATE_NS)
			log_warn("sim_late", "node=%d late_ms=%.1f", n->index, (double)(now_ns - due_ns) / 1e6);
		if ((double)(now_ns - due_ns) / 1e9 > n->late_max_s)
			n->late_max_s = (double)(now_ns - due_ns) / 1e9;
		step_over(n);
		step_begin(n, n->step_end_ns);
	}
}

/* -- faults -- */

static void close_port(struct sim_node *n)
{
	struct sim_conn *c, *next;

	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	for (c = n->conns; c; c = next) {	/* idle ones end with the port, answers under way go on */
		next = c->next;
		if (c->state == SIM_CONN_READ)
			sim_conn_close(c, false);
	}
}

static void engine_dies(struct sim_node *n)
{
	struct sim_conn *c, *next;

	node_reset(n->model);
	n->prompt_tokens = n->cached_tokens = n->finished_length = n->finished_stop = n->finished_abort = n->rejected = 0;
	memset(n->ttft_count, 0, sizeof(n->ttft_count));
	n->ttft_sum = 0;
	n->lora_series = 0;
	for (c = n->conns; c; c = next) {
		next = c->next;
		if (c->state == SIM_CONN_ANSWER)
			sim_api_engine_dead(c);
		else
			sim_conn_close(c, false);
	}
}

static bool restarts_between(const struct sim_node *n, uint64_t from_ns, uint64_t to_ns)
{
	const struct sim_options *o = &n->sim->o;

	for (int i = 0; i < o->faults; i++)
		if (o->fault[i].kind == SIM_FAULT_RESTART && o->fault[i].node == n->index && o->fault[i].start_ns > from_ns &&
		    o->fault[i].start_ns <= to_ns)
			return true;
	return false;
}

static void node_faults(struct sim_node *n, uint64_t from_ns, uint64_t to_ns, uint64_t now_ns)
{
	const uint32_t closed = 1u << SIM_FAULT_REFUSE | 1u << SIM_FAULT_RESTART;
	int ret;

	n->faults = sim_faults_at(&n->sim->o, n->index, to_ns);
	if (restarts_between(n, from_ns, to_ns))
		engine_dies(n);
	if (n->faults & closed && n->fd >= 0)
		close_port(n);
	if (!(n->faults & closed) && n->fd < 0) {
		ret = sim_node_listen(n);
		if (ret)
			log_error("sim_listen", "node=%d error=\"%s\"", n->index, strerror(-ret));
	}
	if (n->faults & 1u << SIM_FAULT_STALL && !n->stalled) {
		n->stalled = true;
		n->ping_due_ns = now_ns + SIM_PING_NS;
	} else if (!(n->faults & 1u << SIM_FAULT_STALL) && n->stalled) {
		uint64_t model_ns = sim_model_ns(n->sim, now_ns);

		n->stalled = false;	/* the step under way was frozen: it ends now, not in the past */
		if (node_stepping(n->model) && n->step_end_ns < model_ns)
			n->step_end_ns = model_ns;
		step_begin(n, model_ns);
	}
}

static void ping(struct sim_node *n, uint64_t now_ns)
{
	static const char comment[] = ": keep-alive\n\n";
	struct sim_conn *c, *next;

	if (!n->stalled || now_ns < n->ping_due_ns)
		return;
	n->ping_due_ns = now_ns + SIM_PING_NS;
	for (c = n->conns; c; c = next) {
		next = c->next;
		if (c->state != SIM_CONN_ANSWER || !c->stream)
			continue;
		sim_buf_chunk(&c->out, comment, sizeof(comment) - 1);
		sim_conn_flush(c);
	}
}

void sim_engine_run(struct sim *s, uint64_t now_ns)
{
	uint64_t t_ns = now_ns - s->ready_ns;

	if (t_ns >= s->fault_next_ns) {
		/* Faults of time 0 are in force from the first pass on. */
		uint64_t from_ns = s->fault_next_ns - 1;

		for (int i = 0; i < s->o.nodes; i++)
			node_faults(&s->node[i], from_ns, t_ns, now_ns);
		s->fault_next_ns = sim_faults_next(&s->o, t_ns);
	}
	for (int i = 0; i < s->o.nodes; i++) {
		node_run(&s->node[i], now_ns);
		ping(&s->node[i], now_ns);
	}
}

uint64_t sim_engine_due(const struct sim *s)
{
	uint64_t due = s->fault_next_ns == UINT64_MAX ? UINT64_MAX : s->ready_ns + s->fault_next_ns;

	for (int i = 0; i < s->o.nodes; i++) {
		const struct sim_node *n = &s->node[i];
		uint64_t at = UINT64_MAX;

		if (n->stalled)
			at = n->ping_due_ns;
		else if (node_stepping(n->model))
			at = sim_real_ns(s, n->step_end_ns);
		if (at < due)
			due = at;
	}
	return due;
}
