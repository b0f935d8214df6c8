/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_REPORT_SENTENCE_H
#define TENURE_AGENT_REPORT_SENTENCE_H

/*
 * What kinds of events there are, and how an event and a device are said in one line for people:
 * the sentence is made of what programs read, and never the other way round. The log, the command
 * line and the status show the same text. docs/json.md has the members of each kind. Pure; names
 * has those of users (NULL: numbers).
 */

#include <jansson.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "hold/proto.h"

/* What an agent tells of itself and its tasks; before them come the guard's (hold/event.h). */
enum own_event {
	OWN_AGENT = EVENT_KIND_MAX, /* a sentence, and nothing for programs */
	OWN_AGENT_STARTED,
	OWN_DEADLINE, /* it will end by itself, and soon */
	OWN_DRAINING,
	OWN_ENDING,
	OWN_GUARD_LOST,
	OWN_GUARD_FOUND, /* another one, in its place */
	OWN_NODE_LOST,	 /* an agent of another node, and not because it was told to end */
	OWN_TASK_STARTED,
	OWN_TASK_ADOPTED,
	OWN_TASK_ENDED,	  /* an attempt */
	OWN_TASK_PAUSED,  /* by us, since it fails again and again */
	OWN_TASK_REFUSED, /* its file is in bad/ */
	OWN_TASK_TROUBLE, /* something of it cannot be done so far, or has been lost */
	OWN_STUCK,	  /* a task computes nothing while its device is busy (node/stuck.h) */
	OWN_LANE_PAUSED,
	OWN_SCALED,
	OWN_ALLOCATED,
	OWN_RELEASED,
	OWN_FREE,
	OWN_QUARANTINE,
	OWN_ASKED,    /* another user asks for a device of a task (agent/asks.h) */
	OWN_ANSWERED, /* and has an answer, or needs none any more */
	OWN_METER,    /* what was held and yielded since the last one (agent/meter.h) */
	OWN_EVENT_MAX
};

/* "gpu 2  held 117.3 GiB in 0.46 s (light load, 75 %)". policy: of the instance that holds. */
void sentence_event(const struct guard_event *ev, int32_t mig, const struct hold_policy *policy,
		    const struct user_names *names, struct strbuf *out);

/* "gpu 1  busy: PID 4242, alice, python train.py, 0.5 GiB". now_ns is CLOCK_MONOTONIC. */
void sentence_device(const struct dev_status *dev, const char *own, uint64_t now_ns,
		     const struct user_names *names, struct strbuf *out);

/* The event for programs, but for its sentence. New reference. */
json_t *sentence_event_json(const struct guard_event *ev, int32_t mig, int32_t guard_pid,
			    const struct user_names *names);

/* An own event of that kind with these members. Not of OWN_AGENT, whose sentence is said as it is.
 */
void sentence_own(enum own_event kind, const json_t *members, struct strbuf *out);

/* Of any kind. "agent" of one that is none. */
const char *sentence_kind(uint32_t kind);
/* How much it matters to people; members: of an own event, some of which depend on them. The
 * guard's that are for programs alone are of the debug level. */
enum log_level sentence_level(uint32_t kind, const json_t *members);

#endif
