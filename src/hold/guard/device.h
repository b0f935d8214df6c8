/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_DEVICE_H
#define TENURE_HOLD_GUARD_DEVICE_H

/* One device in the guard: what is seen of it, what the policies want, and what follows. */

#include "hold/guard/types.h"

/* The eyes saw something new of d (d->sight is filled). */
void gdev_on_sight(struct guard *g, struct gdev *d);

/* The policies changed: d belongs to client owner (-1: to nobody), and leaver's policy leaves it
 * for others (-1: nobody's does). */
void gdev_assign(struct guard *g, struct gdev *d, int owner, int leaver);

/* d, which nobody wanted, is somebody's business again. */
void gdev_take(struct guard *g, struct gdev *d);

/* Let go of d because nobody wants it held any more. */
void gdev_unwant(struct guard *g, struct gdev *d, const char *reason);

/* Its owner, under whose policy `before` it is held, has another policy now. */
void gdev_adapt(struct guard *g, struct gdev *d, const struct hold_policy *before);

/* We cannot see any more: let go of d if it is held. */
void gdev_blind(struct guard *g, struct gdev *d, const char *reason);

/* Start the idle clock again from now. */
void gdev_reset_idle(struct gdev *d, uint64_t now_ns);

/* What time brings: limits of holders, contexts to drop, load cycle, growing. */
void gdev_on_time(struct guard *g, struct gdev *d, uint64_t now_ns);

/*
 * Take @tenure/dev/UUID, by which tenures of several users tell each other that they hold or lend a
 * device. False: somebody has it, and e says who. That is advice: whoever likes can take any name,
 * so it keeps no task from anything, and puts a hold off for a while only.
 */
bool gdev_lock(struct gdev *d, struct err *e);
/* The same before a hold of an idle device: false while the name is another's and is heeded. */
bool gdev_may_hold(struct gdev *d, struct err *e);
/* Of those who have connected there some: by that they know whose it is, and there is nothing to
 * talk about. Now and then, so that it costs nothing however many they are. */
void gdev_turn_away(struct gdev *d);
/* Give it back where neither a holder nor a lease needs it. */
void gdev_unlock(struct gdev *d);

void gdev_say(struct gdev *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
