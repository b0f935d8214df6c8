/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_ALLOC_ALLOC_POOL_H
#define TENURE_CLI_ALLOC_ALLOC_POOL_H

/* The pool of one node that an allocation on an engine has for itself: `up` and `down` of it. */

#include "alloc/alloc.h"
#include "cli/cmd.h"

/* The engine that was asked for; NULL: none, the allocation is of the nodes that there are. */
const char *alloc_pool_engine(const struct cmd_ctx *ctx);
/* job_prefix as a pool has it, "NDFS" for "NDFS_"; NULL: it is not set. The caller frees it. */
char *alloc_pool_prefix(const struct cmd_ctx *ctx);
/* Where `up` and `down` say what they do: errors are on standard error in each case. */
enum alloc_pool_words {
	ALLOC_POOL_TELL,  /* on standard output; with --json, whose answer that is, on the other one
			   */
	ALLOC_POOL_QUIET, /* nowhere */
};

/* A node with so many GPUs is asked for, by what the command line says of it, where the command has
 * alloc_pool_opts. An exit code; what failed has been printed. */
int alloc_pool_up(const struct cmd_ctx *ctx, const char *engine, const char *pool,
		  unsigned int gpus, enum alloc_pool_words words);
/* Its node is given back, and none is asked for any more. Likewise. */
int alloc_pool_down(const struct cmd_ctx *ctx, const char *pool, enum alloc_pool_words words);

/* --engine, and what goes with it. */
extern const struct opt alloc_pool_opts[];

#endif
