/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_TASKDOC_H
#define TENURE_CLI_TASK_TASKDOC_H

#include <jansson.h>

#include "cli/task/select.h"
#include "cli/task/taskrun.h"

/*
 * What is known of a task, or of an element, as `show --json` prints it (docs/json.md): from the
 * spool, from its shim where it runs on this node, and from the agent here, if there is one. 0 and
 * a new reference, or negative.
 */
int taskdoc_make(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *place,
		 json_t **ret, struct err *e);

/* What the agent here says of each task that runs on this node: an object of objects by id ("42",
 * "42.7"); empty where there is no agent. New reference. */
json_t *taskdoc_tasks(const struct cmd_ctx *ctx);
/* What it says of this one, where that is all that is asked for. */
void taskdoc_ask(const struct cmd_ctx *ctx, struct taskrun *run);
/* That it has ended and is not filed yet, and how, for JSON. */
void taskdoc_add_left(const struct taskrun *run, json_t *o);

#endif
