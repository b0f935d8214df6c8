/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_WORKLOAD_H
#define TENURE_AGENT_WORKLOAD_H

/* The workload (agent/filler.h) beside the queue: when it is wanted, and where no task is. */

#include "agent/tasksin.h"

struct fillers *workload_new(struct tasks *q, const struct tasks_config *c);
/* After each plan. */
void workload_look(struct tasks *q);

#endif
