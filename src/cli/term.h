/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TERM_H
#define TENURE_CLI_TERM_H

/*
 * What the terminal can do. Colour only where the descriptor is a terminal that is not "dumb", and
 * never when NO_COLOR is set to something.
 *
 * A stream in memory has no descriptor: fileno() of it is -1, which here is standard output, where
 * such a page goes (cli/screen.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum term_style { TERM_BOLD, TERM_DIM, TERM_RED, TERM_GREEN, TERM_YELLOW, TERM_STYLE_MAX };

bool term_has_colour(int fd);
/* The sequence that turns a style on (or everything off), "" without colour. Static text. */
const char *term_on(int fd, enum term_style style);
const char *term_off(int fd);
/* It is a terminal that TERM_CLEAR empties. */
#define TERM_CLEAR "\033[H\033[J"
bool term_has_screen(int fd);
/* Columns of the terminal, at least 40; $COLUMNS or 80 where it is none. */
size_t term_width(int fd);
/* Lines of the terminal; 0 where it is none, or does not say. */
size_t term_lines(int fd);
/* Columns for what is cut or wrapped only for eyes: SIZE_MAX where it is no terminal,
 * unless $COLUMNS is exported for standard output: errors are lines that programs look for. */
size_t term_columns(int fd);
/*
 * A page on standard output that is drawn over what was drawn there before, where
 * term_has_screen(); what does not fit is left out at its end, and said. "" leaves nothing of it. A
 * terminal that is stopped (Ctrl-S) is not waited for: the next page has it.
 */
struct term_page {
	size_t lines; /* of the last one */
};
void term_page_draw(struct term_page *p, const char *text);
/*
 * The words of text and a newline, wrapped on a terminal and indented to the column `indent`, where
 * the cursor is.
 */
void term_print_wrapped(FILE *out, const char *text, size_t indent);

#endif
