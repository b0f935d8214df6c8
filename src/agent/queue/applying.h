/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_APPLYING_H
#define TENURE_AGENT_QUEUE_APPLYING_H

/* What has changed in the spool, told to the planner. */

#include "agent/queue/index.h"
#include "agent/report/eventlog.h"
#include "sched/queue.h"

/* c's task gets the strings and the lane that it has for the planner. */
void applying_change(struct sched_queue *plan, struct eventlog *eventlog, struct index_change *c);

#endif
