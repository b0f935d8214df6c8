/* SPDX-License-Identifier: MIT */

/*
 * A frame is written in one piece: each line of it ends with "clear to the end of the line", and
 * the last one with "clear what is below", so nothing is blank for a moment. Lines are not wrapped
 * by the terminal meanwhile, or a frame could be higher than it was counted. Only what is constant
 * is written by the signals' handlers, so they need to know nothing.
 */
#include "cli/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cli/term.h"

/* The other screen, without a cursor and without wrapping, and back. */
#define ENTER	 "\033[?1049h\033[?25l\033[?7l"
#define LEAVE	 "\033[?7h\033[?25h\033[?1049l"
#define HOME	 "\033[H"
#define END_LINE "\033[K"
#define END_PAGE "\033[J"

#define USUAL_LINES 24

static void to_terminal(const char *text, size_t len)
{
	int saved = errno;

	(void)!write(STDOUT_FILENO, text, len);
	errno = saved;
}

/* For a key that interrupts the terminal's driver first signals and then drops what is being
 * written: that would be LEAVE, where we are quick. It drops nothing while keeps is set, which is
 * only where it did before. */
static bool keeps;

/* In the background the terminal is not ours. */
static bool has_terminal(void)
{
	return tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

static void keep_output(void)
{
	struct termios t;

	if (!has_terminal() || tcgetattr(STDOUT_FILENO, &t) < 0 || t.c_lflag & NOFLSH)
		return;
	t.c_lflag |= NOFLSH;
	keeps = true; /* first: a signal may come in between */
	keeps = tcsetattr(STDOUT_FILENO, TCSANOW, &t) == 0;
}

static void drop_output(void)
{
	struct termios t;

	if (keeps && has_terminal() && tcgetattr(STDOUT_FILENO, &t) == 0) {
		t.c_lflag &= ~(tcflag_t)NOFLSH;
		(void)tcsetattr(STDOUT_FILENO, TCSANOW, &t);
	}
	keeps = false;
}

static void leave(void)
{
	int saved = errno;

	to_terminal(LEAVE, strlen(LEAVE));
	drop_output();
	errno = saved;
}

/* With a key it would have dropped what was typed, too, which is for nobody. */
static void leave_for(int sig)
{
	int saved = errno;

	if (keeps && has_terminal() && (sig == SIGINT || sig == SIGQUIT || sig == SIGTSTP))
		(void)tcflush(STDOUT_FILENO, TCIFLUSH);
	errno = saved;
	leave();
}

static void on_end(int sig)
{
	leave_for(sig);
	(void)raise(sig); /* again, now as if there were no handler (SA_RESETHAND) */
}

static void on_stop(int sig)
{
	int saved = errno;

	leave_for(sig);
	(void)raise(SIGSTOP);
	keep_output();
	to_terminal(ENTER, strlen(ENTER));
	errno = saved;
}

/* It ends a pause, that is all. */
static void on_change(int sig)
{
}

static void handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction a = { .sa_handler = fn, .sa_flags = SA_RESTART | flags }, was;

	/* What nohup ignores stays ignored. */
	if (sigaction(sig, NULL, &was) == 0 && was.sa_handler == SIG_IGN)
		return;
	(void)sigemptyset(&a.sa_mask);
	(void)sigaction(sig, &a, NULL);
}

/* What changes the terminal comes only in a pause, and ends it. ret_mask: of the pauses. */
static void enter(sigset_t *ret_mask)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t changes;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		handle(ends[i], on_end, (int)SA_RESETHAND);
	handle(SIGTSTP, on_stop, 0);
	handle(SIGWINCH, on_change, 0);
	handle(SIGCONT, on_change, 0);
	(void)sigemptyset(&changes);
	(void)sigaddset(&changes, SIGWINCH);
	(void)sigaddset(&changes, SIGCONT);
	(void)sigprocmask(SIG_BLOCK, &changes, ret_mask);
	keep_output();
	to_terminal(ENTER, strlen(ENTER));
}

static void pause_for(uint64_t ms, const sigset_t *mask)
{
	struct timespec t = clock_timespec(ms * NS_PER_MS);

	(void)ppoll(NULL, 0, &t, mask);
}

/* A frame on a page in memory: the streams are variables, and what draws knows only them. */
static int draw_page(screen_fn draw, void *user, char **ret, struct err *e)
{
	FILE *out = stdout, *err = stderr, *page;
	size_t size;
	int r;

	page = open_memstream(ret, &size);
	if (!page)
		return err_set(e, -errno, "no memory for the screen");
	stdout = stderr = page;
	r = draw(user, e);
	stdout = out;
	stderr = err;
	(void)fclose(page);
	return r;
}

static void add_line(struct strbuf *b, const char *text, size_t len)
{
	strbuf_addf(b, "%.*s" END_LINE, (int)len, text);
}

