/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NODE_POOL_CALL_H
#define TENURE_CLI_NODE_POOL_CALL_H

/* What `up`, `down` and `tick` have in common: which pool of which instance is meant, how they are
 * called again, and how they go about it one at a time. */

#include "cli/cmd.h"
#include "pool/owner.h"
#include "pool/tick.h"

#define POOL_CALL_PATIENCE_MS 20000 /* longer than a command of an engine */
#define POOL_CALL_MAIN	      "main"

#define POOL_CALL_OPT                                                                              \
	{                                                                                          \
		.name = "pool", .words = WORDS_POOLS,                                              \
		.spec = { VALUE_NAME, .max = POOL_NAME_MAX }, .arg = "POOL",                       \
		.def = POOL_CALL_MAIN, .help = "which one, where an instance has several"          \
	}

/* The word that names the instance; NULL: there is none. And the instance that is meant. Both are
 * the options'. */
const char *pool_call_word(const struct cmd_ctx *ctx);
const char *pool_call_instance(const struct cmd_ctx *ctx);
const char *pool_call_pool(const struct cmd_ctx *ctx);
/* What no other command would take, and no agent of the pool, nobody gets: CMD_OK or CMD_USAGE. */
int pool_call_check(const struct cmd_ctx *ctx, struct err *e);
/* The instance's spool, as spool_open(). */
int pool_call_open(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret,
		   struct err *e);
/* "tenure down exp1 --pool big --root /share": as it has to be called to mean this pool. The caller
 * frees it. */
char *pool_call_text(const struct cmd_ctx *ctx, const char *command, bool pool);
/* A tick for a person, who is told of what it does; as pool_tick(). */
int pool_call_tick(const struct cmd_ctx *ctx, const struct spool *sp, const struct pool *p,
		   struct pool_report *report, struct err *e);
/* One `up` or `down` of a pool at a time: each reads what was said and writes all of it. It is
 * owned as a tick is, under a name that no pool has; pool_disown(). 0 or negative. */
int pool_call_own(const struct spool *sp, const char *pool, struct pool_owner *ret, struct err *e);

#endif
