/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_EVENT_H
#define TENURE_HOLD_EVENT_H

/*
 * What happened, as the guard tells it (guard/event_ring.h keeps it, MSG_EVENT brings it). The
 * sentences are agent/report/sentence.h's, the members for programs docs/json.md's.
 */

#include <stdint.h>

#include "hold/dev_reason.h"
#include "hold/lease_id.h"

#define EVENT_RING 512U /* so many are kept for an agent that was away */

enum event_kind {
	EVENT_NOTE,	/* a sentence for the log */
	EVENT_START,	/* a holder was started */
	EVENT_HELD,	/* it holds; took_ns, bytes */
	EVENT_YIELD,	/* let go for something foreign: all the latencies */
	EVENT_RELEASE,	/* let go because it was told to, or nobody wants it */
	EVENT_BLIND,	/* let go because we could not see */
	EVENT_GONE,	/* the holder and its context are gone */
	EVENT_FAILED,	/* a hold did not come about, or a holder had to be killed */
	EVENT_LOST,	/* NVML or a device was lost */
	EVENT_BACK,	/* and is back */
	EVENT_STATE,	/* a device changed between busy, idle, left and lent */
	EVENT_LENT,	/* handed over to our own task: the same latencies as of a yield */
	EVENT_RETURNED, /* the last task on it is over and NVML agrees; took_ns since it was over */
	EVENT_KIND_MAX
};

struct guard_event {
	uint64_t seq; /* from 1, without gaps, per guard */
	uint64_t wall_ns;
	uint32_t kind;	/* enum event_kind */
	int32_t slot;	/* device, or -1 */
	uint32_t index; /* of the card, where slot >= 0 */
	uint32_t state; /* enum dev_state after it */
	char uuid[96];
	char instance[PROTO_INSTANCE_MAX];
	struct dev_reason reason; /* the sentence; complete without the figures below */
	/* EVENT_YIELD, EVENT_LENT: */
	int32_t pid;		      /* the newcomer or the task, or 0 where only memory showed */
	uint32_t uid;		      /* its user, or DEV_REASON_NO_UID */
	char command[64];	      /* its command, or empty */
	uint64_t hint_to_verdict_ns;  /* first open of a node -> verdict; 0 = there was no hint */
	uint64_t verdict_to_freed_ns; /* verdict -> the holder had let go */
	uint64_t bytes;		      /* EVENT_HELD: held; EVENT_YIELD, EVENT_RELEASE: freed */
	uint64_t took_ns;	      /* EVENT_HELD: decision -> held */
	struct lease_id lease;	      /* EVENT_LENT, EVENT_RETURNED: whose; else zeroes */
};

const char *event_kind_name(uint32_t kind);

#endif
