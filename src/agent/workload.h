/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_WORKLOAD_H
#define TENURE_AGENT_WORKLOAD_H

/* The workload (agent/attempt/workload.h) beside the queue: when it is wanted, and where no task
 * is. */

#include "agent/tasksin.h"

struct fillers *workload_new(struct tasks *q);
/* After each plan. */
void workload_look(struct tasks *q);

/* Once a second. why: nobody watches the devices for people, so nothing runs there; NULL. */
void workload_watch(struct tasks *q, const char *why);

#endif
