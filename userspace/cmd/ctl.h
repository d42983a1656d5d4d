/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* kvsteerctl: commands are rows of tables; each asks the daemon's admin socket and
 * prints its JSON (-j) or a table made of it. */
#ifndef KVSTEER_CMD_CTL_H
#define KVSTEER_CMD_CTL_H
#include <stdbool.h>
#include <stddef.h>
#include <yyjson.h>

#define CTL_SOCKET "/run/kvsteer/admin.sock"

#define CTL_HEADERS_MAX 16

struct ctl {
	const char *socket;
	bool json;
	const char *headers[CTL_HEADERS_MAX + 1]; /* NAME: VALUE, of the request to be explained; NULL ends */
};

enum ctl_exit { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2 };

struct ctl_command {
	const char *noun, *verb; /* verb NULL: the noun alone */
	const char *args;	 /* for help: "NAME"; NULL: none */
	int min_args, max_args;
	const char *help;
	int (*fn)(const struct ctl *c, int argc, char **argv); /* an enum ctl_exit */
};
/* One table per file, ended by a NULL noun. */
extern const struct ctl_command ctl_status_commands[], ctl_backend_commands[], ctl_route_commands[], ctl_daemon_commands[];

/* An answer of the daemon. doc NULL: it could not be had, and the reason has been said. */
struct ctl_reply {
	long status;
	char *text;
	yyjson_doc *doc;
};

/* One request; body NULL: none. Failures to connect and error answers are printed by
 * ctl_error(). True: the daemon answered 200 with JSON. Free with ctl_reply_free() always. */
bool ctl_request(const struct ctl *c, const char *method, const char *path, const void *body, size_t len, struct ctl_reply *out);
void ctl_reply_free(struct ctl_reply *r);
/* PATH?KEY=VALUE with VALUE escaped; free() it. NULL: no memory. */
char *ctl_url(const char *path, const char *key, const char *value);

/* Says what went wrong: on stderr, or as JSON on stdout with -j. Returns code. */
int ctl_error(const struct ctl *c, int code, const char *name, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* The common kind of command: GET path, then the JSON as it is, or print(). */
int ctl_show(const struct ctl *c, const char *path, void (*print)(yyjson_val *root));
/* The common kind of change: POST path, then {"ok": true} or `done`. */
int ctl_change(const struct ctl *c, const char *path, const char *done);

enum ctl_kind {
	CTL_TEXT,    /* left-aligned; the others to the right */
	CTL_COUNT,
	CTL_REAL1, CTL_REAL3, /* decimals */
	CTL_PERCENT, /* of 0..1 */
	CTL_YESNO,
	CTL_LIST,    /* strings, or objects with one: joined by commas */
};
struct ctl_column {
	const char *title, *key;
	enum ctl_kind kind;
};
/* A table of an array of objects, columns as wide as they must be. Missing and null: "-". */
void ctl_table(yyjson_val *rows, const struct ctl_column *cols, const char *indent);
#endif
