/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdio.h>
#include <string.h>

#include "cmd/ctl.h"

static const struct ctl_column doctor_columns[] = {
	{ "CHECK", "check", CTL_TEXT },
	{ "RESULT", "result", CTL_TEXT },
	{ "DETAIL", "detail", CTL_TEXT },
	{ NULL, NULL, CTL_TEXT },
};

static int do_doctor(const struct ctl *c, int argc, char **argv)
{
	struct ctl_reply r;
	bool ok = ctl_request(c, "GET", "/doctor", NULL, 0, &r);
	yyjson_val *checks = yyjson_obj_get(yyjson_doc_get_root(r.doc), "checks"), *row;
	int code = ok ? CTL_OK : CTL_FAILED;
	size_t i, max;

	if (ok && c->json)
		fputs(r.text, stdout);
	else if (ok)
		ctl_table(checks, doctor_columns, "");
	yyjson_arr_foreach (checks, i, max, row) {
		const char *result = yyjson_get_str(yyjson_obj_get(row, "result"));

		if (!result || !strcmp(result, "fail"))
			code = CTL_FAILED;
	}
	ctl_reply_free(&r);
	return code;
}

static void say_list(const char *what, yyjson_val *list)
{
	size_t i, max;
	yyjson_val *v;

	yyjson_arr_foreach (list, i, max, v)
		printf("%s: %s\n", what, yyjson_is_str(v) ? yyjson_get_str(v) : "?");
}

static int do_reload(const struct ctl *c, int argc, char **argv)
{
	struct ctl_reply r;
	bool ok = ctl_request(c, "POST", "/reload", NULL, 0, &r);
	yyjson_val *root = yyjson_doc_get_root(r.doc);

	if (ok && c->json) {
		fputs(r.text, stdout);
	} else if (ok) {
		puts("reloaded");
		say_list("needs a restart", yyjson_obj_get(root, "needs_restart"));
		say_list("without address, gets no request", yyjson_obj_get(root, "unresolved"));
	}
	ctl_reply_free(&r);
	return ok ? CTL_OK : CTL_FAILED;
}

static int do_upgrade(const struct ctl *c, int argc, char **argv)
{
	return ctl_error(c, CTL_FAILED, "not_in_this_version",
			 "upgrade: not in this version; restart the service to change versions");
}

const struct ctl_command ctl_daemon_commands[] = {
	{ "doctor", NULL, NULL, 0, 0, "what an operator should look at; exit 1 if something fails", do_doctor },
	{ "reload", NULL, NULL, 0, 0, "read the configuration again", do_reload },
	{ "upgrade", NULL, NULL, 0, 0, "not in this version", do_upgrade },
	{ NULL, NULL, NULL, 0, 0, NULL, NULL },
};
