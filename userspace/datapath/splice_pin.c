/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "datapath/splice_pin.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "datapath/splice_internal.h"

#define BPFFS "/sys/fs/bpf"

static const char *const pinned_maps[] = {
	"splice_flows", "splice_upstream", "splice_clients", "splice_cookies", "splice_rings", "splice_counters",
};

static int fail(char *why, size_t len, int err, const char *what, const char *path)
{
	snprintf(why, len, "not pinned: %s %s: %s", what, path, strerror(-err));
	return err;
}

/* A file system for pins at /sys/fs/bpf: most systems mount it, containers may not. */
static void mount_bpffs(const char *dir)
{
	struct statfs st;

	if (strncmp(dir, BPFFS, sizeof(BPFFS) - 1))
		return;
	if (!statfs(BPFFS, &st) && st.f_type != BPF_FS_MAGIC)
		(void)mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700");
}

static int make_dir(const char *path)
{
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

static void remove_pins(const struct splice *s)
{
	char path[320];

	for (size_t i = 0; i < sizeof(pinned_maps) / sizeof(pinned_maps[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", s->pin, pinned_maps[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/splice_verdict", s->pin);
	unlink(path);
}

int splice_pin(struct splice *s, const char *dir, const char *instance, char *why, size_t len)
{
	char path[320];
	struct statfs st;
	int err;

	mount_bpffs(dir);
	err = make_dir(dir);
	if (err)
		return fail(why, len, err, "can't make", dir);
	if (statfs(dir, &st) || st.f_type != BPF_FS_MAGIC) {
		snprintf(why, len, "not pinned: %s is not on a BPF file system", dir);
		return -EINVAL;
	}
	snprintf(s->pin, sizeof(s->pin), "%s/%s", dir, instance);
	err = make_dir(s->pin);
	if (err)
		goto out;
	snprintf(s->pin, sizeof(s->pin), "%s/%s/v%d", dir, instance, SPLICE_SCHEMA);
	err = make_dir(s->pin);
	if (err)
		goto out;
	/* The lock says whether the owner lives; it ends with the process, the pins do not. */
	s->lock_fd = open(s->pin, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock_fd < 0 || flock(s->lock_fd, LOCK_EX | LOCK_NB)) {
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
		goto out;
	}
	remove_pins(s);
	for (size_t i = 0; i < sizeof(pinned_maps) / sizeof(pinned_maps[0]) && !err; i++) {
		snprintf(path, sizeof(path), "%s/%s", s->pin, pinned_maps[i]);
		err = bpf_obj_pin(bpf_object__find_map_fd_by_name(s->obj, pinned_maps[i]), path);
	}
	snprintf(path, sizeof(path), "%s/splice_verdict", s->pin);
	if (!err)
		err = bpf_obj_pin(s->prog_fd, path);
	if (!err)
		return 0;
	remove_pins(s);
out:
	fail(why, len, err, err == -EBUSY ? "another process has" : "can't pin at", s->pin);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->lock_fd = -1;
	s->pin[0] = '\0';
	return err;
}

void splice_unpin(struct splice *s)
{
	char *end;

	if (!s->pin[0])
		return;
	remove_pins(s);
	/* its directories too, as far as they are empty */
	rmdir(s->pin);
	end = strrchr(s->pin, '/');
	*end = '\0';
	rmdir(s->pin);
	s->pin[0] = '\0';
	close(s->lock_fd);
	s->lock_fd = -1;
}
