/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_ASK_AGENT_H
#define TENURE_CLI_ASK_AGENT_H

#include <jansson.h>

#include "agent/ctl_client.h"
#include "cli/cmd.h"

/*
 * Ask the agent of the instance that the settings name. 0 and the document; CMD_NOTHING_RUNS or
 * CMD_FAILED with e set to what to do. ret_fd as in ctl_ask(). With --root on the command line one
 * that serves another root is none.
 */
int ask_agent(const struct cmd_ctx *ctx, enum ctl_verb verb, int timeout_ms, json_t **ret,
	      int *ret_fd, struct err *e);

/* The same with an answer that comes when it comes: after tasks have ended. */
int ask_agent_long(const struct cmd_ctx *ctx, const struct ctl_request *req, json_t **ret,
		   int *ret_fd, struct err *e);

/* The same about a task: req has the verb and what is asked. The agent's own refusal is the text of
 * e; its code (-ENOENT) is returned. -ECONNREFUSED: no agent runs here for this root. */
int ask_agent_about(const struct cmd_ctx *ctx, const struct ctl_request *req, json_t **ret,
		    struct err *e);

/*
 * "instance foo runs; --instance foo", of the agents of this user and these device nodes that serve
 * others than the one that is meant, for whoever has found none. NULL: there are none. The caller
 * frees it.
 */
char *ask_agent_others(const struct cmd_ctx *ctx);

/* The spool has changed: the agent here, if there is one, need not find out by itself. */
void ask_agent_to_look(const struct cmd_ctx *ctx);

#endif
