/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_TASK_EVENTS_H
#define TENURE_AGENT_TASK_EVENTS_H

/* What is told of tasks, as events: docs/json.md has their members. */

#include "agent/attempt/attempt.h"
#include "agent/node/stuck.h"
#include "agent/report/eventlog.h"

void task_events_started(const struct attempt_place *p, const struct attempt *a);
/* How an attempt has ended, and what becomes of its task. */
void task_events_ended(const struct attempt_place *p, const struct attempt *a,
		       const struct retry_verdict *v);
/* It had been stopped while its end was being written, and does not run again. */
void task_events_taken_back(const struct attempt_place *p, struct sched_ref ref);
/* An earlier agent has started it. */
void task_events_adopted(const struct attempt_place *p, struct sched_ref ref,
			 const struct task_spec *spec);

/* Devices whose tasks compute nothing; all: by slot (node/stuck.h). */
void task_events_look_stuck(const struct attempt_place *p, struct stuck *all);

#endif
