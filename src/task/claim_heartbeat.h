/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TASK_CLAIM_HEARTBEAT_H
#define TENURE_TASK_CLAIM_HEARTBEAT_H

/*
 * A shim keeps its claim alive: every heartbeat a thread, which may hang with the spool's
 * filesystem, rewrites agents/ID,eEPOCH (heartbeat_keep()). The thread begins with the first
 * heartbeat, so that a short task has none.
 *
 * With each one it looks whether another agent serves the instance. While that is so, and always in
 * a job of an engine, whose node may be lost while the next job waits, it promises
 * that the task ends when none could be written for the fence time, which is 4/5 of the time after
 * which others take the claim over. Alone, nothing is promised and nothing is ended. Before the
 * first one is written nobody has been told that we are alone, so it is not relied on.
 *
 *	claim_heartbeat_init(&k, &spec, &self, wake_fd, &e)
 *	claim_heartbeat_look(&k, &grace_ms)	whenever timer_fd or wake_fd is readable
 *	claim_heartbeat_leave_record(&k, &record)
 *		at the end, where no agent was there to be told, or others may have to file it:
 *		claim_heartbeat_has_begun()
 *
 * The task gets its grace out of what is left of the promise, and none where nothing is. Time is
 * measured with CLOCK_BOOTTIME, and so is the wait for the fence: a machine that sleeps cannot
 * write, and the first thing that it does when it wakes is to look.
 */

#include <stdatomic.h>

#include "task/end_record.h"
#include "task/launch_spec.h"

enum claim_state {
	CLAIM_KEPT,
	CLAIM_LATE, /* it could not be kept alive for the fence time */
	CLAIM_LOST, /* the claim is not there any more: somebody else has the task */
};

struct claim_heartbeat {
	const struct launch_spec *spec;
	struct proc_id self;
	int wake_fd;	   /* an eventfd, written to when there is something to look at */
	int timer_fd;	   /* -1: nothing is kept */
	uint64_t look_ns;  /* CLOCK_BOOTTIME: when timer_fd is readable; UINT64_MAX: never */
	uint64_t begin_ns; /* of the first heartbeat */
	bool begun;
	_Atomic uint64_t
		kept_ns; /* CLOCK_BOOTTIME: when the last heartbeat that was written began */
	_Atomic uint64_t fence_timeout_ms; /* that it carried */
	_Atomic bool lost;
};

/* The spec must outlive k; without heartbeats in it, nothing is kept. 0 or -errno. */
int claim_heartbeat_init(struct claim_heartbeat *k, const struct launch_spec *spec,
			 const struct proc_id *self, int wake_fd, struct err *e);
/* CLAIM_LATE: *ret_grace_ms from now to KILL, in time for those who wait; 0: at once. */
enum claim_state claim_heartbeat_look(struct claim_heartbeat *k, uint32_t *ret_grace_ms);
/* It has run for a heartbeat: another agent, which may come at any time, looks at this claim by
 * itself, and takes over what is not filed. */
bool claim_heartbeat_has_begun(const struct claim_heartbeat *k);
/* The record of the end into the spool, tried until it is there or the claim is not. May take as
 * long as the filesystem does not answer; a spool that is not there for two minutes is gone. */
void claim_heartbeat_leave_record(struct claim_heartbeat *k, const struct task_record *r);

#endif
