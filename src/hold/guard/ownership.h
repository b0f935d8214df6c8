/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_OWNERSHIP_H
#define TENURE_HOLD_GUARD_OWNERSHIP_H

/*
 * Whose process is this: ours, a task's, the owner's explicit exception, or foreign. Reads nothing
 * but /proc/PID/stat and the like, so that it never waits for another process's memory.
 */

#include "hold/guard/types.h"

enum ownership {
	OWN_FOREIGN,
	OWN_HOLDER,  /* one of this guard's holders */
	OWN_DYING,   /* a holder of ours whose guard is gone: it is on its way out */
	OWN_IGNORED, /* --ignore-pid, --my-cgroup */
	OWN_TASK,    /* of a task to which the device is lent */
	OWN_MAYBE,   /* may be the holder that is just starting, under another number */
};

enum ownership own_classify(struct guard *g, const struct device *d, const struct gpu_proc *p);

/*
 * By the last look and c's own exceptions and idle_below, nothing foreign is on d, which is not
 * held. Whoever owns d: several instances may want it, each by its own rule.
 */
bool own_is_clear_for(struct guard *g, const struct client *c, const struct device *d);

/* It was in d's list when d's holder was started. */
bool own_was_before(const struct device *d, pid_t pid);

/*
 * A holder of d has its context and look was taken after that: learn under which number it is
 * listed, and with that how process lists work here (enum pid_class).
 */
void own_learn(struct guard *g, struct device *d, const struct gpu_look *look);

/* Somebody was here who is in no list: the class says so from now on. */
void own_lower_class(struct guard *g);

/*
 * Which task does a listed process belong to? To the one whose shim its parent chain reaches: the
 * shim is a subreaper, so what its tree leaves behind becomes its child. Found processes are
 * remembered by PID and start time, so that they stay the task's when the shim has been killed and
 * the chain leads elsewhere; so are their descendants. What cannot be read is foreign.
 *
 * Where lists show another namespace's numbers there is no chain: on a device that is lent a number
 * that was not there before is the task's.
 *
 * Returns the lease on d to which pid belongs, or NULL. Reads /proc/PID/stat, once for a known
 * process.
 */
struct lease *descendants_find(struct guard *g, const struct device *d, pid_t pid);

#endif
