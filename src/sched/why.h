/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_WHY_H
#define TENURE_SCHED_WHY_H

/*
 * Why a task does not run: what it waits for, what would let it start, its place. Devices are
 * described as the last plan left them; the view gives the times, and has the same devices.
 */

#include "sched/queue.h"
#include "sched/reason.h"

/* This node, as it is, can never run it; another one may. */
#define SCHED_WHY_NOT_HERE 1
/* Another node starts what is of its lane or array. */
#define SCHED_WHY_ELSEWHERE 2

/*
 * 0 or one of these, and *ret, which points into devices and whose texts are valid until the queue
 * or the view changes; -ENOENT when ref is not in the queue. Where nothing is in the way of a task
 * its lane looks again who is next, so that REASON_NEXT_PLAN is true whatever was forgotten.
 */
int sched_why(struct sched_queue *q, struct sched_ref ref, const struct sched_view *view,
	      struct reason_device devices[SCHED_DEVICES_MAX], struct reason *ret);

/*
 * The same of each entry that waits, in no order: of a batch of each part that waits for itself.
 * What fn is given is valid until it returns.
 */
typedef void (*sched_why_fn)(void *user, struct reason *r);
void sched_why_all(struct sched_queue *q, const struct sched_view *view, sched_why_fn fn,
		   void *user);

#endif
