/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/daemon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "control/admin.h"
#include "control/restart.h"
#include "control/title.h"
#include "gateway/gateway.h"
#include "gateway/splice_view.h"
#include "kvsteer/version.h"

#define DAEMON_DRAIN_POLL_MS 20 /* how soon the end of the last request is noticed */

static int daemon_load(const char *file, struct config **cfg, char *err, size_t err_len)
{
	struct config_error e;
	int r = config_load_file(file, cfg, &e);

	if (r)
		config_error_text(&e, err, err_len);
	return r;
}

static void daemon_say_restart(const struct daemon *d, const struct config *now)
{
	const char *keys[RESTART_KEYS_MAX];
	unsigned n = restart_keys(d->started, now, keys);
	char text[160] = "";

	for (unsigned i = 0; i < n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "," : "", keys[i]);
	if (n)
		log_warn("reload_needs_restart", "keys=%s", text);
}

static void daemon_warn(void *ctx, const char *text)
{
	log_warn("config", "warning=\"%s\"", text);
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
	daemon_say_restart(d, cfg);
	config_warnings(cfg, daemon_warn, NULL);
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
		uint64_t now_ns = clock_now_ns(), next_ns = gateway_resolve_again(d->gw, now_ns);
		int timeout_ms = d->draining ? DAEMON_DRAIN_POLL_MS : -1;
		unsigned n = 1;

		if (!d->draining && next_ns != UINT64_MAX)
			timeout_ms = (int)((next_ns - now_ns) / NSEC_PER_MSEC + 1);
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
		code = r == -ENOMEM ? 1 : 2;
		goto cleanup;
	}
	d.started = config_ref(d.cfg);
	log_set_level((enum log_level)d.cfg->log.level);
	config_warnings(d.cfg, daemon_warn, NULL);
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
	*err = 0;
	daemon_loop(&d, admin, signal_fd);
	code = d.draining && !d.cut ? 0 : 1;
cleanup:
	if (*err)
		fprintf(stderr, "kvsteerd: %s\n", err);
	admin_destroy(admin);
	if (d.gw)
		gateway_destroy(d.gw); /* says what it has to cut */
	if (!*err)
		log_info("stopped", "code=%d", code);
	if (signal_fd >= 0)
		close(signal_fd);
	config_unref(d.cfg);
	config_unref(d.started);
	free(file);
	return code;
}
