/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_NODE_DECLARE_DEAD_H
#define TENURE_CLI_NODE_DECLARE_DEAD_H

/*
 * A person's word that a node does not exist any more. An agent that was alone when it was last
 * heard of has promised nothing, so its tasks may run on, cut off, and nobody takes them over
 * before somebody says so.
 */

#include "cli/cmd.h"
#include "spool/files.h"

/*
 * Refused where the agent, or a task that it has started, sends a heartbeat while we look, which
 * takes a few heartbeats; where it is one of this node; where no agent is called so. 0 or negative.
 */
int declare_dead(const struct cmd_ctx *ctx, const struct spool *sp, const char *agent,
		 struct err *e);

#endif
