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

struct tasks_ops {
	/* "uid 1234" in a sentence becomes a name. */
	void (*put_names)(void *user, const char *text, char *buf, size_t size);
	/* Somebody ordered this agent to end, through the spool. */
	void (*ordered)(void *user, enum order_how how);
	/* A task is over, after it is filed; or it is known now what ran before. */
	void (*over)(void *user);
};

/* What it works on is read of the view's configuration, which outlives it as the others do. */
struct tasks *tasks_new(uv_loop_t *loop, const struct view *view, struct eventlog *eventlog,
			struct guardlink *link, const struct tasks_ops *ops, void *user);
void tasks_start(struct tasks *q);

/* The view's devices have changed, or may have. Cheap; the planning is done once per turn. */
void tasks_look(struct tasks *q);
/* Somebody put something into the spool (doorbell of a client on this node). */
void tasks_rescan(struct tasks *q);

/* End a running task, or element; element 0: all of it. 0, or -ENOENT with e. That its owner wants
 * it so is written down, too, by what is done for tasks_when_read() or later; tasks_stopped()
 * then. */
int tasks_stop(struct tasks *q, uint64_t id, uint32_t element, bool now, unsigned int sweep,
	       struct err *e);
/* What came of it. 0: it is told to end; tasks_unwritten(). -ENOENT: what was told so does not have
 * the task, which may run elsewhere. Not known yet, to be asked again after another reading:
 * -EBUSY, whose it is; -EAGAIN, whether it could be written down. */
int tasks_stopped(const struct tasks *q, uint64_t id, uint32_t element, struct err *e);
/* Why that could not be written down of something that runs on for now; NULL: it was. */
const char *tasks_unwritten(const struct tasks *q, uint64_t id, uint32_t element);
/* Start nothing more; what runs runs on. */
void tasks_drain(struct tasks *q);
/* What runs is stopped, as view.life.how says; what is adopted from then on, too. */
void tasks_stop_all(struct tasks *q);
/* There is a queue. */
bool tasks_are_open(const struct tasks *q);
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
/* Those that run, or are about to. */
size_t tasks_running(const struct tasks *q);
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
