/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_PAUSES_H
#define TENURE_AGENT_QUEUE_PAUSES_H

/* Which lanes are paused (spool/lanes.h), as the planner was told. */

#include "sched/queue.h"
#include "spool/spec.h"

struct pauses {
	struct text_list lanes, reasons;
};

/* One more, or with another reason. True: it was not paused before. */
bool pauses_add(struct pauses *p, struct sched_queue *q, const char *lane, const char *reason);
/* These, and no others. True: something has changed. */
bool pauses_set(struct pauses *p, struct sched_queue *q, const struct text_list *lanes,
		const struct text_list *reasons);
void pauses_clear(struct pauses *p);

#endif
