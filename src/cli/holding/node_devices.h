/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_NODE_DEVICES_H
#define TENURE_CLI_HOLDING_NODE_DEVICES_H

#include <stdbool.h>

#include "cli/cmd.h"

/*
 * `tenure devices --node NODE`: the devices of a node that serves the queue, as its agent has told
 * of them there (spool/agent_status.h, spool/agent_history.h), which is as old as it says. No
 * driver is asked, and nobody but the file server. A command's exit code.
 */
int show_node_devices(const struct cmd_ctx *ctx, const char *node, bool json, struct err *e);
int show_node_history(const struct cmd_ctx *ctx, const char *node, const char *duration, bool json,
		      struct err *e);

#endif
