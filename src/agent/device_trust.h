/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_DEVICE_TRUST_H
#define TENURE_AGENT_DEVICE_TRUST_H

/*
 * Which devices get tasks, by agent/node/quarantine.h: this agent's tasks are told to it, its file
 * is read and written by jobs of the spooler, and what it says is there for the plan and for people
 * by slot. On the loop.
 */

#include "agent/attempt/attempt.h"
#include "agent/node/view.h"
#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"

struct device_trust;

/* All that it is given outlives it. changed: a device gets tasks, or gets none any more. */
struct device_trust *device_trust_new(const struct view *view, struct spooler *spooler,
				      struct eventlog *eventlog, void (*changed)(void *user),
				      void *user);
/* What is told of its devices from now on is not of who had them before. */
void device_trust_on_granted(struct device_trust *t, const struct attempt *a);
/* The agent ends: what is not written yet is, and what ends meanwhile. */
void device_trust_end(struct device_trust *t);
/* The spooler is idle. */
void device_trust_free(struct device_trust *t);

/* An attempt is over and filed. */
void device_trust_on_over(struct device_trust *t, const struct attempt *a, bool well);
/* The view's devices may have changed: before what is there is planned with. Its file has been read
 * by then, as a job that was given to the spooler before any that opens the queue. */
void device_trust_look(struct device_trust *t);
/* Once a second: its time, and what other agents and commands have said. */
void device_trust_watch(struct device_trust *t);
/* By slot; valid as long as t. */
const struct view_quarantine *device_trust_view(const struct device_trust *t);

#endif
