/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_RESERVING_H
#define TENURE_AGENT_RESERVING_H

/*
 * The devices that are collected for a task which waits for others: the plan says which, the guard
 * is told to hold them meanwhile.
 *
 *	reserving_plan(r, action)	each RESERVE, UNRESERVE and START, in the order of the plan
 *	reserving_tell(r, ...)		after a plan: what has changed goes to the guard
 *	reserving_on_reply(r, m)	it cannot, for now: told again after the next plan
 *	reserving_on_state(r, m)	what the guard has, when the line is up again
 *
 * What is told is the difference between what is wanted and what the guard has been told, and each
 * telling may be repeated, so nothing has to arrive in step with anything else. While an attempt of
 * ours has the device nothing is told: its lease takes the reservation's place, and the guard is
 * told anew afterwards.
 */

#include <stdbool.h>

#include "agent/node/guardlink.h"
#include "agent/node/view.h"
#include "sched/types.h"

struct reserving_slot {
	struct sched_ref want, told; /* id 0: nobody */
	bool stale;		     /* what was told may not be so any more */
};

struct reserving {
	struct reserving_slot slots[PROTO_DEVICES_MAX];
};

void reserving_plan(struct reserving *r, const struct sched_action *a);
/* busy: devices that attempts of ours have. Tries again after ops->leases_known where the line is
 * down. */
void reserving_tell(struct reserving *r, struct guardlink *link, const struct view *view,
		    struct devset busy);
void reserving_on_reply(struct reserving *r, const struct msg_lease_reply *m);
/* An attempt of ours has left these: the guard is told after the next plan if nothing is planned
 * there, because it waits a moment for that (hold/guard/lend.h). */
void reserving_on_left(struct reserving *r, struct devset devices);
/* The guard may be another one: what it was told is what it says that it was. Or it was told to
 * drop everything. */
void reserving_forget_told(struct reserving *r);
void reserving_on_state(struct reserving *r, const struct msg_lease_state *m);
/* Nothing is started any more, so nothing is collected. */
void reserving_clear(struct reserving *r);

#endif
