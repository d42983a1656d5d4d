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

static int do_reload(const struct ctl *c, int argc, char **argv)
{
	return ctl_change(c, "/reload", "reloaded\n");
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
