/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_SPAWN_H
#define TENURE_BASE_SPAWN_H

/*
 * Start a program that gets nothing of what is open here but what it is to have.
 *
 * To close a file on a network filesystem may take as long as its server does not answer, and what
 * is closed at exec is closed within it: a child that hangs there can neither be used nor ended,
 * and who looks at it in /proc may wait as well. So the child takes no copy of such descriptors in
 * the first place, where the kernel can do that (close_range() with CLOSE_RANGE_UNSHARE,
 * Linux 5.9). What the child is to have lies below all others for that: spawn_reserve() takes the
 * first 64 numbers, as /dev/null, unless there are few of them.
 */

#include <stdbool.h>
#include <sys/types.h>

#define SPAWN_FDS 4

struct spawn {
	int program; /* open, for reading or by O_PATH; stays the caller's */
	/* Instead of program, for what may be a script, whose interpreter opens it by its name.
	 * Where that lies may hang, so the child is a copy that waits alone. */
	const char *path;
	char *const *argv, *const *env;
	int fds[SPAWN_FDS]; /* as 0 to 3; -1: /dev/null, and no 3. They stay the caller's */
	bool session;	    /* one of its own */
};

/* Nothing but files and arguments: the rest is at its default. */
#define SPAWN_INIT                                                                                 \
	{                                                                                          \
		.program = -1, .fds = { -1, -1, -1, -1 }                                           \
	}

/*
 * To be called before anything is opened that may hang; 0 or -errno. Without it spawn_start() does
 * so itself.
 */
int spawn_reserve(void);

/*
 * The PID of a child that waitpid() has to be called for, or -errno. Its directory is /, its
 * signals have their default action and none is blocked; descriptors but those of fds are closed.
 * From any thread. Where its program cannot be executed -errno says why, or it ends with the exit
 * status 127 when it lies where it may hang.
 */
pid_t spawn_start(const struct spawn *s);

#endif
