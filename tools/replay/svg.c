/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "replay/svg.h"

#include <math.h>

#define PANEL_W 420.0
#define PANEL_H 300.0
#define LEFT 70.0
#define TOP 70.0
#define GAP 90.0
#define LEGEND_ROW 20.0

/* Okabe and Ito's colours, told apart also by those who see fewer, and dashes for the second round. */
static const char *const colours[] = { "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000" };
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

static double left_of(uint32_t k)
{
	return LEFT + k * (PANEL_W + GAP);
}

static double x_of(const struct svg_panel *p, uint32_t k, double x)
{
	return left_of(k) + PANEL_W * x / p->x_max;
}

static double y_of(const struct svg_panel *p, double y)
{
	double low = log10(p->y_min), high = log10(p->y_max);

	y = log10(fmin(fmax(y, p->y_min), p->y_max));
	return TOP + PANEL_H * (high - y) / (high - low);
}

static void text(FILE *f, double x, double y, const char *anchor, const char *extra, const char *what)
{
	fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>%s</text>\n", x, y, anchor, extra, what);
}

static void axes(FILE *f, const struct svg_panel *p, uint32_t k)
{
	char label[32], turned[64];
	double y, x, left = left_of(k);

	for (y = p->y_min; y < p->y_max * 1.001; y *= 10) {
		fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ccc\"/>\n", left, y_of(p, y),
			left + PANEL_W, y_of(p, y));
		snprintf(label, sizeof(label), "%g", y);
		text(f, left - 8, y_of(p, y) + 4, "end", "", label);
		for (int m = 2; m < 10 && y * m < p->y_max; m++)
			fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#eee\"/>\n", left,
				y_of(p, y * m), left + PANEL_W, y_of(p, y * m));
	}
	for (x = 0; x <= p->x_max * 1.001; x += p->x_step) {
		fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#888\"/>\n", x_of(p, k, x),
			TOP + PANEL_H, x_of(p, k, x), TOP + PANEL_H + 5);
		snprintf(label, sizeof(label), "%g", x);
		text(f, x_of(p, k, x), TOP + PANEL_H + 20, "middle", "", label);
	}
	fprintf(f, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#888\"/>\n", left, TOP,
		PANEL_W, PANEL_H);
	text(f, left + PANEL_W / 2, TOP - 12, "middle", " font-weight=\"bold\"", p->title);
	text(f, left + PANEL_W / 2, TOP + PANEL_H + 40, "middle", "", p->x_label);
	snprintf(turned, sizeof(turned), " transform=\"rotate(-90 %.1f %.1f)\"", left - 50, TOP + PANEL_H / 2);
	text(f, left - 50, TOP + PANEL_H / 2, "middle", turned, p->y_label);
}

static void stroke(FILE *f, uint32_t i)
{
	fprintf(f, "fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s", colours[i % COLOURS],
		i >= COLOURS ? " stroke-dasharray=\"6 3\"" : "");
}

static void draw(FILE *f, const struct svg_panel *p, uint32_t k, uint32_t i)
{
	const struct svg_line *l = &p->line[i];

	fprintf(f, "<polyline ");
	stroke(f, i);
	fprintf(f, " points=\"");
	for (uint32_t n = 0; n < l->n; n++)
		fprintf(f, "%s%.1f,%.1f", n ? " " : "", x_of(p, k, l->x[n]), y_of(p, l->y[n]));
	fprintf(f, "\"><title>%s</title></polyline>\n", l->name);
	for (uint32_t n = 0; n < l->n; n++)
		fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", x_of(p, k, l->x[n]), y_of(p, l->y[n]),
			colours[i % COLOURS]);
}

void replay_svg_write(FILE *f, const char *title, const char *note, const struct svg_panel *panel, uint32_t panels)
{
	double width = LEFT + panels * PANEL_W + (panels - 1) * GAP + 20;
	uint32_t lines = panel[0].lines, columns = 4;
	double legend = TOP + PANEL_H + 65, height = legend + ((lines + columns - 1) / columns) * LEGEND_ROW + 30;

	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		width, height, width, height);
	text(f, width / 2, 26, "middle", " font-size=\"16\" font-weight=\"bold\"", title);
	for (uint32_t k = 0; k < panels; k++) {
		axes(f, &panel[k], k);
		for (uint32_t i = 0; i < panel[k].lines; i++)
			draw(f, &panel[k], k, i);
	}
	for (uint32_t i = 0; i < lines; i++) {
		double x = LEFT + (i % columns) * (width - LEFT) / columns, y = legend + (i / columns) * LEGEND_ROW;

		fprintf(f, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" ", x, y - 4, x + 28, y - 4);
		stroke(f, i);
		fprintf(f, "/>\n");
		text(f, x + 34, y, "start", "", panel[0].line[i].name);
	}
	text(f, LEFT, height - 10, "start", " fill=\"#555\" font-size=\"11\"", note);
	fprintf(f, "</svg>\n");
}
