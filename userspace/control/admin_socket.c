/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/admin_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "config/config.h"

#define ADMIN_BACKLOG 64

static int admin_fail(int fd, char *err, size_t err_len, const char *what, const char *where, int e)
{
	if (fd >= 0)
		close(fd);
	snprintf(err, err_len, "%s %s: %s", what, where, strerror(e));
	return -e;
}

int admin_listen_tcp(const struct config *cfg, char *err, size_t err_len)
{
	const struct config_address *a = &cfg->admin.address;
	struct config_error e;
	int one = 1, fd, r;

	fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&a->sa, a->sa_len) && !listen(fd, ADMIN_BACKLOG))
		return fd;
	r = -errno;
	if (fd >= 0)
		close(fd);
	config_error_system(&e, cfg, "admin.address", a->text, a->line, a->column, "cannot listen on it", -r);
	config_error_text(&e, err, err_len);
	return r;
}

/* A socket file that a dead process left is removed; one that somebody serves, or
 * any other file, is not ours to remove. */
static int admin_unlink_stale(const struct sockaddr_un *un)
{
	struct stat st;
	int fd, r = 0;

	if (lstat(un->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* EAGAIN: its backlog is full, so somebody has it */
	if (!connect(fd, (const struct sockaddr *)un, sizeof(*un)) || errno == EAGAIN)
		r = -EADDRINUSE;
	else if (errno != ECONNREFUSED)
		r = -errno;
	close(fd);
	if (!r && unlink(un->sun_path))
		r = -errno;
	return r;
}

int admin_listen_unix(const char *path, char *err, size_t err_len)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t len = strlen(path);
	char *slash;
	int fd, r;

	if (len >= sizeof(un.sun_path))
		return admin_fail(-1, err, err_len, "too long:", path, ENAMETOOLONG);
	memcpy(un.sun_path, path, len + 1);
	slash = strrchr(un.sun_path, '/');
	if (slash && slash != un.sun_path) {
		*slash = 0;
		/* just the last directory, and not in silence: a mistyped path must be seen */
		if (!mkdir(un.sun_path, 0755))
			log_info("admin_socket_dir", "made=%s", un.sun_path);
		else if (errno != EEXIST)
			return admin_fail(-1, err, err_len, "cannot make", un.sun_path, errno);
		*slash = '/';
	}
	r = admin_unlink_stale(&un);
	if (r)
		return admin_fail(-1, err, err_len, "cannot replace", path, -r);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return admin_fail(fd, err, err_len, "socket for", path, errno);
	/* before bind: there is no moment in which others could connect. The inode takes the mode less the umask. */
	fchmod(fd, 0660);
	if (bind(fd, (const struct sockaddr *)&un, sizeof(un)))
		return admin_fail(fd, err, err_len, "cannot bind", path, errno);
	if (chmod(path, 0660) || listen(fd, ADMIN_BACKLOG)) {
		r = errno;
		unlink(path);
		return admin_fail(fd, err, err_len, "cannot listen on", path, r);
	}
	return fd;
}
