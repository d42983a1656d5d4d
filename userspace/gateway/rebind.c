/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Listening sockets of the configuration: bound at the start and at a reload, handed to the workers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "gateway/internal.h"
#include "gateway/listener.h"

/* What a worker changes at a reload; made by the control thread, freed by the worker. */
struct listener_change {
	struct mail mail;
	struct config *cfg;
	unsigned n; /* new sockets */
	struct {
		int fd;
		unsigned listener;
	} fresh[CONFIG_MAX_LISTENERS];
};

static bool same_address(const struct config_address *a, const struct config_address *b)
{
	return a->sa_len == b->sa_len && !memcmp(&a->sa, &b->sa, a->sa_len);
}

static void listeners_changed(struct worker *w, struct mail *m)
{
	struct listener_change *ch = container_of(m, struct listener_change, mail);
	struct listener *l, *next;

	worker_fleet(w);
	for (unsigned i = 0; i < ch->n; i++) {
		const struct config_address *a = &ch->cfg->listeners[ch->fresh[i].listener].address;

		if (w->draining)
			close(ch->fresh[i].fd);
		else if (listener_add(w, ch->fresh[i].fd, (const struct sockaddr *)&a->sa, a->sa_len))
			log_error("listen_failed", "address=%s", a->text);
	}
	for (l = w->listeners; l; l = next) {
		bool keep = false;

		next = l->next;
		for (unsigned i = 0; i < ch->cfg->n_listeners; i++)
			keep |= l->addr_len == ch->cfg->listeners[i].address.sa_len &&
				!memcmp(&l->addr, &ch->cfg->listeners[i].address.sa, l->addr_len);
		if (!keep)
			listener_close(w, l);
	}
	config_unref(ch->cfg);
	free(ch);
	__atomic_sub_fetch(&w->gw->rebinding, 1, __ATOMIC_RELEASE);
}

/* What the reload before has closed is closed only when each worker has come to it: until then
 * an address that comes back would be found taken, by ourselves. Bounded: 2 s. */
static void wait_for_changes(struct gateway *gw)
{
	for (unsigned i = 0; i < 400 && __atomic_load_n(&gw->rebinding, __ATOMIC_ACQUIRE); i++)
		usleep(5000);
}

static uint16_t port_of(const struct config_address *a)
{
	return a->sa.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&a->sa)->sin6_port :
					     ((const struct sockaddr_in *)&a->sa)->sin_port;
}

static bool is_any(const struct config_address *a)
{
	return a->sa.ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&a->sa)->sin6_addr) :
					     ((const struct sockaddr_in *)&a->sa)->sin_addr.s_addr == INADDR_ANY;
}

/* Would the kernel take the two for a conflict? (Listeners of IPv6 take no IPv4.) */
static bool overlaps(const struct config_address *a, const struct config_address *b)
{
	return a->sa.ss_family == b->sa.ss_family && port_of(a) == port_of(b) && (is_any(a) || is_any(b));
}

/* Does it share its port with a listener that this process holds, or has just bound? Those
 * must not be in its way, so that the kernel can't be asked who else is. */
static bool overlaps_own(const struct config *cfg, unsigned k, const struct config *old)
{
	bool found = false;

	for (unsigned j = 0; j < k; j++)
		found |= overlaps(&cfg->listeners[k].address, &cfg->listeners[j].address);
	for (unsigned j = 0; old && j < old->n_listeners; j++)
		found |= overlaps(&cfg->listeners[k].address, &old->listeners[j].address);
	return found;
}

static bool held(const struct config *cfg, const struct config_address *a)
{
	for (unsigned j = 0; cfg && j < cfg->n_listeners; j++)
		if (same_address(&cfg->listeners[j].address, a))
			return true;
	return false;
}

void listeners_forget(struct listener_change *ch)
{
	for (unsigned k = 0; ch && k < ch->n; k++)
		close(ch->fresh[k].fd);
	free(ch);
}

static int bind_one(struct gateway *gw, struct config *cfg, unsigned k, const struct config *old,
		    struct listener_change **changes)
{
	const struct config_address *a = &cfg->listeners[k].address;
	bool alone = !overlaps_own(cfg, k, old);

	for (unsigned i = 0; i < gw->n_workers; i++) {
		int fd = listener_bind((const struct sockaddr *)&a->sa, a->sa_len, alone && !i);

		if (fd < 0)
			return fd;
		changes[i]->fresh[changes[i]->n].fd = fd;
		changes[i]->fresh[changes[i]->n++].listener = k;
	}
	return 0;
}

int listeners_bind(struct gateway *gw, struct config *cfg, const struct config *old, struct listener_change **changes,
		   char *err, size_t err_len)
{
	int rc = 0;

	wait_for_changes(gw);
	for (unsigned i = 0; i < gw->n_workers; i++) {
		changes[i] = calloc(1, sizeof(*changes[i]));
		if (!changes[i])
			rc = -ENOMEM;
		else
			changes[i]->mail.fn = listeners_changed;
	}
	if (rc)
		snprintf(err, err_len, "out of memory");
	for (unsigned k = 0; !rc && k < cfg->n_listeners; k++) {
		const struct config_address *a = &cfg->listeners[k].address;
		struct config_error e;
		char key[48];

		if (held(old, a))
			continue;
		rc = bind_one(gw, cfg, k, old, changes);
		if (!rc)
			continue;
		snprintf(key, sizeof(key), "listeners[%u].address", k);
		config_error_system(&e, cfg, key, a->text, a->line, a->column, "cannot listen on it", -rc);
		config_error_text(&e, err, err_len);
	}
	for (unsigned i = 0; rc && i < gw->n_workers; i++)
		listeners_forget(changes[i]);
	return rc;
}

void listeners_apply(struct worker *w, struct listener_change *ch, struct config *cfg, bool running)
{
	ch->cfg = config_ref(cfg);
	__atomic_add_fetch(&w->gw->rebinding, 1, __ATOMIC_RELAXED);
	if (running)
		worker_post(w, &ch->mail);
	else
		listeners_changed(w, &ch->mail);
}
