/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* kvsteer-replay: policies compared offline, without GPUs and sockets, in seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/ask.h"

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		int (*run)(struct replay_ask *a);
	} commands[] = {
		{ "run", replay_do_run },	  { "regret", replay_do_regret }, { "capacity", replay_do_capacity },
		{ "scaling", replay_do_scaling }, { "check", replay_do_check },	  { "picture", replay_do_picture },
	};
	struct replay_ask a;
	const char *word;
	int code;

	word = replay_ask_parse(argc, argv, &a, &code);
	if (!word)
		return code;
	if (a.json) {
		a.doc = yyjson_mut_doc_new(NULL);
		yyjson_mut_doc_set_root(a.doc, yyjson_mut_obj(a.doc));
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].word, word))
			code = commands[i].run(&a);
	if (a.json) {
		yyjson_mut_write_fp(stdout, a.doc, YYJSON_WRITE_PRETTY | YYJSON_WRITE_ALLOW_INF_AND_NAN, NULL, NULL);
		putchar('\n');
		yyjson_mut_doc_free(a.doc);
	}
	return code;
}
