/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_SERVING_H
#define TENURE_CLI_SERVING_H

/* How tenure-serve (src/serve), which serves HTTP, is called by `tenure serve` and by an agent. */

#include <jansson.h>

#include "cli/cmd.h"

#define SERVE_PROGRAM "tenure-serve"
#define SERVE_NEEDS   "libmicrohttpd (Debian: libmicrohttpd-dev)"

/* By which it is told that an agent has started it: it ends when its standard input does, and says
 * what it serves behind LOG_INFO_MARK (base/log.h). */
#define SERVE_WITH_AGENT "with-agent"

/*
 * What an agent is to start (agent/helpers.h), where `listen` says so: 0 and *ret, a new reference,
 * or NULL. In a job of an engine only the command line has it listen: the nodes of a cluster are
 * many, and the files are the same on all of them. Where there is no such program, -ENOENT for what
 * was asked on the command line; else that is warned of.
 */
int serving_spec(const struct cmd_ctx *ctx, json_t **ret, struct err *e);

/* What the agent's status says of it (docs/json.md, `helpers`); borrowed. NULL: nothing is served
 * by that agent. */
const json_t *serving_helper(const json_t *status);
/* Tell the user where the agent that has just been told so serves, or what keeps it from that; for
 * which it is waited some seconds. Nothing where it is to serve nothing. */
void serving_tell(const struct cmd_ctx *ctx);

#endif
