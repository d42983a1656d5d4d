/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* kvsteer-gpusim: simulated GPU nodes behind vLLM's HTTP API. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "gpusim/sim.h"
#include "kvsteer/version.h"

static enum sim_source signal_source = SIM_SOURCE_SIGNAL;

static int fail(const char *what, int err)
{
	fprintf(stderr, "kvsteer-gpusim: %s: %s\n", what, strerror(err));
	return 1;
}

static int setup_loop(struct sim *s)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &signal_source };
	struct rlimit files;
	sigset_t set;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	/* Steps last from 15 ms on; the default slack of 50 us would add to each. */
	prctl(PR_SET_TIMERSLACK, 1000ul, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (s->epoll_fd < 0 || s->signal_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->signal_fd, &ev))
		return -errno;
	return 0;
}

static int setup_node(struct sim *s, int i)
{
	struct sim_node *n = &s->node[i];
	struct node_config cfg;
	uint32_t most;

	node_config_default(&cfg);
	cfg.speed = s->o.speed[i];
	cfg.kv_tokens = s->o.kv_tokens;
	cfg.max_seqs = s->o.max_seqs;
	if (cfg.batch_tokens < cfg.max_seqs)
		cfg.batch_tokens = cfg.max_seqs;
	if (s->o.max_queued)
		cfg.max_requests = s->o.max_queued;
	n->source = SIM_SOURCE_LISTENER;
	n->sim = s;
	n->index = i;
	n->fd = -1;
	/* What the cache can hold beside the watermark bounds the context too. */
	most = (uint32_t)((double)cfg.kv_tokens * (1 - cfg.watermark)) / NODE_BLOCK_TOKENS * NODE_BLOCK_TOKENS;
	n->max_model_tokens = most < SIM_MODEL_TOKENS ? most : SIM_MODEL_TOKENS;
	n->model = node_new(&cfg);
	if (!n->model)
		return -errno;
	n->faults = sim_faults_at(&s->o, i, 0);
	if (n->faults & (1u << SIM_FAULT_REFUSE | 1u << SIM_FAULT_RESTART))
		return 0;	/* opened when the fault ends */
	return sim_node_listen(n);
}

static void wait_events(struct sim *s)
{
	struct epoll_event ev[256];
	uint64_t now = clock_now_ns(), due = sim_engine_due(s);
	struct timespec ts;
	int count;

	for (int w = SIM_WAIT_IDLE; w < SIM_WAITS; w++)
		if (s->wait_head[w] && s->wait_head[w]->wait_due_ns < due)
			due = s->wait_head[w]->wait_due_ns;
	due = due > now ? due - now : 0;
	if (due > 3600 * NSEC_PER_SEC)
		due = 3600 * NSEC_PER_SEC;
	ts = (struct timespec){ .tv_sec = (time_t)(due / NSEC_PER_SEC), .tv_nsec = (long)(due % NSEC_PER_SEC) };
	count = epoll_pwait2(s->epoll_fd, ev, 256, &ts, NULL);
	if (count < 0 && errno == ENOSYS)	/* kernels before 5.11: whole milliseconds, rounded up */
		count = epoll_wait(s->epoll_fd, ev, 256, (int)((due + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC));
	for (int i = 0; i < count; i++) {
		switch (*(enum sim_source *)ev[i].data.ptr) {
		case SIM_SOURCE_SIGNAL:
			s->stop = true;
			break;
		case SIM_SOURCE_LISTENER:
			sim_accept(ev[i].data.ptr);
			break;
		case SIM_SOURCE_CONN:
			sim_conn_event(ev[i].data.ptr, ev[i].events);
			break;
		}
	}
}

static void teardown(struct sim *s)
{
	for (int i = 0; s->node && i < s->o.nodes; i++) {
		struct sim_node *n = &s->node[i];

		while (n->conns)
			sim_conn_close(n->conns, false);
		if (n->fd >= 0)
			close(n->fd);
		node_free(n->model);
	}
	sim_conn_free_dead(s);
	free(s->node);
	close(s->epoll_fd);
	close(s->signal_fd);
	close(s->spare_fd);
	sim_options_free(&s->o);
}

int main(int argc, char **argv)
{
	static struct sim s = { .epoll_fd = -1, .signal_fd = -1, .spare_fd = -1 };
	char err[512], what[64];
	int ret;

	if (sim_options_parse(&s.o, argc, argv, err, sizeof(err))) {
		fprintf(stderr, "kvsteer-gpusim: %s\n", err);
		sim_options_free(&s.o);
		return 2;
	}
	if (s.o.help || s.o.version) {
		if (s.o.help)
			sim_options_help(stdout);
		else
			printf("kvsteer-gpusim %s\n", KVSTEER_VERSION);
		sim_options_free(&s.o);
		return 0;
	}
	ret = setup_loop(&s);
	if (ret)
		return fail("event loop", -ret);
	s.node = calloc((size_t)s.o.nodes, sizeof(*s.node));
	if (!s.node)
		return fail("nodes", ENOMEM);
	for (int i = 0; i < s.o.nodes; i++) {
		ret = setup_node(&s, i);
		if (ret) {
			snprintf(what, sizeof(what), "node %d, 127.0.0.1:%d", i, s.o.port + i);
			teardown(&s);
			return fail(what, -ret);
		}
	}
	s.ready_ns = clock_now_ns();
	printf("kvsteer-gpusim: %d node%s ready on 127.0.0.1:%d", s.o.nodes, s.o.nodes == 1 ? "" : "s", s.o.port);
	if (s.o.nodes > 1)
		printf("-%d", s.o.port + s.o.nodes - 1);
	printf("\n");
	fflush(stdout);
	while (!s.stop) {
		uint64_t now = clock_now_ns();

		sim_engine_run(&s, now);
		sim_conn_expire(&s, now);
		sim_conn_free_dead(&s);
		wait_events(&s);
	}
	teardown(&s);
	return 0;
}
