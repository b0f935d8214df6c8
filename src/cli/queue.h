/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_QUEUE_H
#define TENURE_CLI_QUEUE_H

/*
 * What the commands of the queue share: which instance is meant, and which tasks a person's words
 * mean: an id (42), an element (42.7), a name or the beginning of one that is unique, a lane, all.
 */

#include "cli/cmd.h"
#include "spool/scan.h"

#define QUEUE_GROUP "Running tasks"

/* The instance of the settings; flags as of spool_open(). 0 or negative. */
int queue_open(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret, struct err *e);

struct queue_match {
	size_t n;
	struct scan_task *tasks; /* in the planner's order; the caller frees them */
};

#define QUEUE_LANES (1u << 0) /* a lane or "all" may be meant, too */

/* Of what waits or runs. -ENOENT with a suggestion: nothing is called so. */
int queue_find(const struct spool *sp, const char *word, unsigned int flags,
	       struct queue_match *ret, struct err *e);

/* Everything that waits or runs, in the planner's order. */
int queue_all(const struct spool *sp, struct queue_match *ret, struct err *e);

/* "pending", "running", "paused", "done", ... */
const char *queue_state(const struct task_name *n, enum spool_dir dir);

#endif
