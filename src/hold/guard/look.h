/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LOOK_H
#define TENURE_HOLD_GUARD_LOOK_H

/*
 * What follows for a device from a look at it, or from time that passes without one. Everything
 * that happens to it becomes an event of the state table (device_state.c), and device.h does what
 * the table says.
 */

#include "hold/guard/types.h"

/* The eyes saw something new of d (d->sample is filled). */
void look_on_sample(struct guard *g, struct device *d);

/* We cannot see any more: let go of d if it is held. */
void look_blind(struct guard *g, struct device *d, const char *reason);

/* What time brings: limits of holders, contexts to drop, load cycle, growing. */
void look_on_time(struct guard *g, struct device *d, uint64_t now_ns);

#endif
