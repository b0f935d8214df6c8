/* SPDX-License-Identifier: MIT */
#include "tui/screen.h"

#include <errno.h>
#include <ncurses.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"

/* What is pasted comes between two keys of its own (xterm's DEC mode 2004; others ignore it). */
#define PASTE_ON    "\033[?2004h"
#define PASTE_OFF   "\033[?2004l"
#define PASTE_BEGIN KEY_F(62)
#define PASTE_END   KEY_F(63)

#define ESCAPE_MS 50 /* behind Esc comes more by then, or it was one */

static size_t click_x, click_y;
static attr_t attrs[INK_MAX];

/* What each ink is: by colours, of 256 or of 8, and without any. */
static const struct look {
	short many, few; /* -1: the terminal's own */
	attr_t with, without;
} looks[INK_MAX] = {
	[INK_PLAIN] = { -1, -1, A_NORMAL, A_NORMAL },
	[INK_DIM] = { 245, -1, A_NORMAL, A_DIM },
	[INK_BOLD] = { -1, -1, A_BOLD, A_BOLD },
	[INK_HEAD] = { -1, -1, A_REVERSE, A_REVERSE },
	[INK_HELD] = { 34, COLOR_GREEN, A_NORMAL, A_NORMAL },
	[INK_TASK] = { 39, COLOR_CYAN, A_NORMAL, A_BOLD },
	[INK_FOREIGN] = { 208, COLOR_YELLOW, A_NORMAL, A_UNDERLINE },
	[INK_GOOD] = { 34, COLOR_GREEN, A_NORMAL, A_NORMAL },
	[INK_WARN] = { 214, COLOR_YELLOW, A_NORMAL, A_BOLD },
	[INK_BAD] = { 196, COLOR_RED, A_BOLD, A_BOLD },
	[INK_CHOSEN] = { -1, -1, A_REVERSE | A_BOLD, A_REVERSE | A_BOLD },
};

static void make_looks(void)
{
	bool colours = has_colors() && !getenv("NO_COLOR");

	if (colours) {
		(void)start_color();
		(void)use_default_colors();
	}
	for (short i = 0; i < INK_MAX; i++) {
		short ink = COLORS >= 256 ? looks[i].many : looks[i].few;

		attrs[i] = colours ? looks[i].with : looks[i].without;
		if (!colours || ink < 0)
			continue;
		(void)init_pair((short)(i + 1), ink, -1);
		attrs[i] |= (attr_t)COLOR_PAIR(i + 1);
	}
}

/* What keys send whose terminal is not quite the one that TERM says, as in tmux, screen, PuTTY. */
static void tell_terminal(const char *text)
{
	(void)fputs(text, stdout);
	(void)fflush(stdout);
}

static void define_more_keys(void)
{
	static const struct {
		const char *bytes;
		int key;
	} more[] = {
		{ "\033[A", KEY_UP },	      { "\033OA", KEY_UP },	 { "\033[B", KEY_DOWN },
		{ "\033OB", KEY_DOWN },	      { "\033[H", KEY_HOME },	 { "\033OH", KEY_HOME },
		{ "\033[1~", KEY_HOME },      { "\033[7~", KEY_HOME },	 { "\033[F", KEY_END },
		{ "\033OF", KEY_END },	      { "\033[4~", KEY_END },	 { "\033[8~", KEY_END },
		{ "\033[5~", KEY_PPAGE },     { "\033[6~", KEY_NPAGE },	 { "\033[Z", KEY_BTAB },
		{ "\033[200~", PASTE_BEGIN }, { "\033[201~", PASTE_END }
	};

	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		if (key_defined(more[i].bytes) == 0)
			(void)define_key(more[i].bytes, more[i].key);
}

static int no_screen(const char *what, struct err *e)
{
	const char *term = getenv("TERM");

	return err_set(e, -ENOTTY,
		       "the terminal \"%s\" (TERM) %s; tenure top --once prints one frame as text",
		       term ? term : "", what);
}

int screen_open(struct err *e)
{
	const char *move_cursor;

	if (!newterm(NULL, stdout, stdin))
		return no_screen("is not known", e);
	move_cursor = tigetstr("cup");
	if (!move_cursor || move_cursor == (const char *)-1) { /* as that of "dumb" */
		(void)endwin();
		return no_screen("has no screen to draw on", e);
	}
	make_looks();
	(void)cbreak();
	noqiflush(); /* as cli/screen.c */
	(void)noecho();
	(void)nonl();
	(void)keypad(stdscr, TRUE);
	define_more_keys();
	(void)nodelay(stdscr, TRUE);
	(void)set_escdelay(ESCAPE_MS);
	(void)curs_set(0);
	(void)mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED,
			NULL);
	(void)mouseinterval(0);
	tell_terminal(PASTE_ON);
	return 0;
}

