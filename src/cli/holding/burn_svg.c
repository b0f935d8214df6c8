/* SPDX-License-Identifier: MIT */
#include "cli/holding/burn_svg.h"

#include <math.h>
#include <stdbool.h>

#include "base/fs.h"
#include "base/mem.h"

#define WIDTH	     900
#define LEFT	     64 /* of what is drawn in */
#define RIGHT	     876
#define TOP	     64	 /* of the first panel */
#define PANEL	     150 /* height of what is drawn in */
#define PANEL_STEP   196 /* from one to the next */
#define TICKS	     5	 /* about so many on an axis */
#define COLOURS	     8	 /* then they come again, dashed */
#define LEGEND_MAX   24
#define LEGEND_WIDTH 203 /* of an entry: four in a row */
#define LEGEND_ROW   20
#define GAP	     4 /* periods without a figure, over which no line is drawn */

static const struct panel {
	const char *title, *unit;
	uint32_t known;
	size_t at; /* of struct burn_sample */
	bool from_0;
} panels[] = {
	{ "Power", "W", SAMPLE_POWER, offsetof(struct burn_sample, power_w), true },
	{ "Clock of the multiprocessors", "MHz", SAMPLE_CLOCK,
	  offsetof(struct burn_sample, clock_mhz), false },
	{ "Temperature",
	  "\xc2\xb0"
	  "C",
	  SAMPLE_TEMP, offsetof(struct burn_sample, temp_c), false },
	{ "Utilisation", "%", SAMPLE_UTIL, offsetof(struct burn_sample, util), true },
	{ "Products, while they were computed", "TFLOP/s", SAMPLE_TFLOPS,
	  offsetof(struct burn_sample, tflops), true },
	{ "Memory, while it was tested", "GB/s", SAMPLE_MEMORY,
	  offsetof(struct burn_sample, gb_per_s), true },
};

/* An axis: its ends are at ticks. */
struct axis {
	double from, to, step;
};

struct drawing {
	const struct burn_svg_line *lines;
	size_t n;
	struct axis time; /* in units of time_ms */
	double time_ms;
	const char *time_unit;
	struct strbuf *out;
};

/* -------- axes -------- */

/* 1, 2 or 5 times a power of ten. */
static double nice_step(double range)
{
	const double raw = range / TICKS, power = pow(10, floor(log10(raw)));
	const double rest = raw / power;

	return power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
}

static struct axis make_axis(double least, double most)
{
	struct axis a;

	if (!(most > least)) { /* one value, or none */
		least = least > 1 ? least - 1 : 0;
		most = least + 2;
	}
	a.step = nice_step(most - least);
	a.from = floor(least / a.step) * a.step;
	a.to = ceil(most / a.step) * a.step;
	return a;
}

static double value_of(const struct panel *p, const struct burn_sample *s)
{
	return (double)*(const float *)((const char *)s + p->at);
}

/* False: nothing is known of it. */
static bool find_range(const struct drawing *d, const struct panel *p, struct axis *ret)
{
	double least = INFINITY, most = -INFINITY;

	for (size_t i = 0; i < d->n; i++)
		for (uint32_t k = 0; k < d->lines[i].curve->n; k++) {
			const struct burn_sample *s = &d->lines[i].curve->s[k];

			if (!(s->known & p->known))
				continue;
			least = fmin(least, value_of(p, s));
			most = fmax(most, value_of(p, s));
		}
	if (most < least)
		return false;
	*ret = make_axis(p->from_0 ? 0 : least, most);
	return true;
}

static void find_time(struct drawing *d)
{
	static const struct {
		double ms, up_to_ms;
		const char *unit;
	} units[] = { { 1e3, 300e3, "s" }, { 60e3, 3 * 3600e3, "min" }, { 3600e3, INFINITY, "h" } };
	double end = 1000;
	size_t u = 0;

	for (size_t i = 0; i < d->n; i++)
		if (d->lines[i].curve->n)
			end = fmax(end, d->lines[i].curve->s[d->lines[i].curve->n - 1].at_ms);
	while (end > units[u].up_to_ms)
		u++;
	d->time_ms = units[u].ms;
	d->time_unit = units[u].unit;
	d->time = make_axis(0, end / d->time_ms);
	d->time.to = end / d->time_ms; /* no empty end */
}

