/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The file as a whole, into memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

/* Any kind of file, also a pipe, up to the limit and a byte more. */
static int load_read(const char *path, char **text, size_t *len)
{
	size_t cap = CONFIG_MAX_FILE_BYTES + 1, n = 0;
	struct stat st;
	ssize_t got;
	int fd, r = 0;

	*text = NULL;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
		r = -EISDIR;
	else if (!(*text = malloc(cap)))
		r = -ENOMEM;
	while (!r && n < cap) {
		got = read(fd, *text + n, cap - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			r = -errno;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	close(fd);
	*len = n;
	return r;
}

int config_load_file(const char *path, struct config **out, struct config_error *err)
{
	size_t len = 0;
	char *text;
	int r;

	*out = NULL;
	r = load_read(path, &text, &len);
	if (r) {
		memset(err, 0, sizeof(*err));
		snprintf(err->file, sizeof(err->file), "%s", path);
		snprintf(err->message, sizeof(err->message), "cannot be read: %s", strerror(-r));
	} else {
		r = config_load_buffer(text, len, path, out, err);
	}
	free(text);
	return r;
}
