/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_EMPTY_H
#define TENURE_SCHED_EMPTY_H

#include "sched/queue.h"

/*
 * Nothing runs, and nothing waits that will start on this machine by itself: what waits for a time,
 * a dependency or the end of a back-off will, what is paused will not, be it the task or its lane,
 * nor what depends on something that has failed, nor what asks for more than this machine has.
 * Costs a look at each entry, where all of them are of those.
 */
bool sched_is_empty(const struct sched_queue *q, const struct sched_view *view);

#endif
