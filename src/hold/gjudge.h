/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GJUDGE_H
#define TENURE_HOLD_GJUDGE_H

/*
 * What a look at one device means: is anything foreign there, and who is it. Makes no driver call
 * and tells nobody; d->sight is what was seen, d->reason gets the phrase for people.
 */

#include "hold/gstate.h"

#define GJUDGE_RISE_NS NS_PER_S /* memory that rose is foreign after that, whatever the lists say  \
				 */

enum verdict {
	SEEN_CLEAR,
	SEEN_FOREIGN, /* process, or memory of one */
	SEEN_UNFIT,   /* not to be held, whoever uses it */
};

/*
 * The verdict on d's last look. *ret_who is the foreign process, or NULL where only memory shows.
 * The reason is set for everything but SEEN_CLEAR, except where a process is the cause:
 * gjudge_name() does that later, because it reads /proc.
 */
enum verdict gjudge(struct guard *g, struct gdev *d, const struct gpu_proc **ret_who);

/* Set d->who_* and the reason to that process; how long it was on its way goes to the record. */
void gjudge_name(struct guard *g, struct gdev *d, const struct gpu_proc *who);

/* Somebody may be here who is in no list. */
bool gjudge_may_hide(const struct guard *g);

#endif
