/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_PLANVIEW_H
#define TENURE_AGENT_QUEUE_PLANVIEW_H

/* The node's devices as the guard tells them, in the words of the planner. */

#include "agent/node/view.h"
#include "sched/plan.h"
#include "sched/queue.h"
#include "sched/reason.h"
#include "spool/name.h"
#include "spool/task_spec.h"

/* How many tasks without a GPU run at once: what was asked for, or (0) one per processor, and
 * CPU_SLOTS_LEAST at least, because many such tasks only wait; never more than nofile, the
 * descriptors that we may have, allow. */
#define CPU_SLOTS_LEAST 64U
uint32_t planview_cpu_slots(uint64_t asked, uint64_t nofile);
/* devices: room for PROTO_DEVICES_MAX; ret points into it and into view. instance: whose tasks are
 * planned: what is held for another instance is theirs to use, what that one's tasks have or
 * collect is not. */
void planview_make(const struct view *view, const char *instance, struct sched_device *devices,
		   struct sched_view *ret);

/* For sentences: what the guard says of the devices of view, with the names of users. */
struct planview_words {
	const struct view *view;
	const struct user_names *names;
};
/* w is to stay where it is. */
struct reason_words planview_words(struct planview_words *w);

/* How many devices a task of that instance could have at once: those that nobody uses, as far as
 * limits leave them to it. busy: that its tasks have, or are about to. */
unsigned int planview_free(const struct view *view, const char *instance, struct devset busy);

/* The most memory that a task could ever have on one of the devices of that model (NULL: any),
 * without a guard that sees them by what was last told of them; 0: not known. */
uint64_t planview_room(const struct view *view, const char *model);

/*
 * A task as it is told to the planner, from the name of its file and what is in it, with the memory
 * that it says (of `auto` learning.h knows more): the whole of a
 * batch, or, where the name is one of an element, that. spec NULL: no more is known than the name
 * says. But for its lane, which only the planner's queue can name, and for what it depends on. The
 * model is the spec's.
 */
void sched_task_from_spec(const struct task_name *n, const struct task_spec *spec,
			  struct sched_task *ret);
/* name "" or NULL: none. */
uint32_t planview_lane(struct sched_queue *q, const char *name);
struct sched_ref planview_ref(const struct task_name *n);
/* Of sched_task.kind: those of a name that ask for as many devices. */
uint64_t planview_kind(const char *name, uint64_t gpus);
/* Of elements, devices: the most that the planner can count where it is more. */
uint32_t planview_count(uint64_t n);

#endif
