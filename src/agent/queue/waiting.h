/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_WAITING_H
#define TENURE_AGENT_QUEUE_WAITING_H

/*
 * A batch that waits: by the name that it has now, since commands and other nodes change that, and
 * the index is as old as the last look at the directories. For jobs of the spooler.
 */

#include "agent/queue/spool_place.h"

/* As the index has it; or, where that does not know its name of now, opened for
 * this once: what the index has is only changed by what tells the planner of it. */
struct waiting_batch {
	struct batch *batch;
	bool once;
};

/* -ENOENT: there is none that waits. */
int waiting_get(struct spool_place *p, uint64_t id, struct waiting_batch *ret, struct err *e);
/* By this name, for this once. */
int waiting_open(struct spool_place *p, const struct task_name *n, struct waiting_batch *ret,
		 struct err *e);
void waiting_put(struct spool_place *p, struct waiting_batch *w);
/* What it is called now, when no command holds it, for half a second at most: it is still held
 * where the command takes longer than that. -ENOENT: it does not wait any more. */
int waiting_name(struct spool_place *p, uint64_t id, struct task_name *ret, struct err *e);
/* As batch_commit(); the command that follows a task on several nodes is due then. */
int waiting_file(struct batch *b, struct spool_place *p, uint64_t id, struct err *e);
/* Its last element may have ended. b may be gone after it. */
int waiting_commit_if_over(struct batch *b, struct spool_place *p, uint64_t id, struct err *e);

#endif
