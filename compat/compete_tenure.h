/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_COMPETE_TENURE_H
#define TENURE_COMPAT_COMPETE_TENURE_H

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

#include "base/err.h"
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

/*
 * The list of a config's compete_gpus, without those that this machine has not. wanted: "0,1,9";
 * devices: what `tenure devices --json` prints. 0 with the rest of the list (the caller frees it)
 * and those that were left out ("9", or NULL); -ENODEV: nothing is left; -EINVAL: no such JSON.
 */
int compete_gpus_here(const char *wanted, const char *devices, char **ret, char **ret_out,
		      struct err *e);

/* What still runs, as the agent knows it: for where the queue does not say. In what `tenure status
 * --json` prints: how many tasks have processes, and "2 train.sh (PID 42)" of each in names. 0 also
 * where it is no such text. */
size_t compete_left(const char *status, struct strbuf *names);

#endif
