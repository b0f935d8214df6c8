/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_SELFCOPY_H
#define TENURE_AGENT_NODE_SELFCOPY_H

/*
 * A copy of this program that lies on no filesystem that can hang, to start others from. It is made
 * once, when the agent starts and the program's filesystem evidently works, and
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

struct selfcopy {
	int fd; /* the caller closes it */
	enum copy_place place;
	char dir[256];	 /* of the file */
	char reason[64]; /* why it is not in memory */
};

/* Whether a copy can be executed is tried, by running it once. 0 and *ret, or -errno. */
int selfcopy_make(struct selfcopy *ret, struct err *e);

/* What it is executed as for that: a program that ends at once. */
#define COPY_TRY_ARGV0 "tenure-copy"
int selfcopy_try_main(int argc, char **argv);

#endif
