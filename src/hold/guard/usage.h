/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_USAGE_H
#define TENURE_HOLD_GUARD_USAGE_H

/*
 * How much of a device a task uses: for the trailer of its log, for its end in the spool, and for
 * the planner, which may then count what was promised and is in use once. Taken from looks that are
 * made anyway. For the guard's thread.
 */

#include "hold/guard/types.h"

/* d was looked at, and l, which is on it, knows its processes. Sets DUE_USE where it is time. */
void lease_usage_on_look(struct guard *g, const struct device *d, struct lease *l);

/* What MSG_LEASE_USE says now. */
struct msg_lease_use lease_usage_message(struct lease *l);

#endif
