/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_TASKSIN_H
#define TENURE_AGENT_TASKSIN_H

/*
 * The inside of the queue's agent, for the files that make it up: tasks.c (the plan and the spool),
 * leases.c (what the guard says), nodes.c (what ran before, and the agents of
 * other nodes). All of it on the loop.
 */

#include <limits.h>

#include "agent/attempt/attempt.h"
#include "agent/attempt/sweep.h"
#include "agent/attempt/workload.h"
#include "agent/orders.h"
#include "agent/queue/groupcommit.h"
#include "agent/queue/heartbeat.h"
#include "agent/queue/lanes.h"
#include "agent/queue/recovery.h"
#include "agent/queue/spoolwatch.h"
#include "agent/reserving.h"
#include "agent/tasks.h"

/* A stop that came to nothing, of a task that does not run any more: for who waits for the answer.
 */
struct vain_stop {
	struct sched_ref ref;
	bool elsewhere; /* it runs here no more, or never did, and may elsewhere */
	char why[ERR_TEXT_MAX];
};

#define VAIN_STOPS_MAX 64

struct tasks {
	uv_loop_t *loop;
	const struct agent_config *c;
	const struct node_self *self;
	char *spool_dir;
	char run_dir[PATH_MAX]; /* nodes_find_places() */
	struct attempt_place place;
	struct sweep_place sweeping;
	struct spooler *spooler;
	struct heartbeat *heartbeat;
	struct recovery *recovery;
	struct spoolwatch *spoolwatch;
	unsigned int told_devices; /* in the last sign of life */
	struct sched_queue *plan;
	struct vain_stop vain[VAIN_STOPS_MAX]; /* the last ones */
	unsigned int n_vain;
	struct stop_job *stops; /* that are being written down */
	struct orders *orders;
	struct lanes lanes;
	uv_timer_t plan_timer;
	struct groupcommit *groupcommit;
	uv_timer_t lease_timer; /* running tasks of which the guard could not take the lease */
	unsigned int handles;
	size_t n_leases;
	struct msg_lease_state *leases; /* as the guard told them when the line came up */
	bool leases_known;
	struct reserving reserving;
	struct workload *workload;
	bool unwatched; /* nobody sees who comes: no workload */
	bool paused;	/* the agent is about to stop, or is stopped (Ctrl-Z) */
	bool ending, draining;
	int claim_code; /* why nothing could be claimed last; 0 */
	uint64_t n_done, n_failed, n_retried;
	const struct tasks_ops *ops;
	void *user;
};

/* Devices of runs. */
struct devset tasks_busy_devices(const struct tasks *q);
/* A plan in the next turn of the loop. */
void tasks_plan_soon(struct tasks *q);
/* Why there is no queue; it is tried again. */
void tasks_no_queue(struct tasks *q, const char *why);
/* What an earlier agent has started. */
void tasks_adopt(struct tasks *q, struct attempt *run);
/* That its owner wants it ended is written into its claim, by the spooler. */
void tasks_write_stop(struct tasks *q, const struct attempt *run);

#endif
