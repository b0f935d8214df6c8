/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASKDOC_H
#define TENURE_CLI_TASKDOC_H

#include <jansson.h>

#include "cli/queue.h"

/*
 * What is known of a task, or of an element, as `show --json` prints it (docs/json.md): from the
 * spool, from its shim where it runs on this node, and from the agent here, if there is one. 0 and
 * a new reference, or negative.
 */
int taskdoc_make(const struct cmd_ctx *ctx, const struct spool *sp, const struct queue_place *place,
		 json_t **ret, struct err *e);

/* Of each task that runs on this node its devices' indices, as the agent here says: an object of
 * arrays by id ("42", "42.7"); empty where there is no agent. New reference. */
json_t *taskdoc_devices(const struct cmd_ctx *ctx);

#endif
