/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_ROOMCHECK_H
#define TENURE_CLI_TASK_ROOMCHECK_H

/*
 * Before a task goes into the queue: whether it asks for more GPUs than there are on any node that
 * serves the instance (spool/capacity.h). What may come true later is told as a warning, as is what
 * only the agent of this node can know: that too few of its GPUs are of the model, have the memory,
 * or are left to it.
 */

#include <jansson.h>

#include "cli/cmd.h"
#include "spool/files.h"
#include "spool/task_spec.h"

/* 0; -ERANGE with e: no node that is known has so many, and there is no other. */
int room_check(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_spec *s,
	       struct err *e);

/* The warnings alone, of devices as an agent's status tells of them; none where it names none. */
void room_check_devices(const struct task_spec *s, const json_t *devices);

#endif
