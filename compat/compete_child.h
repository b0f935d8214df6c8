/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_COMPETE_CHILD_H
#define TENURE_COMPAT_COMPETE_CHILD_H

/*
 * A tenure command as a child, what it prints line by line.
 *
 *	child_start(&ch, program, argv)	0 or -errno
 *	child_hear(&ch, say, user)	all lines that are there; again from time to time
 *	child_ended(&ch, &code)		and no more than that
 *	child_wait(&ch, say, user)	both, until it has ended: its exit code
 *
 * The child is in a process group of its own, so that a Ctrl-C reaches its parent alone, and gets
 * SIGTERM when that is killed. What it has started may keep the pipe open for longer: its end is
 * not waited for.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/strbuf.h"

struct child {
	pid_t pid; /* 0: none */
	int fd;
	struct strbuf part; /* of a line */
};

typedef void (*child_line_fn)(void *user, const char *line);

/* The environment is the caller's. */
int child_start(struct child *ch, const char *program, char *const *argv);
/* Whether there was any. */
bool child_hear(struct child *ch, child_line_fn fn, void *user);
bool child_ended(struct child *ch, int *ret_code);
int child_wait(struct child *ch, child_line_fn fn, void *user);

#endif
