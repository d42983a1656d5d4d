/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/daemon.h"
#include "gateway/splice_view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "config/config.h"
#include "control/admin.h"
#include "control/title.h"
#include "gateway/gateway.h"
#include "kvsteer/version.h"

#define DAEMON_DRAIN_POLL_MS 20 /* how soon the end of the last request is noticed */

static int daemon_load(const char *file, struct config **cfg, char *err, size_t err_len)
{
	struct config_error e;
	int r = config_load_file(file, cfg, &e);

	if (!r) {
		r = config_resolve(*cfg, &e);
		if (r) {
			config_unref(*cfg);
			*cfg = NULL;
		}
	}
	if (r)
		config_error_text(&e, err, err_len);
	return r;
}

/* What a running process can't change: said, so that nobody waits for it. */
static void daemon_say_restart(const struct config *old, const struct config *new)
{
	if (strcmp(old->admin.socket, new->admin.socket) || old->admin.address.sa_len != new->admin.address.sa_len ||
	    memcmp(&old->admin.address.sa, &new->admin.address.sa, sizeof(old->admin.address.sa)))
		log_warn("reload_needs_restart", "key=admin");
}

int daemon_reload(struct daemon *d, char *err, size_t err_len)
{
	struct config *cfg;
	int r;

	if (d->draining) {
		snprintf(err, err_len, "draining");
		log_error("reload_failed", "error=\"%s\"", err);
		return -ESHUTDOWN;
	}
	r = daemon_load(d->config_file, &cfg, err, err_len);
	if (!r) {
		r = gateway_reload(d->gw, cfg, err, err_len);
		if (r)
			config_unref(cfg);
	}
	if (r) {
		log_error("reload_failed", "error=\"%s\" the old configuration goes on", err);
		return r;
	}
	log_set_level((enum log_level)cfg->log.level);
	daemon_say_restart(d->cfg, cfg);
	config_unref(d->cfg);
	d->cfg = cfg;
	log_info("reloaded", "pools=%u", cfg->n_pools);
	return 0;
}

static void daemon_signal(struct daemon *d, int sig)
{
	char err[1024];

	if (sig == SIGHUP) {
		daemon_reload(d, err, sizeof(err));
	} else if (d->draining) {
		log_warn("stop", "signal=%d a second one: requests under way are cut", sig);
		d->cut = true;
	} else {
		log_info("drain", "signal=%d timeout_s=%llu", sig,
			 (unsigned long long)(d->cfg->timeouts.drain_ns / 1000000000ull));
		d->draining = true;
		gateway_drain(d->gw);
	}
}

static void daemon_read_signals(struct daemon *d, int fd)
{
	struct signalfd_siginfo si;

	while (read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		daemon_signal(d, (int)si.ssi_signo);
}

static void daemon_loop(struct daemon *d, struct admin *admin, int signal_fd)
{
	struct pollfd fds[1 + ADMIN_FDS];

	while (!d->cut && !(d->draining && gateway_drained(d->gw))) {
		int timeout_ms = d->draining ? DAEMON_DRAIN_POLL_MS : -1;
		unsigned n = 1;

		fds[0] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
		n += admin_poll_fds(admin, fds + 1, &timeout_ms);
		if (poll(fds, n, timeout_ms) < 0 && errno != EINTR) {
			log_error("poll", "error=\"%s\"", strerror(errno));
			return;
		}
		if (fds[0].revents)
			daemon_read_signals(d, signal_fd);
		admin_run(admin);
	}
}

/* Two descriptors for a relayed request: take what the system lets us have. */
static void daemon_raise_descriptors(void)
{
	struct rlimit rl;

	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == rl.rlim_max)
		return;
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
}

/* Signals come through a descriptor of the control thread; threads made later inherit the mask. */
static int daemon_signal_fd(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigaction(SIGPIPE, &ignore, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -1;
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int daemon_run(const char *config_file, int argc, char **argv)
{
	struct daemon d = { 0 };
	struct gateway_splice_view splice;
	struct admin *admin = NULL;
	char err[1024] = "", *file = strdup(config_file);
	int r, signal_fd = -1, code = 1;

	if (!file)
		return 1;
	d.config_file = file;
	r = daemon_load(file, &d.cfg, err, sizeof(err));
	if (r) {
		code = r == -EHOSTUNREACH || r == -ENOMEM ? 1 : 2;
		goto cleanup;
	}
	log_set_level((enum log_level)d.cfg->log.level);
	title_set(argc, argv, "kvsteerd: router", "kvsteerd-router");
	daemon_raise_descriptors();
	signal_fd = daemon_signal_fd();
	if (signal_fd < 0) {
		snprintf(err, sizeof(err), "signalfd: %s", strerror(errno));
		goto cleanup;
	}
	if (gateway_create(&d.gw, d.cfg, err, sizeof(err)) || admin_create(&admin, &d, err, sizeof(err)))
		goto cleanup;
	r = gateway_start(d.gw);
	if (r) {
		snprintf(err, sizeof(err), "cannot start the workers: %s", strerror(-r));
		goto cleanup;
	}
	gateway_splice_view(d.gw, &splice);
	log_info("started", "version=%s pid=%d listeners=%u pools=%u datapath=%s", KVSTEER_VERSION, (int)getpid(),
		 d.cfg->n_listeners, d.cfg->n_pools, splice.on ? "splice" : "relay");
	daemon_loop(&d, admin, signal_fd);
	code = d.draining && !d.cut ? 0 : 1;
	log_info("stopped", "code=%d", code);
cleanup:
	if (*err && code)
		fprintf(stderr, "kvsteerd: %s\n", err);
	admin_destroy(admin);
	if (d.gw)
		gateway_destroy(d.gw);
	if (signal_fd >= 0)
		close(signal_fd);
	config_unref(d.cfg);
	free(file);
	return code;
}