static double x_of(const struct drawing *d, double time)
{
	return LEFT + (RIGHT - LEFT) * time / d->time.to;
}

static double y_of(const struct axis *a, double top, double value)
{
	return top + PANEL * (a->to - value) / (a->to - a->from);
}

/* -------- what is drawn -------- */

static void add_style(struct strbuf *out)
{
	/* Eight hues that are told apart, also by who sees fewer colours, on white and on black. */
	static const char *const light[COLOURS] = { "#0072b2", "#d55e00", "#009e73", "#b0307f",
						    "#8a6d00", "#4b3fa8", "#6b6b6b", "#a01c1c" };
	static const char *const dark[COLOURS] = { "#56b4e9", "#ff9a4d", "#3fd0a4", "#e58ac0",
						   "#e0c341", "#a79bff", "#b5b5b5", "#ff7b72" };

	strbuf_adds(out, "<style>\n"
			 "svg { background: #ffffff; color-scheme: light dark }\n"
			 "text { font: 12px system-ui, sans-serif; fill: #3c4148 }\n"
			 ".title { font-size: 16px; font-weight: 600; fill: #14171a }\n"
			 ".name { font-weight: 600; fill: #14171a }\n"
			 ".grid { stroke: #dfe3e8; stroke-width: 1 }\n"
			 ".axis { stroke: #8b949e; stroke-width: 1 }\n"
			 ".line { fill: none; stroke-width: 1.6; stroke-linejoin: round; "
			 "stroke-linecap: round }\n"
			 ".again { stroke-dasharray: 5 3 }\n");
	for (size_t i = 0; i < COLOURS; i++)
		strbuf_addf(out, ".c%zu { stroke: %s }\n", i, light[i]);
	strbuf_adds(out, "@media (prefers-color-scheme: dark) {\n"
			 "svg { background: #0d1117 }\n"
			 "text { fill: #b1bac4 }\n"
			 ".title, .name { fill: #f0f3f6 }\n"
			 ".grid { stroke: #2a313a }\n"
			 ".axis { stroke: #6e7681 }\n");
	for (size_t i = 0; i < COLOURS; i++)
		strbuf_addf(out, ".c%zu { stroke: %s }\n", i, dark[i]);
	strbuf_adds(out, "}\n</style>\n");
}

static void add_class(struct strbuf *out, size_t line)
{
	strbuf_addf(out, "class=\"line c%zu%s\"", line % COLOURS,
		    line / COLOURS % 2 ? " again" : "");
}

static void add_grid(const struct drawing *d, const struct panel *p, const struct axis *a,
		     double top)
{
	const double bottom = top + PANEL;

	strbuf_addf(d->out, "<text class=\"name\" x=\"%d\" y=\"%.0f\">%s, %s</text>\n", LEFT,
		    top - 10, p->title, p->unit);
	for (double v = a->from; v <= a->to + a->step / 2; v += a->step) {
		const double y = y_of(a, top, v);

		strbuf_addf(d->out,
			    "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
			    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
			    LEFT, y, RIGHT, y, LEFT - 8, y + 4, v);
	}
	for (double t = 0; t <= d->time.to + d->time.step / 100; t += d->time.step) {
		const double x = x_of(d, t);

		strbuf_addf(d->out,
			    "<line class=\"axis\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
			    "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g%s%s</text>\n",
			    x, bottom, x, bottom + 5, x, bottom + 18, t, t > 0 ? "" : " ",
			    t > 0 ? "" : d->time_unit);
	}
	strbuf_addf(d->out, "<line class=\"axis\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n",
		    LEFT, bottom, RIGHT, bottom);
}

