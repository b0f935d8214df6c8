/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_GROW_H
#define TENURE_SCHED_GROW_H

/*
 * A running task gets one device more, or has one less. Whether it is to have one is decided by
 * others (scale.h); here is which one, by the rules of the plan: what it asks of a device, what is
 * left for others, max_devices, and before it all tasks that wait, with the devices that the plan
 * keeps for them.
 *
 *	sched_plan(q, &view, &out)		just before, with this view
 *	sched_room(q, ref, &view, &growth)
 *	sched_grow(q, ref, growth.slot)		in force at once, as a START is
 *	sched_shrink(q, ref, slot)		it could not be had, or was given back
 */

#include "sched/queue.h"
#include "sched/scale.h"
#include "sched/types.h"

struct sched_growth {
	enum scale_room room;
	unsigned int slot;	    /* with SCALE_ROOM_FREE */
	bool workload;		    /* the idle workload is there, and has to go first */
	struct sched_ref wanted_by; /* with SCALE_ROOM_WANTED: the first that waits for it */
};

/* SCALE_ROOM_NONE too where ref does not run, or is being preempted. */
void sched_room(struct sched_queue *q, struct sched_ref ref, const struct sched_view *view,
		struct sched_growth *ret);
/* -ENOENT: it does not run. */
int sched_grow(struct sched_queue *q, struct sched_ref ref, unsigned int slot);
int sched_shrink(struct sched_queue *q, struct sched_ref ref, unsigned int slot);

#endif
