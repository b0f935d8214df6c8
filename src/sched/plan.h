/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_PLAN_H
#define TENURE_SCHED_PLAN_H

/*
 * What to start now. The rules are in plan.c.
 *
 * Its cost grows with the number of different things that are asked for (shapes), of devices and of
 * running tasks, not with the number of waiting ones. The same queue, view and time give the same
 * actions.
 */

#include "sched/queue.h"
#include "sched/types.h"

/*
 * Writes the actions in the order in which they are to be carried out; they are in force in q at
 * once. Call it again when anything has changed, at next_ns or next_wall_ns, and when `more` is
 * set. A reservation ends with an UNRESERVE, or silently with a START on the device or a RESERVE
 * for another task.
 */
void sched_plan(struct sched_queue *q, const struct sched_view *view, struct sched_out *out);

#endif
