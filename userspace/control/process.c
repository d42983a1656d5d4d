/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t id)
{
	struct timespec t = { 0 };

	clock_gettime(id, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint64_t n = 0;

	if (!d)
		return 0;
	for (struct dirent *e; (e = readdir(d));)
		n += *e->d_name != '.';
	closedir(d);
	return n - 1; /* its own */
}

/* proc(5): field 22 of stat, in clock ticks since the boot; the name before may hold anything. */
static double start_s(void)
{
	FILE *f = fopen("/proc/self/stat", "re");
	uint64_t ticks = 0;
	char text[1024];
	size_t n;
	char *p;

	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	p = strrchr(text, ')');
	for (unsigned i = 2; p && i < 22; i++)
		p = strchr(p + 1, ' ');
	if (!p || sscanf(p, "%" SCNu64, &ticks) != 1)
		return 0;
	return seconds(CLOCK_REALTIME) - seconds(CLOCK_BOOTTIME) + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

void process_read(struct process_figures *p)
{
	FILE *f = fopen("/proc/self/statm", "re");
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct rlimit rl;

	memset(p, 0, sizeof(*p));
	if (f && fscanf(f, "%" SCNu64 " %" SCNu64, &p->virtual_bytes, &p->resident_bytes) == 2) {
		p->virtual_bytes *= page;
		p->resident_bytes *= page;
	}
	if (f)
		fclose(f);
	p->cpu_s = seconds(CLOCK_PROCESS_CPUTIME_ID);
	p->start_s = start_s();
	p->open_fds = count_fds();
	if (!getrlimit(RLIMIT_NOFILE, &rl))
		p->max_fds = rl.rlim_cur;
}
