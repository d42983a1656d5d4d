/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ctl.h"

#define CTL_COLUMNS_MAX 20
#define CTL_CELL_MAX 160

static void cell_list(yyjson_val *v, char *buf, size_t len)
{
	size_t i, max, n = 0;
	yyjson_val *e;

	snprintf(buf, len, "-");
	yyjson_arr_foreach (v, i, max, e) {
		const char *s = yyjson_is_obj(e) ? yyjson_get_str(yyjson_obj_get(e, "alias")) : yyjson_get_str(e);

		if (n < len)
			n += (size_t)snprintf(buf + n, len - n, "%s%s", n ? "," : "", s ? s : "?");
	}
}

static void cell_text(yyjson_val *v, enum ctl_kind kind, char *buf, size_t len)
{
	if (!v || yyjson_is_null(v)) {
		snprintf(buf, len, "-");
		return;
	}
	switch (kind) {
	case CTL_TEXT: snprintf(buf, len, "%s", yyjson_is_str(v) ? yyjson_get_str(v) : "?"); break;
	case CTL_COUNT: snprintf(buf, len, "%llu", (unsigned long long)yyjson_get_uint(v)); break;
	case CTL_REAL1: snprintf(buf, len, "%.1f", yyjson_get_num(v)); break;
	case CTL_REAL3: snprintf(buf, len, "%.3f", yyjson_get_num(v)); break;
	case CTL_PERCENT: snprintf(buf, len, "%.1f%%", 100 * yyjson_get_num(v)); break;
	case CTL_YESNO: snprintf(buf, len, "%s", yyjson_get_bool(v) ? "yes" : "no"); break;
	case CTL_LIST: cell_list(v, buf, len); break;
	}
}

static bool kind_left(enum ctl_kind k)
{
	return k == CTL_TEXT || k == CTL_LIST;
}

static void put_cell(const char *s, int width, bool left, bool last)
{
	if (left && last)
		printf("%s", s);
	else
		printf(left ? "%-*s" : "%*s", width, s);
	fputs(last ? "\n" : "  ", stdout);
}

void ctl_table(yyjson_val *rows, const struct ctl_column *cols, const char *indent)
{
	int width[CTL_COLUMNS_MAX] = { 0 };
	char cell[CTL_CELL_MAX];
	size_t i, max, n = 0;
	yyjson_val *row;

	for (; cols[n].title && n < CTL_COLUMNS_MAX; n++)
		width[n] = (int)strlen(cols[n].title);
	yyjson_arr_foreach (rows, i, max, row)
		for (size_t k = 0; k < n; k++) {
			cell_text(yyjson_obj_get(row, cols[k].key), cols[k].kind, cell, sizeof(cell));
			if ((int)strlen(cell) > width[k])
				width[k] = (int)strlen(cell);
		}
	fputs(indent, stdout);
	for (size_t k = 0; k < n; k++)
		put_cell(cols[k].title, width[k], kind_left(cols[k].kind), k + 1 == n);
	yyjson_arr_foreach (rows, i, max, row) {
		fputs(indent, stdout);
		for (size_t k = 0; k < n; k++) {
			cell_text(yyjson_obj_get(row, cols[k].key), cols[k].kind, cell, sizeof(cell));
			put_cell(cell, width[k], kind_left(cols[k].kind), k + 1 == n);
		}
	}
}
