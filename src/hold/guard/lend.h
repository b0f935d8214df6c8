/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_LEND_H
#define TENURE_HOLD_GUARD_LEND_H

/*
 * A device that goes to a task of ours and comes back: from the grant to the hold that follows. The
 * ledger (lease.h) says whose it is, this says what the device does about it.
 */

#include "hold/guard/types.h"
#include "hold/guard/verdict.h"

/* A task was granted. A device that is held stays so until the task comes; another is lent now. */
void glend_begin(struct guard *g, struct gdev *d);

/* A task of ours came to a device that is held: let go as for a newcomer, and record it as what it
 * is. who may be NULL: its memory moved, and it is listed a little later. */
void glend_on_ours(struct guard *g, struct gdev *d, const struct gpu_proc *who);

/* Somebody foreign is on a device that is lent, or just being lent. who may be NULL. */
void glend_on_neighbour(struct guard *g, struct gdev *d, const struct gpu_proc *who);

/* d, which is lent, was looked at: say who has it; after its last lease take it home. True: it is
 * home and idle, and its owner may hold it now. */
bool glend_on_sight(struct guard *g, struct gdev *d, enum verdict v, const struct gpu_proc *who);

/*
 * Between two tasks of a chain: d has come home, and its memory is not taken before the agent has
 * said what comes next, or a bounded time has passed. It is promised to the next task, so that its
 * context alone waits for the grant; or the agent has planned, and nothing is to run there.
 */
void glend_on_promise(struct gdev *d);
void glend_on_no_next(struct guard *g, struct gdev *d);

/* End our context beside the task when it has no use there any more. */
void glend_drop_placeholder(struct guard *g, struct gdev *d);

#endif
