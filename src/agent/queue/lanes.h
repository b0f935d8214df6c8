/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_QUEUE_LANES_H
#define TENURE_AGENT_QUEUE_LANES_H

/*
 * Lanes and limited arrays, as far as this agent starts something of them: whose they are
 * (spool/lane.h), which lanes are paused (spool/lane.h), and how often in a row something of
 * them has failed.
 *
 * A lane is taken when the plan starts something of it; where another agent has it, all of it waits
 * here, with that reason, and the plan may try again after a while. What has had nothing running
 * for a while is let go of.
 *
 *	lanes_claim(place, name, &m)	in a spooler job: before the task is claimed
 *	lanes_met(l, &m)		on the loop: what came of it
 *	lanes_look(l)			on the loop, now and then
 */

#include <stdbool.h>

#include "agent/queue/spooler.h"
#include "sched/queue.h"
#include "sched/retry.h"
#include "spool/lane.h"
#include "spool/task_spec.h"

struct lanes {
	struct sched_queue *plan;
	struct spooler *spooler;
	/* The plan may start something that it could not; NULL: nobody plans. */
	void (*changed)(void *user);
	/* Whether anything runs of that lane, as sched_lane() names it; 0: of that array. What has
	 * ended runs until that is written. NULL: nothing does. */
	bool (*runs)(void *user, uint32_t lane, uint64_t array);
	void *user;
	/* Its own. */
	struct lanes_owner *owners;
	struct text_list paused, reasons;
	struct lanes_streak *streaks;
};

/* What a start met. */
struct lanes_met {
	uint64_t id;			/* of the task */
	char keys[2][LANE_KEY_MAX];	/* that are ours now: its lane, its array; "": none */
	char blocked[LANE_KEY_MAX];	/* or the one that is elsewhere */
	char owner[NAME_AGENT_MAX + 1]; /* of it */
};

/* 0, LANE_ELSEWHERE, or negative. */
int lanes_claim(struct spool_place *p, const struct task_name *n, struct lanes_met *ret,
		struct err *e);
/* Of the spooler's place. */
void lanes_forget_epochs(struct spool_place *p);

void lanes_met(struct lanes *lanes, const struct lanes_met *m);
/* One that an earlier agent of this name left, or that could not be let go of. */
void lanes_found(struct lanes *lanes, const char *key);
void lanes_look(struct lanes *lanes);

/* One more is paused, or with another reason. True: it was not before. */
bool lanes_pause(struct lanes *lanes, const char *lane, const char *reason);
/* These are, and no others. True: something has changed. */
bool lanes_set_paused(struct lanes *lanes, const struct text_list *paused,
		      const struct text_list *reasons);

/* Failures in a row, of a lane, or of a task that has none: lane is NULL or "" then. Made if need
 * be, and valid until it is dropped. They do not outlive the agent: who starts it again wants the
 * queue to go on. */
struct retry_streak *lanes_streak(struct lanes *lanes, const char *lane, uint64_t id);
/* A task without a lane has ended for good. */
void lanes_streak_drop(struct lanes *lanes, uint64_t id);

void lanes_clear(struct lanes *lanes);

#endif
