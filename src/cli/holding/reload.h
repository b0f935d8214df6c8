/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_RELOAD_H
#define TENURE_CLI_HOLDING_RELOAD_H

#include "cli/agent_setup.h"

/*
 * An agent runs here, and the command line of `on` says how it is to be: that is more than which
 * one is meant. Then it changes, and what changed is printed; *ret_done. An agent that ends is as
 * good as none. An exit code, with e.
 */
int reload_with_options(const struct cmd_ctx *ctx, bool *ret_done, struct err *e);

#endif
