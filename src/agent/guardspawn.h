/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_GUARDSPAWN_H
#define TENURE_AGENT_GUARDSPAWN_H

/*
 * Start a guard from a copy of this program that lies on no filesystem that can hang.
 *
 * The copy is made once, when the agent starts and the program's filesystem evidently works, and
 * kept: the guard may have to be started again while that filesystem does not answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* A sealed, read-only copy of the running program in memory. The descriptor, or -errno. */
int guardspawn_copy_self(struct err *e);

/*
 * Run `tenure guard --dev-dir DIR` from that copy: its own session, cwd /, stdio /dev/null, our
 * environment. It is our child: reap it with guardspawn_ended(). The PID, or -errno.
 */
pid_t guardspawn_start(int copy_fd, const char *dev_dir, struct err *e);

/*
 * Whether a guard that guardspawn_start() returned has ended; it is reaped then and why says how
 * ("exit status 1", "signal 9"). Never waits.
 */
bool guardspawn_ended(pid_t pid, char *why, size_t why_size);

#endif
