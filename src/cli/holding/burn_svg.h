/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_BURN_SVG_H
#define TENURE_CLI_HOLDING_BURN_SVG_H

/*
 * A picture of a burn: a panel for each quantity with an axis of its own, a line for each device,
 * light or dark as whoever looks at it has it. It has no scripts, and loads nothing.
 */

#include <stddef.h>

#include "agent/burn/curve.h"
#include "base/err.h"
#include "base/strbuf.h"

struct burn_svg_line {
	const char *name; /* in the legend */
	const struct burn_curve *curve;
};

/* title: one line. */
void burn_svg_draw(const char *title, const struct burn_svg_line *lines, size_t n,
		   struct strbuf *out);
/* The same as a file. 0, or a negative errno with e. */
int burn_svg_write(const char *title, const struct burn_svg_line *lines, size_t n, const char *path,
		   struct err *e);

#endif
