/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_DEPENDS_H
#define TENURE_AGENT_QUEUE_DEPENDS_H

/*
 * What waits for the ends of other tasks (sched/deps.h), kept by the spooler's jobs. How a task
 * ended is known where it was filed here; of others the name in done/, failed/ or cancelled/ says
 * it. Those directories may be large, so they are read only when a task that somebody waits for has
 * left the queue without our doing, and once for all of these.
 *
 * Nothing of that is final. What has not ended well may be asked for again, and begin and end
 * elsewhere before the queue is read here: so with each reading it is looked whether its file still
 * lies where it was found. What is found nowhere is looked for again, ever more rarely; it counts
 * as gone when that was so after two readings in a row.
 */

#include "agent/queue/spooler.h"
#include "sched/deps.h"

/* A task waits as its file says. NULL: it waits for nothing, or is gone. */
void depends_set(struct spool_place *p, uint64_t id, const struct task_spec *spec);
/* It came, changed, or is gone from where it was. */
void depends_seen(struct spool_place *p, uint64_t id);
/* It was filed here. Told to nobody before depends_settle() with DEPENDS_SYNCED. */
void depends_ended(struct spool_place *p, uint64_t id, bool good);

/* text: as deps_text(), valid during the call. */
typedef void (*depends_fn)(void *user, const struct scan_task *t, enum sched_dep dep,
			   const char *text);

#define DEPENDS_ALL    (1u << 0) /* the queue has just been read whole */
#define DEPENDS_SYNCED (1u << 1) /* what was filed before is safe: what starts now may be so */

/* Tells each task that waits otherwise than when this was called last. */
void depends_settle(struct spool_place *p, unsigned int what, depends_fn fn, void *user);
enum sched_dep depends_state(const struct spool_place *p, uint64_t id);
void depends_free(struct spool_place *p);

#endif
