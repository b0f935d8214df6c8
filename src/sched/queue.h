/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_QUEUE_H
#define TENURE_SCHED_QUEUE_H

/*
 * The tasks that wait and those that run, indexed so that a plan costs the same however many wait.
 *
 *	q = sched_queue_new();
 *	lane = sched_lane(q, "train");
 *	sched_add(q, &task, &e); ...           from the spool; sched_adopt() what runs already
 *	sched_plan(q, &view, &out);            plan.h: what it says is in force at once
 *	    carry out out.actions
 *	sched_started(), sched_used()          as it becomes known
 *	sched_end() or sched_requeue()         when the task's tree is gone and its devices are free
 *
 * A START makes the task a running one in the queue; when it cannot be carried out, requeue it.
 * Nothing here reads a clock or allocates for a plan, beyond what the first plans leave for the
 * next ones. Changing one task costs O(log n). Not for several threads.
 *
 * Errors: 0 or a negative errno; -ENOENT where the ref is not waiting or not running, as the
 * function's comment says.
 */

#include "base/err.h"
#include "sched/types.h"

struct sched_queue;

struct sched_queue *sched_queue_new(void);
struct sched_queue *sched_queue_free(struct sched_queue *q);

/* The handle of a lane, made on first use; never 0, valid as long as the queue. */
uint32_t sched_lane(struct sched_queue *q, const char *name);
/* How many tasks of the lane run at once: 1 unless set; 0 is taken as 1. */
void sched_lane_width(struct sched_queue *q, uint32_t lane, uint32_t width);
/* Nothing of the lane starts; reason is what `why` shows, NULL ends the pause. */
void sched_lane_pause(struct sched_queue *q, uint32_t lane, const char *reason);

/* No task of the lane, or of the array with that id, is started from here. A block stands
 * beside a pause and works like one. Only an array of which something waits or runs can be
 * blocked; it stays so until the block is taken from it, whatever becomes of its elements. */
void sched_lane_block(struct sched_queue *q, uint32_t lane, const char *reason);
void sched_array_block(struct sched_queue *q, uint64_t id, const char *reason);

/* Adds a task that waits, or of a batch the elements that do not run; its strings are copied.
 * -EEXIST, -EINVAL with the reason in e. */
int sched_add(struct sched_queue *q, const struct sched_task *t, struct err *e);
/* A waiting task has other values now; of a batch all elements that wait within element and
 * n_elements. Elements that have started stay started. -ENOENT when nothing of it waits,
 * -EINVAL. */
int sched_change(struct sched_queue *q, const struct sched_task *t, struct err *e);
/* The running elements of the task or batch will have these values when they wait again; the
 * array's limit changes at once. */
void sched_change_running(struct sched_queue *q, const struct sched_task *t);
/* Whether the tasks that ref, or the part of a batch that contains it, depends on have ended;
 * of a running one it is kept for when it waits again. -ENOENT */
int sched_depend(struct sched_queue *q, struct sched_ref ref, enum sched_dep dep);
/* Removes the waiting task ref, or the part of a batch that contains it. -ENOENT */
int sched_remove(struct sched_queue *q, struct sched_ref ref);
/* Removes all waiting elements of a batch of so many, also those that were tried before.
 * -ENOENT */
int sched_remove_batch(struct sched_queue *q, uint64_t id, uint32_t n_elements);
/* Takes one waiting element out of its batch. -ENOENT */
int sched_remove_element(struct sched_queue *q, struct sched_ref ref);
/* `why` shows the note behind the reason ("taken by bob (PID 9)"); NULL removes it. -ENOENT */
int sched_note(struct sched_queue *q, struct sched_ref ref, const char *note);
/* The task as it waits or runs. Its model is valid until the next change of the queue. -ENOENT */
int sched_get(const struct sched_queue *q, struct sched_ref ref, struct sched_task *ret);

/* Adds a task that runs already, after a restart or the end of its agent; it no longer waits.
 * started_ns may be in the past. -EEXIST when it runs here, -EINVAL */
int sched_adopt(struct sched_queue *q, const struct sched_task *t, struct devset devices,
		uint64_t started_ns, struct err *e);
/* The task has started now, and its time-out counts from here. -ENOENT when it does not run. */
int sched_started(struct sched_queue *q, struct sched_ref ref, uint64_t now_ns, uint64_t grace_ms);
/* How much a running task has allocated on a device; what it was promised beyond that is kept
 * for it. UINT64_MAX: as much as it will ever take (where nobody can see whose memory is
 * whose). -ENOENT */
int sched_used(struct sched_queue *q, struct sched_ref ref, unsigned int slot, uint64_t bytes);
/* A running task is on these devices: their slots have changed. -ENOENT */
int sched_moved(struct sched_queue *q, struct sched_ref ref, struct devset devices);
/* A running task is gone for good, and its devices are free. -ENOENT */
int sched_end(struct sched_queue *q, struct sched_ref ref);
/*
 * A running task is gone and waits again at its old place: not before then (0 = at once), with so
 * much memory (0 = as before, or as its batch says since). note as in sched_note(). -ENOENT
 */
int sched_requeue(struct sched_queue *q, struct sched_ref ref, uint64_t not_before_ns,
		  uint64_t mem_bytes, const char *note);

/*
 * A rank of a gang that waits takes part in the plan from now on, or stands aside again. It does so
 * by itself when it waits again after it ran, and when it, or its batch, is changed. -ENOENT: it
 * does not wait, or is no gang's.
 */
int sched_call(struct sched_queue *q, struct sched_ref ref, bool called);
/* Gangs of which something waits that nothing keeps from being called, in the order of the queue;
 * of one there may be several entries. */
typedef void (*sched_gang_fn)(void *data, const struct sched_task *t);
void sched_each_gang(const struct sched_queue *q, sched_gang_fn fn, void *data);

struct sched_counts {
	size_t entries;	  /* waiting; a batch is one */
	uint64_t waiting; /* its elements counted */
	uint64_t retries; /* of these, whose back-off has not ended */
	size_t running;
	size_t shapes; /* what a plan looks at */
};

struct sched_counts sched_count(const struct sched_queue *q);

/* ---- for this room, which knows what is inside (state.h) ---- */

struct entry;
struct run;

/* The entry of ref: itself, or the batch that contains it; NULL. */
struct entry *queue_find_entry(const struct sched_queue *q, struct sched_ref ref);
struct run *queue_find_run(const struct sched_queue *q, struct sched_ref ref);
/* The first ready element of the entry runs on these devices. */
struct run *queue_start(struct sched_queue *q, struct entry *e, struct devset devices,
			uint64_t now_ns, uint64_t grace_ms);

#endif
