/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TUI_SCREEN_H
#define TENURE_TUI_SCREEN_H

/* A canvas on the terminal, by ncurses, which sends only what has changed. One at a time. */

#include <stdbool.h>

#include "base/err.h"
#include "tui/canvas.h"

/* Takes the terminal over. 0, or negative: it is none that ncurses knows. */
int screen_open(struct err *e);
/* The terminal as it was; also for a while, before a command of its own runs there. */
void screen_close(void);
void screen_resume(void);
/* While it is closed: what is typed is not shown, and comes by screen_lent_key(), which waits so
 * long: a byte, Ctrl-C too, KEY_OTHER_ for a key of several, or KEY_NONE_. */
void screen_lend(void);
int screen_lent_key(int timeout_ms);

/* As many as the terminal has now. */
void screen_size(size_t *ret_width, size_t *ret_height);
void screen_show(const struct canvas *c);

enum screen_key {
	KEY_NONE_ = -1,	    /* there is none now */
	KEY_INTERRUPT_ = 3, /* Ctrl-C; of screen_lent_key() alone */
	KEY_CLEAR_ = 21,    /* Ctrl-U: what was typed */
	KEY_ESCAPE_ = 27,
	KEY_UP_ = 0x10000,
	KEY_DOWN_,
	KEY_PAGE_UP_,
	KEY_PAGE_DOWN_,
	KEY_HOME_,
	KEY_END_,
	KEY_BACKSPACE_,
	KEY_BACK_TAB_,
	KEY_REDRAW_,
	KEY_PASTE_BEGIN_, /* what comes before the end was pasted, and not typed */
	KEY_PASTE_END_,
	KEY_CLICK_, /* screen_click() */
	KEY_WHEEL_UP_,
	KEY_WHEEL_DOWN_,
	KEY_OTHER_,
};

/* The next key: one of the above, or a character, which function keys are, too, as other programs
 * of this kind have them (F1 help, F10 end). A change of size is none. Does not wait. */
int screen_key(void);
/* Where the last click was. */
void screen_click(size_t *ret_x, size_t *ret_y);

#endif
