/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_LAUNCH_H
#define TENURE_TASK_LAUNCH_H

/*
 * The agent's way to a new shim. Nothing waits; descriptors can be polled by any loop.
 *
 *	fork_server_start(&server, exe_fd, &e);       once, and again after -EPIPE
 *	conn = launch_shim(&server, spec, log_fd, &e);
 *	talk_recv(conn, &m) -> SHMSG_PREPARED {pid, start}: get the lease
 *	talk_go(conn, ...)  -> SHMSG_STARTED, ... SHMSG_ENDED, 0
 *
 * The end of file without SHMSG_ENDED: the shim or its fork server was killed. Then adopt_find()
 * (task/adopt.h) tells what is left of the task.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "task/spec.h"

struct fork_server {
	int fd;		 /* polled for reading: readable means that it has gone; -1: none */
	pid_t pid;	 /* our child, to be waited for when it has gone; or 0 */
	uint64_t nofile; /* its soft limit of descriptors, and so of tasks; 0: ours */
};

#define FORK_SERVER_NONE                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Start a fork server from the executable exe_fd is open on (guardspawn_copy_self(),
 * /proc/self/exe). An old one is let go. 0 or -errno. */
int fork_server_start(struct fork_server *m, int exe_fd, struct err *e);

/* It answers no more: reap it, if it has ended. True when there is none (any more). */
bool fork_server_gone(struct fork_server *m);

/* Let it go: it ends by itself, and is reaped without waiting if it already has. */
void fork_server_close(struct fork_server *m);

/*
 * Ask for a shim. log_fd stays the caller's. The connection to it (the caller's, non-blocking), or
 * -EAGAIN (the fork server is busy: try again in a moment), -EPIPE (it has gone: start another),
 * -EINVAL or -E2BIG (the description cannot be run), -errno.
 */
int launch_shim(struct fork_server *m, const struct task_spec *spec, int log_fd, struct err *e);

#endif
