/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_DEVICE_STATE_H
#define TENURE_HOLD_DEVICE_STATE_H

/*
 * The life of one device, as one table [state][event] -> { next state, action }. Pure: no clock, no
 * driver. The actions are idempotent and look only at the device, so that repeating one is
 * harmless.
 *
 *     busy -> idle -> holding -> held -> yielding -> busy         for somebody else
 *                                  +--> lending -> lent -> idle   for a task of ours
 *
 * A promise is no state of its own: it is an entry of the ledger (guard/lease.h), and a device that
 * is promised is busy, idle or held like any other. That it is to be held meanwhile changes who
 * wants the hold and not how it is held.
 *
 * An event that a state has no row for leaves the state as it is and does nothing.
 */

#include <stdbool.h>
#include <stdint.h>

enum dev_state {
	DEV_BUSY,     /* not idle, or not to be held; the reason says why */
	DEV_IDLE,     /* nothing foreign; the idle clock runs */
	DEV_HOLDING,  /* a holder was started and does not have the memory yet */
	DEV_HELD,     /* our holder has the memory */
	DEV_YIELDING, /* the holder was told to let go and has not said that it did */
	DEV_LEFT,     /* left for others, or not selected: never touched */
	DEV_LENDING,  /* the holder was told to let go for a task of ours, and has not yet */
	DEV_LENT,     /* a task has it; our context may stay beside it as a placeholder */
	DEV_STATE_MAX
};

enum dev_event {
	EV_CLEAR,    /* a look found nothing foreign */
	EV_FOREIGN,  /* a look found a foreign process, or memory in use that is not ours */
	EV_BLIND,    /* we cannot see: NVML failed or hangs (invariant 3) */
	EV_READY,    /* idle for long enough, and somebody wants it held */
	EV_UNWANTED, /* nobody wants it held any more */
	EV_LEAVE,    /* the policies leave it for others */
	EV_TAKE,     /* a policy selects it again */
	EV_HELD,     /* the holder has the memory */
	EV_FREED,    /* the holder has let go of the memory */
	EV_GONE,     /* the holder process has ended */
	EV_STUCK,    /* the holder did not answer within its limit */
	EV_LEND,     /* a task that was granted runs there and nothing is held */
	EV_OURS,     /* a task that was granted uses a device that is held */
	EV_RETURNED, /* all tasks on it are over and a look found nothing foreign */
	EV_AWAY,     /* all tasks on it are over and somebody foreign is there */
	DEV_EVENT_MAX
};

enum dev_action {
	ACT_NONE,
	ACT_START,   /* start a holder */
	ACT_RELEASE, /* tell the holder to let go of the memory in place */
	ACT_SETTLE,  /* memory is free: drop the context gently, a little later */
	ACT_KEEP,    /* memory is free: the context stays, it is seen while the task's is not */
	ACT_KILL,    /* end the holder process now */
	ACT_MAX
};

struct dev_step {
	enum dev_state next;
	enum dev_action action;
};

struct dev_step dev_state_step(enum dev_state state, enum dev_event event);

/* Lower-case words for status and logs; "?" out of range. */
const char *dev_state_name(unsigned int state);
/* The same of a device with flags of proto.h: "mig", of a card whose instances are the devices, and
 * "unseen", which NVML does not show, unless a task has it. */
const char *dev_state_shown(unsigned int state, uint32_t flags);
const char *dev_event_name(unsigned int event);

#endif
