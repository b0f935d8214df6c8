/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TUI_CANVAS_H
#define TENURE_TUI_CANVAS_H

/*
 * A frame as cells: what is drawn goes there, and from there to a terminal or, as text, anywhere.
 * Nothing that a terminal takes for a command gets into a cell. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What a cell means; what colour that is, is the screen's business. */
enum ink {
	INK_PLAIN,
	INK_DIM,
	INK_BOLD,
	INK_HEAD,    /* the heading of a part */
	INK_HELD,    /* ours, and given back to whoever comes */
	INK_TASK,    /* a task of ours */
	INK_FOREIGN, /* somebody else */
	INK_GOOD,
	INK_WARN,
	INK_BAD,
	INK_CHOSEN, /* the row that keys are about */
	INK_MAX
};

#define CELL_MAX 16 /* bytes of a character with its marks */

struct cell {
	char text[CELL_MAX]; /* "": the second column of a wide character */
	unsigned char ink;
};

struct canvas {
	size_t width, height;
	bool ascii;	    /* where it goes no other characters are shown: they become ? */
	struct cell *cells; /* by rows */
};

/* All blank. */
struct canvas *canvas_new(size_t width, size_t height);
struct canvas *canvas_free(struct canvas *c);
struct cell *canvas_at(const struct canvas *c, size_t x, size_t y);

/*
 * Writes a text from there, in `columns` columns at most, cut with "~" where it is longer. Returns
 * the column behind it. Outside of the canvas nothing is written.
 */
size_t canvas_put(struct canvas *c, size_t x, size_t y, enum ink ink, const char *text,
		  size_t columns);
/* The same with a format, and to the end of the row. */
size_t canvas_print(struct canvas *c, size_t x, size_t y, enum ink ink, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* So that it ends before column x + columns. */
void canvas_right(struct canvas *c, size_t x, size_t y, enum ink ink, const char *text,
		  size_t columns);
/* Columns from x on get another ink. */
void canvas_tint(struct canvas *c, size_t x, size_t y, size_t columns, enum ink ink);

/* As lines of text without blanks at their ends. */
void canvas_write(const struct canvas *c, FILE *out);

#endif
