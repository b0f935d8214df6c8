/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_LAUNCH_H
#define TENURE_TASK_LAUNCH_H

/*
 * The agent's way to a new shim. Nothing waits; descriptors can be polled by any loop.
 *
 *	launch_mother(&mother, exe_fd, &e);           once, and again after -EPIPE
 *	conn = launch_shim(&mother, spec, log_fd, &e);
 *	talk_recv(conn, &m) -> SHMSG_PREPARED {pid, start}: get the lease
 *	talk_go(conn, ...)  -> SHMSG_STARTED, ... SHMSG_ENDED, 0
 *
 * The end of file without SHMSG_ENDED: the shim or its mother was killed. Then adopt_find()
 * (task/adopt.h) tells what is left of the task.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "task/spec.h"

struct mother {
	int fd;		 /* polled for reading: readable means that it has gone; -1: none */
	pid_t pid;	 /* our child, to be waited for when it has gone; or 0 */
	uint64_t nofile; /* its soft limit of descriptors, and so of tasks; 0: ours */
};

#define MOTHER_NONE                                                                                \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Start a mother from the executable exe_fd is open on (guardspawn_copy_self(), /proc/self/exe). An
 * old one is let go. 0 or -errno. */
int launch_mother(struct mother *m, int exe_fd, struct err *e);

/* It answers no more: reap it, if it has ended. True when there is none (any more). */
bool launch_mother_gone(struct mother *m);

/* Let it go: it ends by itself, and is reaped without waiting if it already has. */
void launch_mother_close(struct mother *m);

/*
 * Ask for a shim. log_fd stays the caller's. The connection to it (the caller's, non-blocking), or
 * -EAGAIN (the mother is busy: try again in a moment), -EPIPE (it has gone: start another), -EINVAL
 * or -E2BIG (the description cannot be run), -errno.
 */
int launch_shim(struct mother *m, const struct task_spec *spec, int log_fd, struct err *e);

#endif