void screen_close(void)
{
	(void)move(LINES - 1, 0); /* where what comes next is printed, if this is one screen */
	(void)clrtoeol();
	(void)refresh();
	tell_terminal(PASTE_OFF);
	(void)endwin();
}

void screen_lend(void)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t) < 0)
		return;
	t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	t.c_cc[VINTR] = _POSIX_VDISABLE;
	t.c_cc[VMIN] = 1;
	t.c_cc[VTIME] = 0;
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &t);
}

static bool next_byte(int timeout_ms, char *ret)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&p, 1, timeout_ms) > 0 && read(STDIN_FILENO, ret, 1) == 1;
}

int screen_lent_key(int timeout_ms)
{
	char c, next;

	if (!next_byte(timeout_ms, &c))
		return KEY_NONE_;
	if (c != KEY_ESCAPE_ || !next_byte(ESCAPE_MS, &next))
		return (unsigned char)c;
	if (next == '[' || next == 'O')
		while (next_byte(ESCAPE_MS, &next) && (unsigned char)next < '@')
			;
	return KEY_OTHER_;
}

void screen_resume(void)
{
	tell_terminal(PASTE_ON);
	(void)clearok(stdscr, TRUE);
	(void)refresh();
}

void screen_size(size_t *ret_width, size_t *ret_height)
{
	*ret_width = (size_t)COLS;
	*ret_height = (size_t)LINES;
}

void screen_show(const struct canvas *c)
{
	for (size_t y = 0; y < c->height; y++)
		for (size_t x = 0; x < c->width; x++) {
			const struct cell *cell = canvas_at(c, x, y);

			if (!cell->text[0])
				continue;
			(void)attrset((int)attrs[cell->ink]);
			(void)mvaddstr((int)y, (int)x, cell->text);
		}
	(void)refresh();
}

static int mouse_key(void)
{
	MEVENT m;

	if (getmouse(&m) != OK)
		return KEY_OTHER_;
	click_x = m.x < 0 ? 0 : (size_t)m.x;
	click_y = m.y < 0 ? 0 : (size_t)m.y;
	if (m.bstate & BUTTON4_PRESSED)
		return KEY_WHEEL_UP_;
	if (m.bstate & BUTTON5_PRESSED)
		return KEY_WHEEL_DOWN_;
	return KEY_CLICK_;
}

/* Behind Esc, which may be one by itself. What else comes with it is a key that nobody knows here,
 * and none of its bytes is one. */
static int escape_key(void)
{
	int key = getch();

	if (key == ERR)
		return KEY_ESCAPE_;
	if (key == '[' || key == 'O')
		do
			key = getch();
		while (key != ERR && key < '@');
	return KEY_OTHER_;
}

int screen_key(void)
{
	static const struct {
		int curses, ours;
	} keys[] = { { KEY_UP, KEY_UP_ },
		     { KEY_DOWN, KEY_DOWN_ },
		     { KEY_PPAGE, KEY_PAGE_UP_ },
		     { KEY_NPAGE, KEY_PAGE_DOWN_ },
		     { KEY_HOME, KEY_HOME_ },
		     { KEY_END, KEY_END_ },
		     { KEY_BACKSPACE, KEY_BACKSPACE_ },
		     { 127, KEY_BACKSPACE_ },
		     { '\b', KEY_BACKSPACE_ },
		     { KEY_BTAB, KEY_BACK_TAB_ },
		     { 'L' & 31, KEY_REDRAW_ },
		     { KEY_ENTER, '\r' },
		     { PASTE_BEGIN, KEY_PASTE_BEGIN_ },
		     { PASTE_END, KEY_PASTE_END_ },
		     { KEY_F(1), 'h' },
		     { KEY_F(3), '/' },
		     { KEY_F(4), '/' },
		     { KEY_F(6), 'o' },
		     { KEY_F(9), 's' },
		     { KEY_F(10), 'q' } };
	int key;

	/* What is left of the lines is the terminal's choice. Nobody has pressed anything. */
	while ((key = getch()) == KEY_RESIZE)
		(void)clearok(stdscr, TRUE);
	if (key == ERR)
		return KEY_NONE_;
	if (key == KEY_MOUSE)
		return mouse_key();
	if (key == KEY_ESCAPE_)
		return escape_key();
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i].curses == key)
			return keys[i].ours;
	return key < 256 ? key : KEY_OTHER_;
}

void screen_click(size_t *ret_x, size_t *ret_y)
{
	*ret_x = click_x;
	*ret_y = click_y;
}
