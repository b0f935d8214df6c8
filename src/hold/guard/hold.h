/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_HOLD_H
#define TENURE_HOLD_GUARD_HOLD_H

/*
 * The hold on one device: when it is due, its start, what its holder says, its limits and its end.
 * holder_process.h has the process itself.
 */

#include "hold/guard/types.h"

/* Idle for long enough by its owner's policy, looking at this device alone. */
bool hold_ripe(struct guard *g, const struct device *d, uint64_t now_ns);

/* When it is to be held as far as can be told now; 0: that depends on others. */
uint64_t hold_at(struct guard *g, const struct device *d);

/* Its owner, or a lease, wants it held, so that a context of ours on it has a future. */
bool hold_has_future(struct guard *g, const struct device *d);

/* Hold it now. Does nothing when something stands in the way; d->said.reason then says what. */
void hold_begin(struct guard *g, struct device *d);

/* Its owner, under whose policy `before` it is held, has another policy now. */
void hold_adapt(struct guard *g, struct device *d, const struct hold_policy *before);

/* The reason of a device that is held: for whom. */
void hold_say_held(struct guard *g, struct device *d);

/* d's holder said something, or its socket ended. */
void hold_on_holder(struct guard *g, struct device *d);

/* d's holder process may have ended. */
void hold_on_child(struct guard *g, struct device *d);

/* Whose windows there are has changed: tell all holders. Called when nothing more pressing is due.
 */
void hold_tell_windows(struct guard *g);

/* d was looked at and is held: take the memory figure of the hold when it is due. */
void hold_note_settled(struct guard *g, struct device *d);

/* What time brings. A holder that takes too long is ended; */
void hold_check_limits(struct guard *g, struct device *d, uint64_t now);
/* one that could not have all at first takes more, never while anything foreign may be there; */
void hold_grow(struct guard *g, struct device *d, uint64_t now);
/* and what is held for a promise, for which there is no refresh clock, is held. */
void hold_promised(struct guard *g, struct device *d, uint64_t now);

/* The ledger wants d held for a promise, or does not any more. */
void hold_want_promised(struct guard *g, struct device *d, bool wanted);

#endif
