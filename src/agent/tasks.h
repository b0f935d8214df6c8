/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_TASKS_H
#define TENURE_AGENT_TASKS_H

/*
 * The instance's tasks on this node: what the spool says waits, what the planner starts, what runs
 * (agent/attempt/), what ended. All of it on the loop; the spool's files are read and written by
 * spooler jobs, one after another.
 *
 *	q = tasks_new(&loop, ...);
 *	tasks_start(q);			opens the spool, recovers, adopts what runs, begins to plan
 *	tasks_look(q);			the devices have changed
 *	tasks_end(q);			nothing more is started; what runs runs on, without us, and
 *					the workload is ended: tasks_workloads() tells when
 *	tasks_free(q);
 */

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "agent/node/guardlink.h"
#include "agent/node/view.h"
#include "agent/queue/spoolwatch.h"
#include "agent/report/eventlog.h"
#include "sched/types.h"
#include "spool/instance.h"
#include "spool/order.h"

struct tasks;

struct tasks_ops; /* agent/dispatch_state.h */

/* What it works on is read of the view's configuration, which outlives it as the others do. */
struct tasks *tasks_new(uv_loop_t *loop, const struct view *view, struct eventlog *eventlog,
			struct guardlink *link, const struct tasks_ops *ops, void *user);
void tasks_start(struct tasks *q);

/* The view's devices have changed, or may have. Cheap; the planning is done once per turn. */
void tasks_look(struct tasks *q);
/* The guard says something of leases: an op of the guardlink, passed on. */
void tasks_on_lease(struct tasks *q, const struct msg_head *m);
/* Somebody put something into the spool (doorbell of a client on this node). */
void tasks_rescan(struct tasks *q);

/* What runs is stopped, as view.life.how says; what is adopted from then on, too. */
void tasks_stop_all(struct tasks *q);
/* What waits has been read, and can be. */
bool tasks_are_known(const struct tasks *q);
/* As sched_is_empty() says. */
bool tasks_is_empty(const struct tasks *q);
/* Devices that have the workload, or are not free of it yet; no task is counted. */
size_t tasks_workloads(const struct tasks *q);
/* By slot; valid as long as q. */
const struct view_workload *tasks_workload_view(const struct tasks *q);
/* Once a second. why: nobody watches the devices for people, so nothing of it runs there; NULL. */
void tasks_watch_workload(struct tasks *q, const char *why);
/* While the agent is stopped (Ctrl-Z) nothing of the workload runs, and nothing is held for tasks
 * that wait for more: the guard drops that, and is told anew afterwards. */
void tasks_pause(struct tasks *q, bool pause);
/* Something runs, or it is not known yet whether an earlier agent has left something. */
bool tasks_may_run(const struct tasks *q);
/* Why that cannot be known; NULL: it is, or will be. */
const char *tasks_unseen(const struct tasks *q);
/* One sentence: what it waits for. TASKS_WHY_ELSEWHERE: this node will not start it, another one
 * may. -ENOENT with e: it is not known here, which may change with what tasks_when_read() reads.
 * The caller frees it. */
#define TASKS_WHY_ELSEWHERE 1
int tasks_why(struct tasks *q, uint64_t id, uint32_t element, char **ret, struct err *e);

/* As spoolwatch_when_read(). */
int tasks_when_read(struct tasks *q, struct spool_reader *r);
void tasks_forget_reader(struct tasks *q, const struct spool_reader *r);

/* For the status: counts, and what runs. */
json_t *tasks_report(const struct tasks *q);

void tasks_end(struct tasks *q);
/* What it had to write when it was told to end has been written. */
bool tasks_are_quiet(const struct tasks *q);
/* -EBUSY: a file hangs; not all is freed, the process is expected to end. */
int tasks_free(struct tasks *q);

#endif
