/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_ALLOC_ALLOC_MAKE_H
#define TENURE_CLI_ALLOC_ALLOC_MAKE_H

/* An allocation, into the queue: one at a time in an instance, because limits count the others. */

#include "alloc/alloc.h"
#include "cli/cmd.h"

/*
 * Within the limits of the settings, and with a name that no other one has. One of the base that
 * has none gets one. own_pool: it is for nodes of a pool of its own, which spec->pool names then. 0
 * or SUBMIT_NOT_DURABLE and *ret_id; -EDQUOT, -EEXIST, or another negative.
 */
int alloc_make(const struct cmd_ctx *ctx, const struct spool *sp, struct task_spec *spec,
	       enum alloc_kind kind, bool own_pool, uint64_t *ret_id, struct err *e);

#endif