/* Without the title. A terminal that does not tell has as many as they have. */
static size_t page_lines(void)
{
	size_t lines = term_lines(STDOUT_FILENO);

	lines = lines ? lines : USUAL_LINES;
	return lines > 2 ? lines - 1 : 2;
}

/* "default: tenure list --watch, every 2s" and what of the page there is room for. */
static void lay_out(const char *title, const char *page, struct strbuf *b)
{
	size_t room = page_lines(), left = 0;

	for (const char *p = page; *p; p += strcspn(p, "\n"), p += *p == '\n')
		left++;
	strbuf_adds(b, HOME);
	add_line(b, title, strlen(title));
	for (size_t n = left; *page && room > 0; room--, n--) {
		size_t len = strcspn(page, "\n");

		strbuf_adds(b, "\r\n");
		if (room == 1 && n > 1) {
			strbuf_addf(b, "%s.. %zu more lines%s" END_LINE,
				    term_on(STDOUT_FILENO, TERM_DIM), n, term_off(STDOUT_FILENO));
			break;
		}
		add_line(b, page, len);
		page += len + (page[len] == '\n');
	}
	strbuf_adds(b, END_PAGE);
}

static bool is_in_vain(int code)
{
	return code == CMD_USAGE || code == CMD_DENIED || code == -EPERM;
}

/* --every, or the frames' own pace. */
static uint64_t pause_of(const struct cmd_ctx *ctx, uint64_t (*pace)(void *user), void *user)
{
	const struct value *every = opts_value(ctx->opts, "every");
	uint64_t ms = 0;

	if (every)
		return every->num;
	if (pace)
		return pace(user);
	(void)unit_parse_duration(SCREEN_EVERY, &ms, NULL);
	return ms;
}

static int show_page(const struct cmd_ctx *ctx, screen_fn draw, uint64_t (*pace)(void *user),
		     void *user, struct err *e)
{
	cleanup_strbuf struct strbuf frame = STRBUF_INIT, page = STRBUF_INIT;
	cleanup_free char *text = NULL, *title = NULL;
	struct err why = ERR_INIT;
	char now[CLOCK_TEXT_MAX], every[UNIT_TEXT_MAX];
	int r = draw_page(draw, user, &text, &why);

	if (is_in_vain(r) || !text) {
		*e = why;
		return r;
	}
	strbuf_adds(&page, text);
	if (r != CMD_OK)
		strbuf_addf(&page, "%s%s\n", text[0] ? "\n" : "", utf8_clean(why.text));
	title = xasprintf("%stenure %s, every %s, %s (Ctrl-C ends it)%s",
			  term_on(STDOUT_FILENO, TERM_DIM), ctx->cmd->name,
			  unit_format_duration_exact(pause_of(ctx, pace, user), every),
			  clock_format_local(clock_wall_ns(), now), term_off(STDOUT_FILENO));
	lay_out(title, strbuf_str(&page), &frame);
	r = fs_write_all(STDOUT_FILENO, frame.data, frame.len);
	return r < 0 ? err_set(e, r, "cannot write to the terminal: %s", strerror(-r)) : CMD_OK;
}

static int print_frame(screen_fn draw, void *user, bool apart, struct err *e)
{
	struct err why = ERR_INIT;
	int r;

	if (apart)
		(void)putchar('\n');
	r = draw(user, &why);
	if (is_in_vain(r)) {
		*e = why;
		return r;
	}
	if (r != CMD_OK)
		(void)cmd_fail(r, why.text);
	return fs_flush_stdout(e);
}

bool screen_is_asked(const struct cmd_ctx *ctx)
{
	return opts_flag(ctx->opts, "watch") || opts_given(ctx->opts, "every");
}

size_t screen_lines(const struct cmd_ctx *ctx)
{
	bool screen = term_has_screen(STDOUT_FILENO) && !opts_flag(ctx->opts, "json");

	return screen && screen_is_asked(ctx) ? page_lines() : 0;
}

int screen_watch_paced(const struct cmd_ctx *ctx, screen_fn draw, uint64_t (*pace)(void *user),
		       void *user, struct err *e)
{
	bool json = opts_flag(ctx->opts, "json");
	bool screen = term_has_screen(STDOUT_FILENO) && !json;
	sigset_t mask;
	int r;

	(void)sigprocmask(SIG_SETMASK, NULL, &mask);
	(void)fflush(stdout);
	if (screen)
		enter(&mask);
	for (bool first = true;; first = false) {
		r = screen ? show_page(ctx, draw, pace, user, e)
			   : print_frame(draw, user, !first && !json, e);
		if (r != CMD_OK)
			break;
		pause_for(pause_of(ctx, pace, user), &mask);
	}
	if (screen)
		leave();
	return r;
}

int screen_watch(const struct cmd_ctx *ctx, screen_fn draw, void *user, struct err *e)
{
	return screen_watch_paced(ctx, draw, NULL, user, e);
}
