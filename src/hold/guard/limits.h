/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LIMITS_H
#define TENURE_HOLD_GUARD_LIMITS_H

/*
 * max_devices: how many devices are held or used by tasks at a time. An instance's limit is about
 * its own, the site's about those of all instances of this user. A device that is held and promised
 * counts once. Tasks go before holds: for a task's device a hold elsewhere is let go, and for the
 * site's limit one of another instance as well. What is reserved is not.
 */

#include "base/err.h"
#include "hold/guard/types.h"

/* c may not hold d, being one device more. */
bool limit_is_full(const struct guard *g, const struct client *c, const struct device *d);
/* The same, and d's reason says why. */
bool limit_hold(const struct guard *g, const struct client *c, struct device *d);

/* c may not have d for a task, even if it held nothing. 0, or -EDQUOT with the reason. */
int limit_lease(const struct guard *g, const struct client *c, const struct device *d,
		struct dev_reason *why);

/* Let holds go until no limit is exceeded, those of c first: after its lease, or a new policy. */
void limit_trim(struct guard *g, struct client *c);

#endif
