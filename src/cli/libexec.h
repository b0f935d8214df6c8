/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_LIBEXEC_H
#define TENURE_CLI_LIBEXEC_H

/*
 * Programs of ours beside this one, each with a library that not every machine has: `tenure` itself
 * needs none of these, and works without them.
 */

#include "base/err.h"
#include "cli/cmd.h"

/* The option by which it is told what tenure it is of. */
#define LIBEXEC_OPT                                                                                \
	{                                                                                          \
		.name = "program", .arg = "PATH", .spec = { VALUE_PATH }, .flags = OPT_HIDDEN,     \
		.help = "the tenure whose commands it runs"                                        \
	}

/* The path of the program of that name, beside this one (a build) or in ../libexec/tenure; the
 * caller frees it. NULL, and e says where it was looked for and that it is built where needs is. */
char *libexec_find(const char *name, const char *needs, struct err *e);
/*
 * Become that program, which has the same options: it gets those that were given, and --program
 * with the path of this one. Returns only where it cannot: a negative errno.
 */
int libexec_run(const struct cmd_ctx *ctx, const char *name, const char *needs, struct err *e);
/* The commands that this process runs mean the same instance as its own command line: what that
 * says goes into the environment, but for how it is served. */
void libexec_hand_on(const struct cmd_ctx *ctx);
/* The directory of this program, with PATH behind it; the caller frees it. NULL: it is not known.
 */
char *libexec_own(const char *path);

#endif
