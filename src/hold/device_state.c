/* SPDX-License-Identifier: MIT */
#include "hold/device_state.h"

#include <stdbool.h>

#include "base/mem.h"
#include "hold/proto.h"

struct row {
	bool set;
	struct dev_step step;
};

#define TO(next_, act_)                                                                            \
	{                                                                                          \
		.set = true, .step = {.next = (next_), .action = (act_) }                          \
	}

/* What DEV_HOLDING and DEV_HELD have in common: there is a holder, and it may have to go. */
#define LETS_GO                                                                                    \
	[EV_FOREIGN] = TO(DEV_YIELDING, ACT_RELEASE), [EV_BLIND] = TO(DEV_YIELDING, ACT_RELEASE),  \
	[EV_UNWANTED] = TO(DEV_YIELDING, ACT_RELEASE), [EV_LEAVE] = TO(DEV_YIELDING, ACT_RELEASE), \
	[EV_OURS] = TO(DEV_LENDING, ACT_RELEASE), [EV_GONE] = TO(DEV_BUSY, ACT_NONE),              \
	[EV_STUCK] = TO(DEV_YIELDING, ACT_KILL)

static const struct row table[][DEV_EVENT_MAX] = {
	[DEV_BUSY] = {
		[EV_CLEAR] = TO(DEV_IDLE, ACT_NONE),
		[EV_LEAVE] = TO(DEV_LEFT, ACT_NONE),
		[EV_LEND] = TO(DEV_LENT, ACT_NONE),
	},
	[DEV_IDLE] = {
		[EV_FOREIGN] = TO(DEV_BUSY, ACT_NONE),
		[EV_BLIND] = TO(DEV_BUSY, ACT_NONE),
		[EV_READY] = TO(DEV_HOLDING, ACT_START),
		[EV_LEAVE] = TO(DEV_LEFT, ACT_NONE),
		[EV_LEND] = TO(DEV_LENT, ACT_NONE),
	},
	[DEV_HOLDING] = {
		[EV_HELD] = TO(DEV_HELD, ACT_NONE),
		LETS_GO,
	},
	[DEV_HELD] = {
		LETS_GO,
	},
	[DEV_YIELDING] = {
		/* It had just finished taking the memory when the order to let go was on its way. */
		[EV_HELD] = TO(DEV_YIELDING, ACT_RELEASE),
		[EV_FREED] = TO(DEV_BUSY, ACT_SETTLE),
		[EV_GONE] = TO(DEV_BUSY, ACT_NONE),
		[EV_STUCK] = TO(DEV_YIELDING, ACT_KILL),
	},
	[DEV_LEFT] = {
		[EV_TAKE] = TO(DEV_BUSY, ACT_NONE),
		[EV_LEND] = TO(DEV_LENT, ACT_NONE),
	},
	[DEV_LENDING] = {
		[EV_HELD] = TO(DEV_LENDING, ACT_RELEASE),
		[EV_FREED] = TO(DEV_LENT, ACT_KEEP),
		[EV_GONE] = TO(DEV_LENT, ACT_NONE),
		[EV_STUCK] = TO(DEV_LENDING, ACT_KILL),
	},
	[DEV_LENT] = {
		[EV_RETURNED] = TO(DEV_IDLE, ACT_NONE),
		[EV_AWAY] = TO(DEV_BUSY, ACT_NONE),
	},
};
_Static_assert(ARRAY_LEN(table) == DEV_STATE_MAX, "a row for every state");

struct dev_step dev_state_step(enum dev_state state, enum dev_event event)
{
	if ((unsigned int)state < DEV_STATE_MAX && (unsigned int)event < DEV_EVENT_MAX &&
	    table[state][event].set)
		return table[state][event].step;
	return (struct dev_step){ .next = state, .action = ACT_NONE };
}

static const char *const state_names[] = {
	[DEV_BUSY] = "busy",	   [DEV_IDLE] = "idle",		[DEV_HOLDING] = "holding",
	[DEV_HELD] = "held",	   [DEV_YIELDING] = "yielding", [DEV_LEFT] = "left",
	[DEV_LENDING] = "lending", [DEV_LENT] = "lent",
};
_Static_assert(ARRAY_LEN(state_names) == DEV_STATE_MAX, "a name for every state");

static const char *const event_names[] = {
	[EV_CLEAR] = "clear", [EV_FOREIGN] = "foreign",	  [EV_BLIND] = "blind",
	[EV_READY] = "ready", [EV_UNWANTED] = "unwanted", [EV_LEAVE] = "leave",
	[EV_TAKE] = "take",   [EV_HELD] = "held",	  [EV_FREED] = "freed",
	[EV_GONE] = "gone",   [EV_STUCK] = "stuck",	  [EV_LEND] = "lend",
	[EV_OURS] = "ours",   [EV_RETURNED] = "returned", [EV_AWAY] = "away",
};
_Static_assert(ARRAY_LEN(event_names) == DEV_EVENT_MAX, "a name for every event");

const char *dev_state_name(unsigned int state)
{
	return state < DEV_STATE_MAX ? state_names[state] : "?";
}

const char *dev_state_shown(unsigned int state, uint32_t flags)
{
	if (flags & DEVICE_MIG_CARD)
		return "mig";
	return flags & DEVICE_UNSEEN && state != DEV_LENT ? "unseen" : dev_state_name(state);
}

const char *dev_event_name(unsigned int event)
{
	return event < DEV_EVENT_MAX ? event_names[event] : "?";
}
