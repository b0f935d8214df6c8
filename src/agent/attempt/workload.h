/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_WORKLOAD_H
#define TENURE_AGENT_ATTEMPT_WORKLOAD_H

/*
 * --workload, the idle workload: a command of the user's own on each device that would be held,
 * instead of the holder.
 *
 *	w = workload_new(&config);
 *	workload_look(w, wanted, busy)	after each plan: starts it where a device has been idle for
 *					long enough, ends it where it is not wanted
 *	workload_stop(w, slot, why)	a task needs the device
 *	workload_on_state(w, m)		a lease of LEASE_WORKLOAD that the guard has
 *	workload_free(w)		what runs runs on, without an agent for SPEC_ALONE_MS
 *
 * It is run as a task is (lease, shim, grant, GO; the whole tree is ended), and so is a kind of
 * attempt, but is none: nothing of it is in the spool, and every task preempts it. People preempt
 * it as they do a preemptible task, by LEASE_PREEMPTIBLE. All of it on the loop.
 */

#include "agent/attempt/attempt.h"
#include "sched/queue.h"

struct workload;

struct workload_config {
	const char *log_dir;
	struct attempt_place
		*place; /* of its attempts, which outlives this, with its config: where
			   that has no command, only what an earlier agent left is ended */
	struct sched_queue *plan;
	/* A device is free of it, or one has it: plan again. */
	void (*changed)(void *user);
	void *user;
};

/* log_dir is copied. */
struct workload *workload_new(const struct workload_config *config);
/* By slot; valid as long as w. */
const struct view_workload *workload_view(const struct workload *w);

/* busy: devices that a task has, or is about to have, whatever the guard has said of them yet. */
void workload_look(struct workload *w, bool wanted, struct devset busy);
void workload_stop(struct workload *w, uint32_t slot, const char *why);
void workload_stop_all(struct workload *w, const char *why);
/* Once a second: without a word from us it ends, since a stopped agent cannot yield to people. */
void workload_attend(const struct workload *w);
/* Devices that have it, or are about to, or are not free of it yet. */
struct devset workload_devices(const struct workload *w);

/* NULL: there is none. */
struct attempt *workload_by_lease(const struct workload *w, const struct lease_id *id);
/* A lease that the guard has, after the line came up: of an agent before us where we know nothing
 * of it. Not before the spool is open. */
void workload_on_state(struct workload *w, const struct msg_lease_state *m);
/* All have been told: tell the guard again what it does not know. */
void workload_on_guard(struct workload *w);

/* The place's spooler is idle. */
struct workload *workload_free(struct workload *w);

#endif