/* A line ends where nothing was known for some time. */
static void add_line(const struct drawing *d, const struct panel *p, const struct axis *a,
		     double top, size_t i)
{
	const struct burn_curve *c = d->lines[i].curve;
	const double gap_ms = (double)GAP * c->period_ms;
	double last_ms = -INFINITY;
	bool any = false;

	for (uint32_t k = 0; k < c->n; k++) {
		const struct burn_sample *s = &c->s[k];

		if (!(s->known & p->known))
			continue;
		if (!any) {
			strbuf_adds(d->out, "<path ");
			add_class(d->out, i);
			strbuf_adds(d->out, " d=\"");
		}
		strbuf_addf(d->out, "%c%.1f %.1f", s->at_ms - last_ms > gap_ms ? 'M' : 'L',
			    x_of(d, s->at_ms / d->time_ms), y_of(a, top, value_of(p, s)));
		/* A point alone is seen as one. */
		if (s->at_ms - last_ms > gap_ms)
			strbuf_adds(d->out, "h0.1");
		last_ms = s->at_ms;
		any = true;
	}
	if (any)
		strbuf_adds(d->out, "\"/>\n");
}

static void add_legend(const struct drawing *d, double top)
{
	const size_t shown = d->n > LEGEND_MAX ? LEGEND_MAX : d->n;

	for (size_t i = 0; i < shown; i++) {
		const double x = LEFT + (double)(i % 4) * LEGEND_WIDTH;
		const double y = top + (double)(i / 4) * LEGEND_ROW;

		strbuf_adds(d->out, "<path ");
		add_class(d->out, i);
		strbuf_addf(d->out, " d=\"M%.0f %.0fh22\"/><text x=\"%.0f\" y=\"%.0f\">", x, y,
			    x + 28, y + 4);
		strbuf_add_xml(d->out, d->lines[i].name);
		strbuf_adds(d->out, "</text>\n");
	}
	if (shown < d->n)
		strbuf_addf(d->out, "<text x=\"%d\" y=\"%.0f\">and %zu more</text>\n", LEFT,
			    top + (double)((shown + 3) / 4) * LEGEND_ROW + 4, d->n - shown);
}

static double legend_height(size_t n)
{
	const size_t shown = n > LEGEND_MAX ? LEGEND_MAX : n;

	return (double)((shown + 3) / 4 + (shown < n)) * LEGEND_ROW;
}

void burn_svg_draw(const char *title, const struct burn_svg_line *lines, size_t n,
		   struct strbuf *out)
{
	struct drawing d = { .lines = lines, .n = n, .out = out };
	struct axis axes[ARRAY_LEN(panels)];
	bool known[ARRAY_LEN(panels)];
	size_t shown = 0;
	double top = TOP, height;

	find_time(&d);
	for (size_t i = 0; i < ARRAY_LEN(panels); i++)
		shown += known[i] = find_range(&d, &panels[i], &axes[i]);
	height = TOP + (double)shown * PANEL_STEP + legend_height(n) + 12;
	strbuf_addf(out,
		    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		    "viewBox=\"0 0 %d %.0f\" role=\"img\">\n<title>",
		    WIDTH, height, WIDTH, height);
	strbuf_add_xml(out, title);
	strbuf_adds(out, "</title>\n");
	add_style(out);
	strbuf_addf(out, "<text class=\"title\" x=\"%d\" y=\"26\">", LEFT);
	strbuf_add_xml(out, title);
	strbuf_adds(out, "</text>\n");
	for (size_t i = 0; i < ARRAY_LEN(panels); i++) {
		if (!known[i])
			continue;
		add_grid(&d, &panels[i], &axes[i], top);
		for (size_t k = 0; k < n; k++)
			add_line(&d, &panels[i], &axes[i], top, k);
		top += PANEL_STEP;
	}
	add_legend(&d, top);
	strbuf_adds(out, "</svg>\n");
}

int burn_svg_write(const char *title, const struct burn_svg_line *lines, size_t n, const char *path,
		   struct err *e)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT;

	burn_svg_draw(title, lines, n, &out);
	return fs_write_report(path, out.data, out.len, 0644, e);
}
