/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_GKIN_H
#define TENURE_HOLD_GUARD_GKIN_H

/*
 * Which task does a listed process belong to? To the one whose shim its parent chain reaches: the
 * shim is a subreaper, so what its tree leaves behind becomes its child. Found processes are
 * remembered by PID and start time, so that they stay the task's when the shim has been killed and
 * the chain leads elsewhere; so are their descendants. What cannot be read is foreign.
 *
 * Where lists show another namespace's numbers there is no chain: on a device that is lent a number
 * that was not there before is the task's.
 */

#include "hold/guard/types.h"

/* The lease on d to which pid belongs, or NULL. Reads /proc/PID/stat, once for a known process. */
struct glease *gkin_find(struct guard *g, const struct gdev *d, pid_t pid);

#endif
