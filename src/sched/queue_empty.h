/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_QUEUE_EMPTY_H
#define TENURE_SCHED_QUEUE_EMPTY_H

#include "sched/queue.h"

/*
 * No task runs, and none waits that will start on this machine by itself. A task that waits
 * for a time, a dependency or the end of a back-off will; one that is paused, or whose lane
 * is, will not, nor one that depends on a failed task or asks for more than this machine has.
 * Costs a look at each entry where no task will start.
 */
bool sched_is_empty(const struct sched_queue *q, const struct sched_view *view);

#endif
