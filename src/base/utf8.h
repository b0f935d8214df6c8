/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_UTF8_H
#define TENURE_BASE_UTF8_H

/* Characters of texts that people write: how wide they are shown, and which fit into a name. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at p, which ends with NUL: its bytes and *ret; 0: it is not well-formed, or the
 * end.
 */
size_t utf8_decode(const char *p, uint32_t *ret);

/* Bytes of the first len of a text without a character that is cut there. */
size_t utf8_whole(const char *text, size_t len);

/* Bytes of the character at p; 0: it is the end, not well-formed, or nothing that a terminal may
 * get: a control, or what turns the direction of others. */
size_t utf8_shown(const char *p);

/* Columns of a terminal: 0 (a mark on the one before), 1, or 2 (East Asian, emoji). */
unsigned int utf8_width(uint32_t c);
/* Of a text; a byte that is not well-formed takes one. */
size_t utf8_columns(const char *text);
/* Bytes of as many characters as fit into so many columns. */
size_t utf8_bytes_of(const char *text, size_t columns);

/*
 * Whether a text can be part of a file's name and be shown anywhere: 1 to max bytes of letters and
 * digits of any script and . _ + -, no dot or dash first. Outside ASCII that is every character but
 * controls, blanks, what is invisible or turns the direction of others, and private ones.
 */
bool utf8_is_name(const char *text, size_t max);
/* Any text as such a name: what does not fit is _, and what is too long is cut. May be empty. */
void utf8_make_name(const char *text, char *ret, size_t max);

/*
 * What others wrote (the name of a process, a file of another node) as one line that can go to a
 * terminal or into JSON: controls, what turns the direction of others and bytes that are not
 * well-formed become ?, line ends and tabs blanks. In place, never longer. Returns text.
 */
char *utf8_clean(char *text);

#endif
