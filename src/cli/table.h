/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TABLE_H
#define TENURE_CLI_TABLE_H

/*
 * Aligned columns on standard output.
 *
 *	static const struct table_column columns[] = { { "GPU", true }, { "STATE" }, { 0 } };
 *	struct table *t = table_new(columns);
 *	table_add(t, TABLE_PLAIN, "0", "held");
 *	table_print(t, stdout);
 *	t = table_free(t);
 *
 * The last column is never padded, nor is anything before an empty end of a row. Widths count UTF-8
 * characters. On a terminal that is too narrow the columns move together, those that may be dropped
 * go, those that may be cut lose the middle of long cells, and the last one, which should be the
 * one that is text, is wrapped.
 */

#include <stdbool.h>
#include <stdio.h>

#include "cli/term.h"

struct table_column {
	const char *title; /* NULL ends the columns */
	bool right;	   /* numbers */
	unsigned int
		drop;	  /* what is left out where it is too narrow, the highest first; 0: never */
	unsigned int cut; /* cut to so many characters at the least; 0: never */
};

#define TABLE_PLAIN TERM_STYLE_MAX

struct table;

struct table *table_new(const struct table_column *columns);
struct table *table_free(struct table *t);
/* One text per column (copied; NULL is shown as "-"), the whole row in a style. */
void table_add(struct table *t, enum term_style style, ...);
void table_add_cells(struct table *t, enum term_style style, const char *const *cells);
bool table_is_empty(const struct table *t);
void table_print(const struct table *t, FILE *out);

#endif
