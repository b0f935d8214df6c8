/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_DEVICE_HISTORY_H
#define TENURE_CLI_HOLDING_DEVICE_HISTORY_H

#include <stdbool.h>

#include "cli/cmd.h"

/* `tenure devices --history [DURATION]`: what each GPU was used for, as the agent has seen it. A
 * command's exit code. */
int show_device_history(const struct cmd_ctx *ctx, const char *duration, bool json, struct err *e);

#endif
