/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_SWEEPER_H
#define TENURE_CLI_TASK_SWEEPER_H

/* Sweeping this node from a command (task/sweep.h). */

#include "cli/cmd.h"

struct sweep_order {
	unsigned int what; /* SWEEP_BIT()s */
	bool end;	   /* else they are only shown */
	bool json;
};

/*
 * With SWEEP_GPU the GPUs are those of the setting `gpus`. What ends, and what would, is told on
 * the standard output. 0; -ETIMEDOUT: some do not end; negative.
 */
int sweeper_run(const struct cmd_ctx *ctx, const struct sweep_order *o, struct err *e);

#endif
