/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_SELFCOPY_H
#define TENURE_AGENT_NODE_SELFCOPY_H

/*
 * Start a guard from a copy of this program that lies on no filesystem that can hang.
 *
 * The copy is made once, when the agent starts and the program's filesystem evidently works, and
 * kept: the guard may have to be started again while that filesystem does not answer. The fork
 * server of the shims is executed from it as well, and holders from whatever their guard is.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Where the copy lies. Memory is best; where memory files cannot be executed (vm.memfd_noexec, a
 * security module) a file on a local filesystem that nobody can open any more; and where programs
 * cannot be executed there either, the installed program itself, which may hang with its
 * filesystem.
 */
enum copy_place { COPY_IN_MEMORY, COPY_IN_FILE, COPY_NONE };

struct program_copy {
	int fd; /* the caller closes it */
	enum copy_place place;
	char dir[256];	 /* of the file */
	char reason[64]; /* why it is not in memory */
};

/* Whether a copy can be executed is tried, by running it once. 0 and *ret, or -errno. */
int guardspawn_copy_self(struct program_copy *ret, struct err *e);

/* What it is executed as for that: a program that ends at once. */
#define COPY_TRY_ARGV0 "tenure-copy"
int guardspawn_try_main(int argc, char **argv);

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
