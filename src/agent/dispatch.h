/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_DISPATCH_H
#define TENURE_AGENT_DISPATCH_H

/*
 * The instance's tasks on this node: what the spool says waits, what the planner starts, what runs
 * (agent/attempt/), what ended. All of it on the loop; the spool's files are read and written by
 * spooler jobs, one after another.
 *
 *	q = dispatch_new(&loop, ...);
 *	dispatch_start(q)	opens the spool, recovers, adopts what runs, begins to plan
 *	dispatch_look(q)	the devices have changed
 *	dispatch_end(q)		nothing more is started; what runs runs on, without us, and the
 *				workload is ended: dispatch_workloads() tells when
 *	dispatch_free(q)
 */

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "agent/node/guardlink.h"
#include "agent/node/view.h"
#include "agent/queue/spoolwatch.h"
#include "agent/report/eventlog.h"
#include "sched/types.h"

struct dispatch;
struct dispatch_ops; /* agent/dispatch_state.h */

/* What it works on is read of the view's configuration, which outlives it as the others do. */
struct dispatch *dispatch_new(uv_loop_t *loop, const struct view *view, struct eventlog *eventlog,
			      struct guardlink *link, const struct dispatch_ops *ops, void *user);
void dispatch_start(struct dispatch *q);
/* Lanes are as wide as the settings say: of a wider one more starts at once; of a narrower one what
 * runs runs on, and the next one waits until there are fewer. */
void dispatch_lane_widths(struct dispatch *q, const struct settings *s);

/* The view's devices have changed, or may have. Cheap; the planning is done once per turn. */
void dispatch_look(struct dispatch *q);
/* The guard says something of leases: an op of the guardlink, passed on. */
void dispatch_on_lease(struct dispatch *q, const struct msg_head *m);
/* Somebody put something into the spool (doorbell of a client on this node). */
void dispatch_rescan(struct dispatch *q);

/* What runs is stopped, as view.life.how says; what is adopted from then on, too. */
void dispatch_stop_all(struct dispatch *q);
/* What waits has been read, and can be. */
bool dispatch_is_known(const struct dispatch *q);
/* No pool wants it to be there when there is nothing to do (pool_ticks.h). */
bool dispatch_may_leave(struct dispatch *q);
/* As sched_is_empty() says, and nothing waits that is in no plan yet. */
bool dispatch_is_empty(const struct dispatch *q);
/* Devices that have the workload, or are not free of it yet; no task is counted. */
size_t dispatch_workloads(const struct dispatch *q);
/* By slot; valid as long as q. */
const struct view_workload *dispatch_workload_view(const struct dispatch *q);
/* The same of devices that get no tasks: agent/device_trust.h. */
const struct view_quarantine *dispatch_quarantine_view(const struct dispatch *q);
/* Once a second. why: nobody watches the devices for people, so nothing of it runs there; NULL. */
void dispatch_watch_workload(struct dispatch *q, const char *why);
/* While the agent is stopped (Ctrl-Z) nothing of the workload runs, and nothing is held for tasks
 * that wait for more: the guard drops that, and is told anew afterwards. */
void dispatch_pause(struct dispatch *q, bool pause);
/* Something runs, commands that follow the end of a task among it, or it is not known yet whether
 * an earlier agent has left something. */
bool dispatch_may_run(const struct dispatch *q);
/* Why that cannot be known; NULL: it is, or will be. */
const char *dispatch_unseen(const struct dispatch *q);
/* What it waits for: {"why": one sentence, "reason": sched/reason.h, "elsewhere": this node will
 * not start it, another one may}. -ENOENT with e: it is not known here, which may change with what
 * dispatch_when_read() reads. 0 and a new reference, or negative. */
int dispatch_why(struct dispatch *q, uint64_t id, uint32_t element, json_t **ret, struct err *e);

/* When what waits starts, as far as that can be estimated: {"tasks": [{"id", "element", and what
 * forecast_json() gives}]}. New reference. */
json_t *dispatch_forecast(const struct dispatch *q);

/* What each that waits waits for, in a few words: {"groups": [{"code", "text", "tasks": [id, or
 * [id, element] of a part of a batch]}]}; a group without "tasks" is all. New reference. */
json_t *dispatch_reasons(struct dispatch *q);

/* As spoolwatch_when_read(). */
int dispatch_when_read(struct dispatch *q, struct spool_reader *r);
void dispatch_forget_reader(struct dispatch *q, const struct spool_reader *r);

/* For the status: counts, and what runs. */
json_t *dispatch_report(const struct dispatch *q);

void dispatch_end(struct dispatch *q, const char *why);
/* What it had to write when it was ended (dispatch_end()) has been written. */
bool dispatch_is_quiet(const struct dispatch *q);
/* -EBUSY: a file hangs; not all is freed, the process is expected to end. */
int dispatch_free(struct dispatch *q);

#endif
