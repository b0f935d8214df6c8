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
void lend_begin(struct guard *g, struct device *d);

/* A task of ours came to a device that is held: let go as for a newcomer, and record it as what it
 * is. who may be NULL: its memory moved, and it is listed a little later. */
void lend_on_ours(struct guard *g, struct device *d, const struct gpu_proc *who);

/* Somebody foreign is on a device that is lent, or just being lent. who may be NULL. */
void lend_on_neighbour(struct guard *g, struct device *d, const struct gpu_proc *who);

/* d, which is lent, was looked at: say who has it; after its last lease take it home. True: it is
 * home and idle, and its owner may hold it now. */
bool lend_on_sample(struct guard *g, struct device *d, enum verdict v, const struct gpu_proc *who);

/* Say who has d, which is lent, by its last look, where something else that is said of it has
 * changed since. */
void lend_say(struct guard *g, struct device *d);

/*
 * Between two tasks of a chain: d has come home, and its memory is not taken before the agent has
 * said what comes next, or a bounded time has passed. It is promised to the next task, so that its
 * context alone waits for the grant; or the agent has planned, and nothing is to run there.
 */
void lend_on_promise(struct device *d);
void lend_on_no_next(struct guard *g, struct device *d);

/* End our context beside the task when it has no use there any more. */
void lend_drop_placeholder(struct guard *g, struct device *d);

#endif
