/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_ALLOC_ALLOC_MAKE_H
#define TENURE_CLI_ALLOC_ALLOC_MAKE_H

/* An allocation, into the queue: one at a time in an instance, because limits count the others. */

#include <jansson.h>

#include "alloc/alloc.h"
#include "cli/cmd.h"

/* Why somebody does not get what he has asked for. */
struct alloc_denial {
	const char *reason; /* "limit", "room" (no node has so many), "engine"; NULL: it is no such
			       refusal */
	struct alloc_refusal limit;
	json_t *who; /* of a limit: who has what; NULL */
};

/* For the event `refused`: it was asked for so many. Frees what d has. */
void alloc_tell_denied(const struct cmd_ctx *ctx, const char *name, unsigned int gpus,
		       struct alloc_denial *d, const char *text);

/*
 * Within the limits of the settings, and with a name that no other one has. One of the base that
 * has none gets one. own_pool: it is for nodes of a pool of its own, which spec->pool names then. 0
 * or SUBMIT_NOT_DURABLE and *ret_id; -EDQUOT, -ERANGE, which d explains (zeroed;
 * alloc_tell_denied() after it), -EEXIST, or another negative.
 */
int alloc_make(const struct cmd_ctx *ctx, const struct spool *sp, struct task_spec *spec,
	       enum alloc_kind kind, bool own_pool, uint64_t *ret_id, struct alloc_denial *d,
	       struct err *e);

#endif
