/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_GSTEP_H
#define TENURE_HOLD_GUARD_GSTEP_H

/*
 * One step of a device through the state table (state.h): the action that the table names, the new
 * state, and what is recorded of both. For device.c, hold.c and lend.c.
 */

#include "hold/guard/types.h"

/* Context kept after a yield: the newcomer starts undisturbed. */
#define GSTEP_LINGER_NS (2 * NS_PER_S)

/* Apply one event. True when the table had a step for it. */
bool gstep(struct guard *g, struct gdev *d, enum dev_event event);

/* The halves of it, where something has to be done between them. */
void gstep_act(struct gdev *d, enum dev_action action);
void gstep_enter(struct guard *g, struct gdev *d, enum dev_state next);

/* Begin the record of letting go; told when the memory is free. */
void gstep_record(struct gdev *d, enum event_kind kind, uint64_t verdict_ns);

/* The idle time that is asked of d before it is held, and that set for the clock that runs. */
uint64_t gstep_wait(const struct guard *g, const struct gdev *d);
/* The same by the policy p of an instance that selects it, too. */
uint64_t gstep_wait_by(const struct hold_policy *p, const struct gdev *d);
void gstep_set_wait(struct guard *g, struct gdev *d);

#endif
