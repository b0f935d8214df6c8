/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_SHIM_H
#define TENURE_TASK_SHIM_H

/*
 * The shim: the process that is there for one task, from before it starts until after its end is on
 * the disk. See task/shproto.h for what it says and task/fork_server.h for where it comes from.
 */

#include <stddef.h>

#include "task/end_record.h"

/* What a shim has from its fork server. The descriptors are the shim's. */
struct shim_start {
	int spec_fd; /* task/launch_spec.h */
	int conn_fd; /* first connection to the agent; the log is in it: O_RDWR | O_APPEND, or
			/dev/null where the agent could not open it */
	int sig_fd;  /* signalfd of what is blocked: SIGCHLD, SIGTERM, SIGINT, SIGHUP */
	char *title; /* memory of the command line */
	size_t title_room;
	char boot_id[BOOT_ID_MAX];
};

/* In the forked process: live this task's life. Returns the exit status. */
int shim_run(const struct shim_start *start);

#endif
