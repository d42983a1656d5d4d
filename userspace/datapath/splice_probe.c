/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the kernel and our rights allow. Features are tried, never derived from a
 * version number: distributions' kernels carry newer code under old numbers. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "datapath/splice_internal.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF 39
#endif

static void row(struct splice_probe *p, const char *name, enum splice_probe_result result, const char *help,
		const char *fmt, ...) __attribute__((format(printf, 5, 6)));
static void row(struct splice_probe *p, const char *name, enum splice_probe_result result, const char *help,
		const char *fmt, ...)
{
	va_list ap;

	p->name = name;
	p->result = result;
	p->help = result == SPLICE_PROBE_OK ? NULL : help;
	va_start(ap, fmt);
	vsnprintf(p->detail, sizeof(p->detail), fmt, ap);
	va_end(ap);
}

/* A number in a file below /proc/sys, -1 if it is not there. */
static int read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	int n = -1;

	if (f && fscanf(f, "%d", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static void probe_kernel(struct splice_probe *p)
{
	struct utsname u;

	if (uname(&u))
		memset(&u, 0, sizeof(u));
	row(p, "kernel", SPLICE_PROBE_OK, NULL, "%s %s; tested are 6.1 and newer", u.sysname, u.release);
}

static void probe_btf(struct splice_probe *p)
{
	bool ok = !access("/sys/kernel/btf/vmlinux", R_OK);

	row(p, "BTF", ok ? SPLICE_PROBE_OK : SPLICE_PROBE_FAIL,
	    "the program finds the fields of kernel structures by it: needs a kernel with CONFIG_DEBUG_INFO_BTF=y",
	    ok ? "/sys/kernel/btf/vmlinux" : "/sys/kernel/btf/vmlinux can't be read");
}

static void probe_capabilities(struct splice_probe *p)
{
	static const struct {
		unsigned bit;
		const char *name;
	} need[] = { { CAP_BPF, "CAP_BPF" }, { CAP_NET_ADMIN, "CAP_NET_ADMIN" }, { CAP_PERFMON, "CAP_PERFMON" } };
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	char missing[80] = "";
	size_t len = 0;
	uint64_t have;

	if (syscall(SYS_capget, &head, data)) {
		row(p, "capabilities", SPLICE_PROBE_FAIL, "capget() is refused", "%s", strerror(errno));
		return;
	}
	have = data[0].effective | (uint64_t)data[1].effective << 32;
	for (size_t i = 0; i < sizeof(need) / sizeof(need[0]); i++)
		if (!(have >> need[i].bit & 1) && !(have >> CAP_SYS_ADMIN & 1))
			len += (size_t)snprintf(missing + len, sizeof(missing) - len, " %s", need[i].name);
	row(p, "capabilities", *missing ? SPLICE_PROBE_FAIL : SPLICE_PROBE_OK,
	    "give the process CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON (AmbientCapabilities= in its unit); they are all it needs",
	    *missing ? "missing:%s" : "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON%s", missing);
}

static void probe_map(struct splice_probe *p, const char *name, enum bpf_map_type type, uint32_t key, uint32_t value,
		      uint32_t n, const char *help)
{
	int fd = bpf_map_create(type, "kvsteer_probe", key, value, n, NULL);

	row(p, name, fd >= 0 ? SPLICE_PROBE_OK : SPLICE_PROBE_FAIL, help, "%s", fd >= 0 ? "can be made" : strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void probe_jit(struct splice_probe *p)
{
	int on = read_number("/proc/sys/net/core/bpf_jit_enable"), harden = read_number("/proc/sys/net/core/bpf_jit_harden");

	if (on == 0)
		row(p, "JIT", SPLICE_PROBE_WARN, "the program is interpreted, several times slower: set net.core.bpf_jit_enable=1",
		    "net.core.bpf_jit_enable 0");
	else if (harden == 2)
		row(p, "JIT", SPLICE_PROBE_WARN, "costs 10 to 30 percent: net.core.bpf_jit_harden=1 hardens unprivileged programs only",
		    "net.core.bpf_jit_harden 2");
	else
		row(p, "JIT", SPLICE_PROBE_OK, NULL, "on");
}

static void probe_bpffs(struct splice_probe *p, const char *dir)
{
	struct statfs st;
	char path[256];
	char *slash;

	/* the nearest directory that exists */
	snprintf(path, sizeof(path), "%s", dir ? dir : "/sys/fs/bpf");
	while (statfs(path, &st) && (slash = strrchr(path, '/')) && slash != path)
		*slash = '\0';
	row(p, "BPF file system", st.f_type == BPF_FS_MAGIC ? SPLICE_PROBE_OK : SPLICE_PROBE_WARN,
	    "the maps are not pinned, so that bpftool finds them by id only: mount -t bpf bpf /sys/fs/bpf",
	    st.f_type == BPF_FS_MAGIC ? "%s" : "%s is none", path);
}

static void probe_lockdown(struct splice_probe *p)
{
	FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	char text[80] = "not active";

	if (f && !fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
	row(p, "lockdown", strstr(text, "[confidentiality]") ? SPLICE_PROBE_WARN : SPLICE_PROBE_OK,
	    "the program reads two fields of the client's TCP state, which this mode may refuse", "%s", text);
}

unsigned splice_probe_all(struct splice_probe *p, const char *pin_dir)
{
	unsigned n = 0;

	probe_kernel(&p[n++]);
	probe_btf(&p[n++]);
	probe_capabilities(&p[n++]);
	probe_map(&p[n++], "sockmap", BPF_MAP_TYPE_SOCKMAP, 4, 8, 1,
		  "needs CONFIG_BPF_STREAM_PARSER=y and CONFIG_NET_SOCK_MSG=y, and the capabilities above");
	probe_map(&p[n++], "ring buffer", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096, "needs Linux 5.8 or newer, and the capabilities above");
	probe_jit(&p[n++]);
	probe_bpffs(&p[n++], pin_dir);
	probe_lockdown(&p[n++]);
	return n;
}
