/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_SCALING_H
#define TENURE_AGENT_SCALING_H

/*
 * Tasks that grow and shrink while they run: once a second it is looked how busy the devices of
 * each are, and decided by sched/scale.h; which device one gets the planner says (sched/grow.h),
 * and the attempt takes the steps (agent/attempt/resize.h).
 *
 * The figures are those of the view. They are the task's own only where nobody else is on the
 * device; and of a device that is held until the task comes to it, it uses nothing.
 */

#include <stdbool.h>

#include "agent/attempt/attempt.h"
#include "sched/types.h"

struct dispatch;

/* Once a second. */
void scaling_look(struct dispatch *q);
/* Right after a plan with this view: what wants one more gets it, if it is there. */
void scaling_plan(struct dispatch *q, const struct sched_view *view);
/* Somebody else has come to a device of it, on which it is not: it gives that back, and runs on.
 * False: it keeps no fewer, or has come to it; then that is what it is for any task. */
bool scaling_on_taken(struct dispatch *q, struct attempt *r, const struct msg_lease_taken *m);
/* Of the attempts: a change is over. */
void scaling_on_resized(struct dispatch *q, struct attempt *r, enum resize_end end);

#endif
