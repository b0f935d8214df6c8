/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_DEVICE_H
#define TENURE_HOLD_GUARD_DEVICE_H

/*
 * One device in the guard: what is said of it, the name by which tenures of several users tell each
 * other that they have it, its steps through the state table, and what the policies want of it.
 */

#include "gpu/xid.h"
#include "hold/guard/types.h"

/* One step through the state table (device_state.h): the action that it names, the new state, and
 * what is told of both. True when the table had a step for it. */
bool device_step(struct guard *g, struct device *d, enum dev_event event);

/* The halves of it, where something has to be done between them. */
void device_act(struct device *d, enum dev_action action);
void device_enter(struct guard *g, struct device *d, enum dev_state next);

/* Begin the record of letting go; told when the memory is free. */
void device_record(struct device *d, enum event_kind kind, uint64_t verdict_ns);

/* The idle time that is asked of d before it is held, and that set for the clock that runs. */
uint64_t device_wait(const struct guard *g, const struct device *d);
/* The same by the policy p of an instance that selects it, too. */
uint64_t device_wait_by(const struct hold_policy *p, const struct device *d);
void device_set_wait(struct guard *g, struct device *d);

/* The policies changed: d belongs to client owner (-1: to nobody), and leaver's policy leaves it
 * for others (-1: nobody's does). */
void device_assign(struct guard *g, struct device *d, int owner, int leaver);

/* Let go of d if need be, and then leave it alone; called again until that is done. */
void device_leave(struct guard *g, struct device *d);

/* d, which nobody wanted, is somebody's business again. */
void device_take(struct guard *g, struct device *d);

/* Let go of d because nobody wants it held any more. */
void device_unwant(struct guard *g, struct device *d, const char *reason);

/* Start the idle clock again from now. */
void device_reset_idle(struct device *d, uint64_t now_ns);

/*
 * Take @tenure/dev/UUID, by which tenures of several users tell each other that they hold or lend a
 * device. False: somebody has it, and e says who. That is advice: whoever likes can take any name,
 * so it keeps no task from anything, and puts a hold off for a while only.
 */
bool device_lock(struct device *d, struct dev_reason *why);
/* The same before a hold of an idle device: false while the name is another's and is heeded. */
bool device_may_hold(struct device *d, struct dev_reason *why);
/* Of those who have connected there some: by that they know whose it is, and there is nothing to
 * talk about. Now and then, so that it costs nothing however many they are. */
void device_turn_away(struct device *d);
/* Give it back where neither a holder nor a lease needs it. */
void device_unlock(struct device *d);

void device_say(struct device *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void device_say_reason(struct device *d, const struct dev_reason *r);

/* "; XID 79 (GPU has fallen off the bus)" behind a reason; empty where there was no error (xid.h).
 * Returns buf. */
char *device_xid_suffix(const struct device *d, char buf[XID_TEXT_MAX + 2]);

#endif
