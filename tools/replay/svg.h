/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A line chart as SVG: panels side by side, y in decades, one legend. */
#ifndef KVSTEER_REPLAY_SVG_H
#define KVSTEER_REPLAY_SVG_H
#include <stdint.h>
#include <stdio.h>

#define SVG_POINTS_MAX 64
#define SVG_LINES_MAX 12

struct svg_line {
	const char *name;
	uint32_t n;
	double x[SVG_POINTS_MAX], y[SVG_POINTS_MAX];
};

struct svg_panel {
	const char *title, *x_label, *y_label;
	double x_max, x_step;          /* from 0 */
	double y_min, y_max;           /* powers of ten */
	struct svg_line line[SVG_LINES_MAX];
	uint32_t lines;
};

/* Lines of the same number have the same colour in all panels; the names are those of the first. */
void replay_svg_write(FILE *f, const char *title, const char *note, const struct svg_panel *panel, uint32_t panels);
#endif
