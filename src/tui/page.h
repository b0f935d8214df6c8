/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TUI_PAGE_H
#define TENURE_TUI_PAGE_H

/* A text in place of the frame, which its reader can move in: what a command has printed, or all
 * that is known of a thing. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "tui/canvas.h"

/* Zeroed: none. */
struct page {
	struct strbuf text; /* "": none */
	size_t top;	    /* the first line of it that is shown */
	/* Of the last drawing. */
	size_t lines, room;
};

void page_draw(struct page *p, struct canvas *c);
/* By so many lines, and to its ends; false: it is all there to see, and does not move. */
bool page_move(struct page *p, long by);
/* None any more. */
void page_close(struct page *p);

/* Members of an object, a line each: what is null or empty is left out. */
void page_add_members(struct page *p, const json_t *object);

#endif
