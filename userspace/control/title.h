/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The title that ps shows for this process. */
#ifndef KVSTEER_CONTROL_TITLE_H
#define KVSTEER_CONTROL_TITLE_H

/* Overwrites the arguments' memory: what argv[] pointed to is void afterwards. The
 * environment is kept. `comm` (15 characters at most) is the name of the main thread. */
void title_set(int argc, char **argv, const char *title, const char *comm);
#endif
