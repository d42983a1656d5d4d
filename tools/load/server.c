/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/server.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int load_server_find(const char *host, const char *port, struct sockaddr_storage *addr, socklen_t *addr_len)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG }, *list, *ai;
	int rc = getaddrinfo(host, port, &hints, &list), err = ECONNREFUSED;

	if (rc) {
		fprintf(stderr, "kvsteer-load: %s: %s\n", host, gai_strerror(rc));
		return -ENOENT;
	}
	for (ai = list; ai; ai = ai->ai_next) {
		int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		struct pollfd pfd = { .fd = fd, .events = POLLOUT };
		socklen_t len = sizeof(err);

		if (fd < 0) {
			err = errno;
			continue;
		}
		err = connect(fd, ai->ai_addr, ai->ai_addrlen) ? errno : 0;
		if (err == EINPROGRESS) {
			err = ETIMEDOUT;
			if (poll(&pfd, 1, 5000) == 1)
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		}
		close(fd);
		if (!err) {
			memcpy(addr, ai->ai_addr, ai->ai_addrlen);
			*addr_len = ai->ai_addrlen;
			break;
		}
	}
	freeaddrinfo(list);
	if (!err)
		return 0;
	fprintf(stderr, "kvsteer-load: connect %s port %s: %s\n", host, port, strerror(err));
	return -err;
}
