/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_LANES_H
#define TENURE_AGENT_LANES_H

/*
 * Lanes and limited arrays of which this agent starts the tasks (spool/laneowner.h). One is taken
 * when the plan starts something of it; where another agent has it, all of it waits here, with that
 * reason, and the plan may try again after a while. What has had nothing running for a while is let
 * go of.
 *
 *	lanes_take(place, ref, &m)	in a spooler job: before the claim
 *	lanes_met(q, &m)		on the loop: what came of it
 *	lanes_look(q)			on the loop, now and then
 */

#include "agent/queue/spooler.h"
#include "sched/types.h"
#include "spool/laneowner.h"

struct tasks;

/* What a start met. */
struct lanes_met {
	uint64_t id;			/* of the task */
	char keys[2][LANE_KEY_MAX];	/* that are ours now: its lane, its array; "": none */
	char blocked[LANE_KEY_MAX];	/* or the one that is elsewhere */
	char owner[NAME_AGENT_MAX + 1]; /* of it */
};

/* 0, LANE_ELSEWHERE, or negative. */
int lanes_take(struct spool_place *p, const struct task_name *n, struct lanes_met *ret,
	       struct err *e);
void lanes_met(struct tasks *q, const struct lanes_met *m);
/* One that an earlier agent of this name left, or that could not be let go of. */
void lanes_found(struct tasks *q, const char *key);
void lanes_look(struct tasks *q);
void lanes_clear(struct tasks *q);

/* Of the spooler's place. */
void lanes_forget_epochs(struct spool_place *p);

#endif
