/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ATTEMPT_RESIZE_H
#define TENURE_AGENT_ATTEMPT_RESIZE_H

/*
 * A task that runs gets one device more, or gives one back: the steps, one after the other. Whether
 * it does is decided in agent/scaling.h.
 *
 *	grow	LEASE -> GRANT for its shim -> the claim tells the devices -> the file does
 *	shrink	the file tells the devices without it -> its processes have left it
 *		-> the claim tells -> UNLEASE of that one
 *
 * The order is such that an agent that ends between any two of them leaves one state: what the
 * claim tells is what the task has. The next agent leases that again, gives back what the guard's
 * ledger has beyond it (agent/leases.c), and writes the file anew where it tells something else.
 * An agent has ended:
 *
 *	growing, before the claim	its program has not heard of the device, which is given back
 *	between claim and file		its program hears of the device from the next agent
 *	shrinking, before the claim	the device is in the file again
 *	between claim and UNLEASE	the next agent gives it back
 *
 * One change at a time. All of it on the loop, but for what jobs of the spooler write.
 */

#include <jansson.h>
#include <limits.h>

#include "agent/attempt/attempt.h"
#include "sched/scale.h"

enum resize_step {
	RESIZE_NONE,
	RESIZE_CHECKING,  /* what an agent before us may have left: the file is written */
	RESIZE_LEASING,	  /* the guard was asked for one more */
	RESIZE_GRANTING,  /* and told whose it is */
	RESIZE_ADDING,	  /* it is the task's: the claim is written, then the file */
	RESIZE_REMOVING,  /* the file is written without one */
	RESIZE_AWAITING,  /* its processes are to leave that */
	RESIZE_RELEASING, /* they have: the claim is written without it */
	RESIZE_RESTORING, /* they have not: the file is written with it again */
	RESIZE_STEP_MAX
};

/* Why one is given back. */
enum resize_reason { RESIZE_IDLE, RESIZE_UNUSED, RESIZE_TAKEN };

/* The last change, for people. */
struct resize_last {
	uint64_t wall_ns; /* 0: there was none */
	unsigned int from, to, index;
	const char *reason; /* "busy", "idle", "unused", "taken" */
	char uuid[96];
	char text[512];
};

struct resize {
	char file[PATH_MAX];
	enum resize_step step;
	uint64_t since_ns; /* monotonic: in this step */
	char uuid[96];	   /* the device that comes or goes */
	unsigned int index;
	unsigned int slot; /* of one that comes */
	enum resize_reason reason;
	char why[ERR_TEXT_MAX];
	struct resize_job *job; /* not done yet; the spooler's */
	/* Until the last change: the most at once, and time times their number. */
	unsigned int most;
	uint64_t gpu_ns, counted_ns;
	/* agent/scaling.c's own. */
	bool begun;		    /* scale_begin() */
	bool wants;		    /* one more, which the next plan is asked for */
	bool grown, used;	    /* the last device came by a change, and it has come to it */
	char taken[96];		    /* a device that somebody else has come to; "": none */
	char because[ERR_TEXT_MAX]; /* why it changes, */
	uint32_t mean;		    /* and how busy they were then; SCALE_UNKNOWN */
	struct scale_rule rule;
	struct scale scale;
	struct scale_at at;
	enum scale_verdict verdict;
	struct resize_last last;
};

/* Of a task whose claim is known: a->resize, if it may grow or shrink. */
void resize_begin(struct attempt *a);
/* For its file: what it has, but for one (NULL: all). The caller frees it. */
char *resize_text(const struct attempt *a, const char *without);

/* None is under way, and it runs. owner->resized tells what came of it, before this returns where
 * nothing could be begun. */
void resize_grow(struct attempt *a, unsigned int slot);
void resize_shrink(struct attempt *a, const char *uuid, enum resize_reason reason);
/* RESIZE_AWAITING: they have left; they have not, in all that time. */
void resize_left(struct attempt *a);
void resize_keep(struct attempt *a);
/* The file tells what it has, whatever an agent before us has left. */
void resize_check_file(struct attempt *a);

/* Words of the guard. True: it was about a change, and is not for the attempt. */
bool resize_on_promise(struct attempt *a, const struct msg_lease_reply *m);
bool resize_on_granted(struct attempt *a, const struct msg_lease_reply *m);
bool resize_on_taken(struct attempt *a, const struct msg_lease_taken *m);
/* It is a new one, or its line was down: nothing is promised any more. */
void resize_on_guard(struct attempt *a);
/* Its end is recorded next: what is not written yet does not matter any more. */
void resize_forget(struct attempt *a);

/* What it has had: devices, the most at once; and the sum of their times, where their number has
 * changed, else 0. */
unsigned int resize_most(const struct attempt *a);
uint64_t resize_gpu_ns(const struct attempt *a);

/* For its report: docs/json.md. NULL: it neither grows nor shrinks. */
json_t *resize_report(const struct attempt *a);

#endif
