/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_SCREEN_H
#define TENURE_CLI_SCREEN_H

/*
 * What is watched: the same output again and again, until Ctrl-C. A terminal shows the last frame
 * alone, on its other screen, drawn over the one before and cut at its height; what comes out of a
 * pipe is one frame after another.
 *
 *	static const struct opt list_opts[] = { .., SCREEN_OPTS, { 0 } };
 *	if (screen_is_asked(ctx))
 *		return screen_watch(ctx, draw, &list, e);
 *
 * Signals that end the program, or stop it for a while, leave the terminal as it was found.
 */

#include "cli/cmd.h"

#define SCREEN_EVERY "2s"
#define SCREEN_OPTS  SCREEN_OPTS_PACED(SCREEN_EVERY)
#define SCREEN_OPTS_PACED(often)                                                                   \
	{ .name = "watch",                                                                         \
	  .short_name = 'w',                                                                       \
	  .spec = { VALUE_FLAG },                                                                  \
	  .help = "again and again until Ctrl-C; a terminal shows the last look alone" },          \
	{                                                                                          \
		.name = "every", .spec = { VALUE_DURATION, .min = 100 }, .arg = "DURATION",        \
		.help = "watch, and look so often (default " often ")"                             \
	}

/* What is printed on stdout is one frame; while it is drawn on a terminal that and stderr are a
 * page in memory. With --json a frame is one line. An exit code; the text of e is shown in its
 * place, and all but CMD_USAGE and CMD_DENIED may be better at the next look. */
typedef int (*screen_fn)(void *user, struct err *e);

bool screen_is_asked(const struct cmd_ctx *ctx);
/* Returns when a frame says that it is in vain, or nobody reads them. An exit code or negative. */
int screen_watch(const struct cmd_ctx *ctx, screen_fn draw, void *user, struct err *e);
/* The same with a pause in ms of its own behind each frame, unless --every says another. */
int screen_watch_paced(const struct cmd_ctx *ctx, screen_fn draw, uint64_t (*pace)(void *user),
		       void *user, struct err *e);
/* Lines that a frame has there; 0: it is on no terminal, and may be as long as it likes. */
size_t screen_lines(const struct cmd_ctx *ctx);

#endif
