/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "control/title.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void title_set(int argc, char **argv, const char *title, const char *comm)
{
	char *start = argc > 0 ? argv[0] : NULL, *end = start;
	size_t n = 0, room;
	char **env;

	prctl(PR_SET_NAME, comm);
	for (int i = 0; i < argc; i++)
		if (argv[i] == end)
			end += strlen(argv[i]) + 1;
	if (!start)
		return;
	/* The kernel lays the environment right behind the arguments; a title that is longer
	 * than these needs room there, so the environment moves out first. */
	while (environ && environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++) {
		char *old = environ[i];

		env[i] = strdup(old);
		if (!env[i]) { /* the title stays as it is */
			while (i)
				free(env[--i]);
			free(env);
			return;
		}
		if (old == end)
			end += strlen(old) + 1;
	}
	if (!env)
		return;
	environ = env;
	room = (size_t)(end - start);
	memset(start, 0, room);
	strncpy(start, title, room - 1);
}
