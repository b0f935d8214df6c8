/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_LIFECYCLE_H
#define TENURE_AGENT_LIFECYCLE_H

/*
 * The agent's life: a phase, and a table of what each event makes of it (enum life_phase is in
 * node/view.h, since the status tells it).
 *
 *	STARTING -> SERVING -> CLEARING -> RELEASING -> FLUSHING -> the loop ends
 *
 * On the way from SERVING it may drain: it starts no more tasks and holds nothing more, waits until
 * those that run have ended, by themselves or because they are stopped, and then shuts down. Once
 * begun that goes on by itself, whoever asked for it may be gone. It may begin before the agent
 * serves: what an earlier one left is found all the same, and stopped if it is to be.
 *
 * Ctrl-Z is none of the phases but lies over them: all is let go of, we stop, and resume where we
 * were.
 */

#include <stdbool.h>

#include "agent/node/view.h"
#include "agent/queue/order.h"

struct agent;
struct ctl_client;

enum life_event {
	LIFE_READY,	   /* the guard has taken the policy */
	LIFE_REFUSED,	   /* it has not; cause: why */
	LIFE_FATAL,	   /* there is no guard, or no GPU; cause: end, code, why */
	LIFE_DRAIN,	   /* cause: how, why */
	LIFE_NOTHING_RUNS, /* no task does, as far as can be known; cause: why it drains */
	LIFE_SHUTDOWN,	   /* cause: why, and end where it is not AGENT_ENDED */
	LIFE_CLEARED,	   /* the workload has ended */
	LIFE_DROPPED,	   /* the guard holds nothing for us any more */
	LIFE_LATE,	   /* what is due in this phase has not come */
	LIFE_EVENT_MAX
};

enum life_action {
	LIFE_NOTHING,
	LIFE_BECOME_READY,
	LIFE_GIVE_UP, /* with an error: somebody waits for the answer */
	LIFE_TELL,    /* and try again */
	LIFE_RESEND_LATER,
	LIFE_RESEND,
	LIFE_BEGIN_DRAIN,
	LIFE_STOP_TASKS, /* it ends already: only that */
	LIFE_SHUT_DOWN,
	LIFE_DROP,
	LIFE_FINISH,
	LIFE_FLUSH_STEP,
	LIFE_ACTION_MAX
};

struct life_step {
	enum life_phase next;
	enum life_action action; /* after the phase has been entered */
};

/* Pure. Where nothing happens: the phase itself, and LIFE_NOTHING. */
struct life_step life_step(enum life_phase phase, enum life_event event);

struct life_cause {
	enum drain_how how;
	enum agent_end end;
	int code;
	const char *why; /* a sentence without its end */
};

struct lifecycle *lifecycle_new(struct agent *a);
/* The first phase. */
void lifecycle_start(struct agent *a);
/* Its memory goes with its handles in the loop. */
void lifecycle_close(struct agent *a);

void life_post(struct agent *a, enum life_event event, const struct life_cause *cause);
/* Let go of everything, then end. */
void life_shut_down(struct agent *a, const char *why);
/* First the tasks, then the agent. What is there already only rises. */
void life_drain(struct agent *a, enum drain_how how, const char *why);
/* The job that it runs in ends in so long. */
void life_job_ends(struct agent *a, uint64_t left_ms);
/* Somebody said so in control/, on this node or another. */
void life_order(struct agent *a, enum order_how how);
/* The guard has let go of everything, as it was asked to. */
void life_dropped(struct agent *a);
/* A task is over, or the workload on a device, or it is known what ran before. */
void life_look(struct agent *a);
/* Once a second: whether the queue has been empty for long enough (--on-empty). */
void life_look_idle(struct agent *a);
/* Other deadlines than before. */
void life_deadlines_changed(struct agent *a);
/* The guard is told what to hold now. */
void life_tell_policy(struct agent *a);

/* It waits for the end, and is answered when all is free. */
void life_add_client(struct agent *a, struct ctl_client *client);
void life_forget_client(struct agent *a, struct ctl_client *client);

#endif
