/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_BURN_NODES_H
#define TENURE_CLI_HOLDING_BURN_NODES_H

/*
 * `tenure burn --instance`: the agents of that queue are ordered to test what they have
 * (agent/burns.h), what their nodes tell in the spool is followed until all have ended, and judged
 * together (agent/burn/part.h has the files).
 */

#include "agent/burn/run.h"
#include "base/textlist.h"
#include "cli/cmd.h"

/* options: what each node is told besides order->for_ms. The exit code of the report, or another
 * with e. */
int burn_nodes(const struct cmd_ctx *ctx, const struct burn_order *order,
	       const struct text_list *options, struct err *e);

#endif
