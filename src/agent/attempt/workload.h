/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_WORKLOAD_H
#define TENURE_AGENT_ATTEMPT_WORKLOAD_H

/*
 * --workload: a command of the user's own on each device that would be held, instead of the holder.
 *
 *	f = fillers_new(&config);
 *	fillers_look(f, wanted)		after each plan: starts it where a device has been idle for
 *					long enough, ends it where it is not wanted
 *	fillers_stop(f, slot, ...)	a task needs the device
 *	fillers_on_...(f, m)		the guard's words on leases of LEASE_WORKLOAD
 *	fillers_free(f)			what runs runs on, without an agent for GUARD_ORPHAN_MS
 *
 * It is run as a task is (lease, shim, grant, GO; the whole tree is ended), but is none: nothing of
 * it is in the spool, and for the planner it is a filler, which gives way to every task. To people
 * it gives way as a preemptible task does, by LEASE_GIVES_WAY. All of it on the loop.
 */

#include <stdbool.h>

#include "agent/attempt/attempt.h"
#include "agent/node/view.h"
#include "sched/queue.h"

struct fillers;

struct fillers_config {
	const char *command; /* for /bin/sh -c; NULL: only what an earlier agent left is ended */
	const char *cwd;
	const char *log_dir;
	uint64_t grace_ms;
	struct attempt_place *place; /* of the runs, which outlives this */
	struct sched_queue *plan;
	/* A device is free of it, or one has it: plan again. */
	void (*changed)(void *user);
	void *user;
};

/* Strings are copied. */
struct fillers *fillers_new(const struct fillers_config *config);
/* By slot; valid as long as f. */
const struct view_workload *fillers_view(const struct fillers *f);

/* busy: devices that a task has, or is about to have, whatever the guard has said of them yet. */
void fillers_look(struct fillers *f, bool wanted, struct devset busy);
/* grace_ms UINT32_MAX: as configured. */
void fillers_stop(struct fillers *f, uint32_t slot, uint32_t grace_ms, const char *why);
/* Once a second: without a word from us they end, since a stopped agent can make no way for people.
 */
void fillers_attend(const struct fillers *f);
void fillers_stop_all(struct fillers *f, uint32_t grace_ms, const char *why);
/* Devices that have it, or are about to, or are not free of it yet. */
struct devset fillers_devices(const struct fillers *f);

void fillers_on_promise(struct fillers *f, const struct msg_lease_reply *m);
void fillers_on_granted(struct fillers *f, const struct msg_lease_reply *m);
void fillers_on_taken(struct fillers *f, const struct msg_lease_taken *m);
void fillers_on_unleased(struct fillers *f, const struct msg_unleased *m);
/* A lease that the guard has, after the line came up: of an agent before us where we know nothing
 * of it. Not before the spool is open. */
void fillers_on_state(struct fillers *f, const struct msg_lease_state *m);
/* All have been told: tell the guard again what it does not know. */
void fillers_on_guard(struct fillers *f);

/* The place's spooler is idle. */
struct fillers *fillers_free(struct fillers *f);

#endif
