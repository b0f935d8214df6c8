/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_CANCEL_H
#define TENURE_AGENT_QUEUE_CANCEL_H

#include "agent/queue/spool_place.h"

/*
 * An attempt that was to be stopped had ended already, and its task was requeued: that is taken
 * back, so that what its owner was told stays true. n: of the claim. 1: it was taken back; 0: it
 * does not wait, or was asked for again since. -EBUSY: another node has begun it again; or
 * negative. On the spooler's thread.
 */
int cancel_waiting(struct spool_place *place, const struct task_name *n, const char *reason,
		   struct err *e);

/* The same of an element that is not to run again, though its last attempt was requeued: attempt 0:
 * it never began one. */
struct cancel_how {
	const char *reason;
	/* Of struct spool_end, where it has run: of the attempt that its last requeue tells of,
	 * which says when that was. */
	unsigned int attempt, exit;
};
int cancel_element(struct spool_place *place, const struct task_name *n,
		   const struct cancel_how *how, struct err *e);

#endif
