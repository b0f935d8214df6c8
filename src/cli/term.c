/* SPDX-License-Identifier: MIT */
#include "cli/term.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

static const char *const styles[] = {
	[TERM_BOLD] = "\033[1m",   [TERM_DIM] = "\033[2m",     [TERM_RED] = "\033[31m",
	[TERM_GREEN] = "\033[32m", [TERM_YELLOW] = "\033[33m",
};
_Static_assert(ARRAY_LEN(styles) == TERM_STYLE_MAX, "every style has a sequence");

static int device_of(int fd)
{
	return fd < 0 ? STDOUT_FILENO : fd;
}

bool term_has_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && no[0]) && term && strcmp(term, "dumb") != 0 && isatty(device_of(fd));
}

const char *term_on(int fd, enum term_style style)
{
	return term_has_colour(fd) ? styles[style] : "";
}

const char *term_off(int fd)
{
	return term_has_colour(fd) ? "\033[0m" : "";
}

bool term_has_screen(int fd)
{
	const char *term = getenv("TERM");

	return term && term[0] && strcmp(term, "dumb") != 0 && isatty(fd);
}

size_t term_width(int fd)
{
	struct winsize ws;
	const char *columns = getenv("COLUMNS");
	uint64_t width = 80;

	if (ioctl(device_of(fd), TIOCGWINSZ, &ws) == 0 && ws.ws_col)
		width = ws.ws_col;
	else if (columns && str_to_u64(columns, &width) < 0)
		width = 80;
	return width < 40 ? 40 : (size_t)width;
}

size_t term_lines(int fd)
{
	struct winsize ws;

	return isatty(fd) && ioctl(fd, TIOCGWINSZ, &ws) == 0 ? ws.ws_row : 0;
}

size_t term_columns(int fd)
{
	const char *columns = getenv("COLUMNS");

	fd = device_of(fd);
	return isatty(fd) || (fd == STDOUT_FILENO && columns && columns[0]) ? term_width(fd)
									    : SIZE_MAX;
}

void term_print_wrapped(FILE *out, const char *text, size_t indent)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_add_wrapped(&b, text, indent, term_columns(fileno(out)));
	(void)fputs(strbuf_str(&b), out);
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Ctrl-S stops a terminal, and so does who marks something in some of them. */
static bool takes_output(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) != 0;
}

/* The cursor is below it, wherever somebody's typing has moved it to. */
void term_page_draw(struct term_page *p, const char *text)
{
	if (!takes_output(STDOUT_FILENO))
		return;

	const size_t height = term_lines(STDOUT_FILENO), lines = count_lines(text);
	const size_t room = height > 2 ? height - 1 : lines;
	const size_t shown = lines > room ? room - 1 : lines;
	const char *end = text;

	if (p->lines)
		(void)printf("\r\033[%zuA\033[J", p->lines);
	for (size_t i = 0; i < shown; i++)
		end = strchr(end, '\n') + 1;
	(void)fwrite(text, 1, (size_t)(end - text), stdout);
	if (shown < lines)
		(void)printf(".. %zu more lines\n", lines - shown);
	p->lines = shown + (shown < lines);
	(void)fflush(stdout);
}
