/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Loading: program, maps, rings, attachment. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "datapath/splice_internal.h"
#include "datapath/splice_pin.h"
#include "splice.skel.h"

static const char *const reason_names[SPLICE_WHY_MAX] = {
	[SPLICE_WHY_NONE] = "none",
	[SPLICE_WHY_RACE] = "race",
	[SPLICE_WHY_BACKPRESSURE] = "backpressure",
	[SPLICE_WHY_CLIENT_GONE] = "client_gone",
	[SPLICE_WHY_FRAMING] = "framing",
	[SPLICE_WHY_STEPS] = "steps",
	[SPLICE_WHY_MEMORY] = "memory",
};

const char *splice_reason_name(unsigned reason)
{
	return reason < SPLICE_WHY_MAX ? reason_names[reason] : "unknown";
}

const char *splice_pin_path(const struct splice *s)
{
	return s->pin[0] ? s->pin : NULL;
}

uint32_t splice_flow_rows(const struct splice *s)
{
	return s->max_flows;
}

const struct splice_flow *splice_flow_row(const struct splice *s, uint32_t row)
{
	return row < s->max_flows ? &s->flows[row] : NULL;
}

void splice_counts_read(const struct splice *s, struct splice_counts *out)
{
	uint32_t zero = 0;

	memset(out, 0, sizeof(*out));
	bpf_map_lookup_elem(s->counters_fd, &zero, out);
}

static int say(char *why, size_t len, int err, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static int say(char *why, size_t len, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, len, fmt, ap);
	va_end(ap);
	return err;
}

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0; /* what fails is reported by the caller, once, with its object */
}

static int rows_init(struct splice_rows *r, uint32_t n)
{
	pthread_mutex_init(&r->lock, NULL);
	r->ring = malloc(n * sizeof(*r->ring));
	if (!r->ring)
		return -ENOMEM;
	r->cap = r->n = n;
	for (uint32_t i = 0; i < n; i++)
		r->ring[i] = i;
	return 0;
}

static int map_fd(const struct splice *s, const char *name)
{
	return bpf_object__find_map_fd_by_name(s->obj, name);
}

static int resize(struct splice *s, const char *name, uint32_t n)
{
	struct bpf_map *m = bpf_object__find_map_by_name(s->obj, name);

	return m ? bpf_map__set_max_entries(m, n) : -ENOENT;
}

static int make_rings(struct splice *s, char *why, size_t len)
{
	for (uint32_t i = 0; i < s->workers; i++) {
		char name[16];

		snprintf(name, sizeof(name), "ring_%u", i);
		s->ring_fds[i] = bpf_map_create(BPF_MAP_TYPE_RINGBUF, name, 0, 0, SPLICE_RING_BYTES, NULL);
		if (s->ring_fds[i] < 0)
			return say(why, len, -errno, "no ring buffer: %s", strerror(errno));
		if (bpf_map_update_elem(s->rings_fd, &i, &s->ring_fds[i], BPF_ANY))
			return say(why, len, -errno, "no ring in its map: %s", strerror(errno));
	}
	return 0;
}

static int load_object(struct splice *s, const struct splice_opts *o, char *why, size_t len)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_opts, .object_name = "splice");
	struct bpf_program *prog;
	const void *elf = o->elf;
	size_t elf_len = o->elf_len;
	int err;

	if (!elf)
		elf = splice_bpf__elf_bytes(&elf_len);
	s->obj = bpf_object__open_mem(elf, elf_len, &open_opts);
	if (!s->obj)
		return say(why, len, -errno, "the program can't be opened: %s", strerror(errno));
	if (resize(s, "splice_flows", s->max_flows) || resize(s, "splice_upstream", s->max_flows) ||
	    resize(s, "splice_cookies", s->max_flows) || resize(s, "splice_clients", s->max_clients))
		return say(why, len, -ENOENT, "the program lacks a map");
	prog = bpf_object__find_program_by_name(s->obj, "splice_verdict");
	err = prog ? bpf_object__load(s->obj) : -ENOENT;
	if (err)
		return say(why, len, err, "the program can't be loaded: %s%s", strerror(-err),
			   err == -EPERM ? " (needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)" :
			   err == -ESRCH || err == -EINVAL ? " (does the kernel have BTF and sockmap?)" : "");
	s->prog_fd = bpf_program__fd(prog);
	s->flows_fd = map_fd(s, "splice_flows");
	s->upstream_fd = map_fd(s, "splice_upstream");
	s->clients_fd = map_fd(s, "splice_clients");
	s->cookies_fd = map_fd(s, "splice_cookies");
	s->rings_fd = map_fd(s, "splice_rings");
	s->counters_fd = map_fd(s, "splice_counters");
	return 0;
}

int splice_open(struct splice **out, const struct splice_opts *o, char *why, size_t len)
{
	struct splice *s = calloc(1, sizeof(*s));
	int err;

	*out = NULL;
	why[0] = '\0';
	if (!s)
		return say(why, len, -ENOMEM, "no memory");
	s->lock_fd = -1;
	for (unsigned i = 0; i < SPLICE_WORKERS_MAX; i++)
		s->ring_fds[i] = -1;
	s->max_flows = o->max_flows ? o->max_flows : SPLICE_FLOWS_DEFAULT;
	s->max_clients = o->max_clients ? o->max_clients : SPLICE_CLIENTS_DEFAULT;
	s->workers = o->workers;
	s->flows = MAP_FAILED;
	if (!s->workers || s->workers > SPLICE_WORKERS_MAX) {
		err = say(why, len, -EINVAL, "%u workers, 1 to %u can have a ring", o->workers, SPLICE_WORKERS_MAX);
		goto fail;
	}
	libbpf_set_print(quiet);
	err = load_object(s, o, why, len);
	if (!err)
		err = make_rings(s, why, len);
	if (err)
		goto fail;
	s->flows = mmap(NULL, (size_t)s->max_flows * sizeof(*s->flows), PROT_READ | PROT_WRITE, MAP_SHARED, s->flows_fd, 0);
	if (s->flows == MAP_FAILED) {
		err = say(why, len, -errno, "the flow table can't be mapped: %s", strerror(errno));
		goto fail;
	}
	s->backends = calloc(s->max_flows, sizeof(*s->backends));
	if (!s->backends || rows_init(&s->flow_rows, s->max_flows) || rows_init(&s->client_rows, s->max_clients)) {
		err = say(why, len, -ENOMEM, "no memory");
		goto fail;
	}
	if (bpf_prog_attach(s->prog_fd, s->upstream_fd, BPF_SK_SKB_STREAM_VERDICT, 0)) {
		err = say(why, len, -errno, "the program can't be attached to its sockmap: %s", strerror(errno));
		goto fail;
	}
	if (o->pin_dir)
		splice_pin(s, o->pin_dir, o->instance, why, len);
	*out = s;
	return 0;
fail:
	splice_close(s);
	return err;
}

void splice_close(struct splice *s)
{
	if (!s)
		return;
	splice_unpin(s);
	if (s->flows != MAP_FAILED)
		munmap(s->flows, (size_t)s->max_flows * sizeof(*s->flows));
	for (unsigned i = 0; i < SPLICE_WORKERS_MAX; i++)
		if (s->ring_fds[i] >= 0)
			close(s->ring_fds[i]);
	bpf_object__close(s->obj);
	free(s->backends);
	free(s->flow_rows.ring);
	free(s->client_rows.ring);
	free(s);
}
